package deadlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

var (
	// ErrVersion is returned when a message is of another version of the wire form.
	ErrVersion = errors.New("deadlock: message of an unknown version")
	// ErrTooBig is returned when a message is above the size cap, before it is
	// decoded, or when one waiter alone does not fit into a message.
	ErrTooBig = errors.New("deadlock: message too big")
	// ErrMalformed is returned when a message is anything else than the wire form.
	ErrMalformed = errors.New("deadlock: malformed message")
)

const wireVersion = 1

// Kind says what a message is for.
type Kind string

const (
	// Full is a node's whole list, in one or more parts of the same sequence number.
	Full Kind = "full"
	// Delta is what changed since the node's message before.
	Delta Kind = "delta"
	// Alive repeats a list that is too long to be sent each time: its size and
	// sum. Who knows another list asks.
	Alive Kind = "alive"
	// Ask makes the addressed node, or every other node, answer with its Full.
	Ask Kind = "ask"
)

// Message is the decoded wire form. What a kind does not use is ignored.
type Message struct {
	Node        string
	Incarnation int64 // rises when a node starts anew; its Seq starts again
	Seq         int64 // from 1, one per message (parts share it); 0 for Ask
	Kind        Kind
	Part, Parts int      // Full: Part counts from 0
	Put         []Waiter // Full, Delta
	Removed     []string // Delta: ids
	Waiters     int      // Alive: size of the list
	Sum         uint64   // Alive: sum of the list
	To          string   // Ask: node asked; empty for all
}

// wire is the JSON of a message.
type wire struct {
	V       int               `json:"v"`
	Node    string            `json:"node"`
	Inc     int64             `json:"inc"`
	Seq     int64             `json:"seq,omitempty"`
	Kind    Kind              `json:"kind"`
	Part    int               `json:"part,omitempty"`
	Parts   int               `json:"parts,omitempty"`
	Put     []json.RawMessage `json:"put,omitempty"`
	Removed []string          `json:"del,omitempty"`
	Waiters int               `json:"waiters,omitempty"`
	Sum     uint64            `json:"sum,omitempty,string"`
	To      string            `json:"to,omitempty"`
}

func (m Message) wire() wire {
	return wire{V: wireVersion, Node: m.Node, Inc: m.Incarnation, Seq: m.Seq, Kind: m.Kind, Waiters: m.Waiters, Sum: m.Sum, To: m.To}
}

// Encode gives the JSON of m, split so that no part is above the size cap.
// Part and Parts are set by the split. A part of a Delta is a Delta.
func Encode(m Message, l Limits) ([][]byte, error) {
	l = l.withDefaults()
	p, err := newPacker(m, l)
	if err != nil {
		return nil, err
	}
	for _, w := range m.Put {
		raw, err := encodeWaiter(w)
		if err != nil {
			return nil, err
		}
		if err := p.add(raw, func(part *wire) { part.Put = append(part.Put, raw) }); err != nil {
			return nil, err
		}
	}
	for _, id := range m.Removed {
		raw, err := json.Marshal(id)
		if err != nil {
			return nil, fmt.Errorf("deadlock: encode: %w", err)
		}
		if err := p.add(raw, func(part *wire) { part.Removed = append(part.Removed, id) }); err != nil {
			return nil, err
		}
	}
	return p.marshal(m)
}

// encodeWaiter leaves out a count of one: it is what no count means.
func encodeWaiter(w Waiter) (json.RawMessage, error) {
	if w.Count == 1 {
		w.Count = 0
	}
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("deadlock: encode: %w", err)
	}
	return raw, nil
}

// packer fills parts one after the other.
type packer struct {
	room, used int
	parts      []wire
}

func newPacker(m Message, l Limits) (*packer, error) {
	header := m.wire()
	header.Part, header.Parts = math.MaxInt32, math.MaxInt32
	empty, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("deadlock: encode: %w", err)
	}
	return &packer{room: l.MessageBytes - len(empty) - len(`,"put":[],"del":[]`), parts: []wire{m.wire()}}, nil
}

func (p *packer) add(raw []byte, put func(*wire)) error {
	size := len(raw) + len(",")
	if size > p.room {
		return fmt.Errorf("%w: one waiter of %d bytes", ErrTooBig, len(raw))
	}
	if p.used+size > p.room {
		next := p.parts[0]
		next.Put, next.Removed = nil, nil
		p.parts, p.used = append(p.parts, next), 0
	}
	p.used += size
	put(&p.parts[len(p.parts)-1])
	return nil
}

func (p *packer) marshal(m Message) ([][]byte, error) {
	out := make([][]byte, len(p.parts))
	for i, part := range p.parts {
		if m.Kind == Full {
			part.Part, part.Parts = i, len(p.parts)
		}
		data, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("deadlock: encode: %w", err)
		}
		out[i] = data
	}
	return out, nil
}

// Decode reads one message. It refuses, in this order, what is above the size
// cap (unread), not UTF-8 or not JSON, of another version, and whatever breaks
// the form or a cap. Its errors never quote the message.
func Decode(data []byte, l Limits) (Message, error) {
	l = l.withDefaults()
	if len(data) > l.MessageBytes {
		return Message{}, fmt.Errorf("%w: %d bytes", ErrTooBig, len(data))
	}
	var version struct {
		V int `json:"v"`
	}
	if !utf8.Valid(data) || json.Unmarshal(data, &version) != nil {
		return Message{}, fmt.Errorf("%w: not JSON", ErrMalformed)
	}
	if version.V != wireVersion {
		return Message{}, fmt.Errorf("%w: %d", ErrVersion, version.V)
	}
	var w wire
	if json.Unmarshal(data, &w) != nil {
		return Message{}, fmt.Errorf("%w: a field of another type", ErrMalformed)
	}
	m := Message{
		Node: w.Node, Incarnation: w.Inc, Seq: w.Seq, Kind: w.Kind, Part: w.Part, Parts: w.Parts,
		Removed: w.Removed, Waiters: w.Waiters, Sum: w.Sum, To: w.To,
	}
	if err := m.check(l, len(w.Put)); err != nil {
		return Message{}, err
	}
	for _, raw := range w.Put {
		waiter, err := decodeWaiter(raw, m.Node, l)
		if err != nil {
			return Message{}, err
		}
		m.Put = append(m.Put, waiter)
	}
	return m, nil
}

func decodeWaiter(raw json.RawMessage, node string, l Limits) (Waiter, error) {
	var w Waiter
	if json.Unmarshal(raw, &w) != nil {
		return Waiter{}, fmt.Errorf("%w: waiter", ErrMalformed)
	}
	if err := w.check(l); err != nil {
		return Waiter{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	w.Node, w.Count = node, max(1, w.Count)
	return w, nil
}

func (m *Message) check(l Limits, puts int) error {
	lists := m.Kind == Full || m.Kind == Delta
	switch {
	case !between(m.Node, 1, maxIDBytes), !between(m.To, 0, maxIDBytes):
		return fmt.Errorf("%w: node", ErrMalformed)
	case m.Incarnation <= 0:
		return fmt.Errorf("%w: incarnation", ErrMalformed)
	case m.Kind != Full && m.Kind != Delta && m.Kind != Alive && m.Kind != Ask:
		return fmt.Errorf("%w: kind", ErrMalformed)
	case m.Seq < 0 || m.Seq == 0 && m.Kind != Ask:
		return fmt.Errorf("%w: sequence number", ErrMalformed)
	case m.Kind == Full && (m.Part < 0 || m.Part >= m.Parts || m.Parts > l.maxParts()):
		return fmt.Errorf("%w: part", ErrMalformed)
	case !lists && puts > 0, m.Kind != Delta && len(m.Removed) > 0, puts > l.WaitersPerNode:
		return fmt.Errorf("%w: list", ErrMalformed)
	case m.Waiters < 0:
		return fmt.Errorf("%w: size of the list", ErrMalformed)
	}
	for _, id := range m.Removed {
		if !between(id, 1, maxIDBytes) {
			return fmt.Errorf("%w: removed id", ErrMalformed)
		}
	}
	return nil
}

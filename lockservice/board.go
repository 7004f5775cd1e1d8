package lockservice

import (
	"context"
	"encoding/json"
	"slices"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/deadlock"
	"github.com/redislockservice/redislockservice/internal/lane"
)

// Messages may not get through: the channel is denied, the subscription is cut
// again and again. So with each poll a node on which somebody waits also leaves
// its list under a key of its own, and fetches the lists of those nodes that it
// finds in its waiters' way, and of those in their way, and so on. A deadlock
// that no message told is found that way within two poll delays.
const (
	maxPostBytes = 256 << 10 // of one node's list; a longer one is not left
	maxPostNodes = 64        // whose lists one fetch takes in
	maxPostHops  = 16
	maxPostNames = 256 // whose records one hop reads
)

// postLocked starts a post, unless nobody waits or one is still under way.
func (d *detector) postLocked() {
	var names []string
	for _, c := range d.parked {
		if c.announced && len(names) < maxPostNames {
			names = appendWants(names, &c.waiter)
		}
	}
	if len(names) == 0 || d.posting || d.s.posts == nil {
		return
	}
	slices.Sort(names)
	list := d.table.Full()
	d.posting = true
	d.done.Go(func() {
		d.post(list, unique(names))
		d.mu.Lock()
		d.posting = false
		d.mu.Unlock()
		d.kick()
	})
}

func appendWants(names []string, w *deadlock.Waiter) []string {
	for _, want := range w.Wants {
		names = append(names, want.Name)
	}
	return names
}

func (d *detector) post(list [][]byte, names []string) {
	ctx, cancel := context.WithTimeout(d.ctx, d.s.cfg.opTimeout)
	defer cancel()
	if err := d.leave(ctx, list); err != nil {
		d.s.log.Debug("who waits here could not be left for the other nodes", zap.Error(err))
		return
	}
	seen := map[string]bool{d.s.node: true}
	for range maxPostHops {
		nodes, err := d.nodesInTheWay(ctx, names, seen)
		if err != nil || len(nodes) == 0 {
			return
		}
		names = nil
		for _, node := range nodes {
			names = append(names, d.fetch(ctx, node)...)
		}
		if names = unique(names); len(names) == 0 {
			return
		}
		names = names[:min(len(names), maxPostNames)]
	}
}

// leave puts the list where others find it, for as long as it may be believed.
func (d *detector) leave(ctx context.Context, list [][]byte) error {
	texts := make([]string, len(list))
	for i, m := range list {
		texts[i] = string(m)
	}
	data, err := json.Marshal(texts)
	if err != nil || len(data) > maxPostBytes {
		return err
	}
	return d.s.posts.Put(ctx, d.s.cfg.keys.Graph(d.s.node), data, 3*d.s.cfg.pollDelay)
}

// nodesInTheWay are those that hold, or wait to write, one of the names.
func (d *detector) nodesInTheWay(ctx context.Context, names []string, seen map[string]bool) ([]string, error) {
	r, err := d.s.lane.Read(ctx, names)
	if err != nil {
		return nil, err
	}
	var nodes []string
	add := func(node string, alive bool) {
		if alive && !seen[node] && len(seen) <= maxPostNodes {
			seen[node] = true
			nodes = append(nodes, node)
		}
	}
	for _, name := range names {
		eachNode(r, name, add)
	}
	return nodes, nil
}

func eachNode(r lane.Reading, name string, add func(node string, alive bool)) {
	rec, ok := r.Records[name]
	if !ok {
		return
	}
	now := r.At.Millis()
	if w := rec.WriteOwner; w != nil {
		add(w.Node, w.Alive(now))
	}
	for i := range rec.ReadOwners {
		add(rec.ReadOwners[i].Node, rec.ReadOwners[i].Alive(now))
	}
	for i := range rec.Waiting {
		add(rec.Waiting[i].Node, rec.Waiting[i].Write && rec.Waiting[i].Alive(now))
	}
}

// fetch takes in what another node has left, as if it had been heard, and
// returns what is waited for there. It is a hint like any message.
func (d *detector) fetch(ctx context.Context, node string) (names []string) {
	data, err := d.s.posts.Get(ctx, d.s.cfg.keys.Graph(node))
	if err != nil || len(data) > maxPostBytes {
		return nil
	}
	var texts []string
	if json.Unmarshal(data, &texts) != nil {
		return nil
	}
	for _, text := range texts {
		m, err := deadlock.Decode([]byte(text), deadlock.Limits{})
		if err != nil || m.Node != node {
			continue
		}
		d.heard(text)
		for i := range m.Put {
			names = appendWants(names, &m.Put[i])
		}
	}
	return names
}

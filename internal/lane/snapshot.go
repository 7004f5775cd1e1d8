package lane

import (
	"bytes"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// maxAge is how old a watched snapshot may be when something is decided on it.
// The WATCH guards the data, so age costs no safety; it bounds how far local
// time is trusted to tell Redis' time.
const maxAge = time.Second

// entry is one record as it was read.
type entry struct {
	key string
	rec lockrules.Record
	raw []byte // what rec was decoded from or encoded to; nil: the key does not exist
	err error  // *Corrupt
}

// snapshot is what the connection watches and what it read.
type snapshot struct {
	entries map[string]*entry // by lock name
	server  *lockrules.Server
	rawSrv  []byte
	srvErr  error
	seen    lockrules.Sighting
	micros  int64
	asked   time.Duration // local time before TIME was asked for
	replied time.Duration // local time after its reply came
}

// at is a moment of Redis' time that is not later than the real one at local
// time t, and the local moment at or before which it was.
func (s *snapshot) at(t time.Duration) (now lockrules.Instant, asked time.Duration) {
	since := t - s.replied
	return lockrules.Instant(s.micros + since.Microseconds()), s.asked + since
}

// local is the first local moment at which the snapshot's Redis time has reached at.
func (s *snapshot) local(at lockrules.Millis) time.Duration {
	return s.replied + time.Duration(int64(at)*1000-s.micros)*time.Microsecond
}

func (s *snapshot) covers(names []string, now time.Duration) bool {
	if s == nil || now-s.replied > maxAge {
		return false
	}
	for _, name := range names {
		if _, ok := s.entries[name]; !ok {
			return false
		}
	}
	return true
}

// newSnapshot decodes what was read. The first value is the server's memory.
func (l *Lane) newSnapshot(names []string, x exchange.Snapshot, asked, replied time.Duration, old *snapshot) *snapshot {
	s := &snapshot{entries: make(map[string]*entry, len(names)), micros: x.Micros, asked: asked, replied: replied,
		seen: lockrules.Sighting{RunID: x.RunID, Uptime: x.Uptime}}
	l.takeServer(s, x.Values[0], old)
	for i, name := range names {
		s.entries[name] = l.entryOf(name, x.Values[i+1])
	}
	return s
}

// keyOf is the key of a name's record. That of a name that was used a short
// while ago is at hand.
func (l *Lane) keyOf(name string) string {
	if e := l.decoded[name]; e != nil {
		return e.key
	}
	return l.cfg.Keys.Lock(name)
}

// maxDecoded bounds the records that are kept decoded.
const maxDecoded = 1024

// entryOf decodes a value, unless it has the bytes that were read or written for
// the name last: mostly nobody else has written it meanwhile.
func (l *Lane) entryOf(name string, v exchange.Value) *entry {
	if e := l.decoded[name]; e != nil && sameBytes(e.raw, v) {
		return e
	}
	e := l.newEntry(name, v)
	if e.err == nil && e.raw != nil {
		l.keepDecoded(name, e)
	} else {
		delete(l.decoded, name)
	}
	return e
}

func (l *Lane) keepDecoded(name string, e *entry) {
	if len(l.decoded) >= maxDecoded {
		clear(l.decoded)
	}
	l.decoded[name] = e
}

func sameBytes(raw []byte, v exchange.Value) bool {
	return v.Err == nil && v.Exists == (raw != nil) && bytes.Equal(raw, v.Data)
}

func (l *Lane) newEntry(name string, v exchange.Value) *entry {
	key := l.keyOf(name)
	switch {
	case v.Err != nil:
		return &entry{err: &Corrupt{Key: key, Err: v.Err}}
	case !v.Exists:
		return &entry{key: key, rec: lockrules.Empty(name)}
	}
	rec, err := decodeRecord(l.cfg.JSON, name, v.Data)
	if err != nil {
		return &entry{err: &Corrupt{Key: key, Err: err}}
	}
	return &entry{key: key, rec: rec, raw: v.Data}
}

func (l *Lane) takeServer(s *snapshot, v exchange.Value, old *snapshot) {
	switch {
	case v.Err != nil:
		s.srvErr = &Corrupt{Key: l.serverKey, Err: v.Err}
	case !v.Exists:
	case old != nil && old.server != nil && bytes.Equal(old.rawSrv, v.Data):
		s.server, s.rawSrv = old.server, old.rawSrv
	default:
		var err error
		if s.server, err = decodeServer(l.cfg.JSON, v.Data); err != nil {
			s.srvErr = &Corrupt{Key: l.serverKey, Err: err}
		}
		s.rawSrv = v.Data
	}
}

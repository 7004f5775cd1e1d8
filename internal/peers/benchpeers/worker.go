package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// peerRole is the role of the processes that are measured.
const peerRole = "peer"

// workerConfig is what such a process is started with.
type workerConfig struct {
	Kind  string
	Addr  string
	Lease time.Duration
}

// worker is such a process: one peer, and what the jobs have it do.
type worker struct {
	peer peer
	one  contender      // of take
	held func() error   // by take, until give
	kept []func() error // by hold, for good
	bare float64        // the memory before hold
}

func runWorker(text json.RawMessage) (map[string]rig.Handler, func(), error) {
	var c workerConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil, err
	}
	k, known := find(c.Kind)
	if !known {
		return nil, nil, fmt.Errorf("no peer %q", c.Kind)
	}
	p, err := k.open(openConfig{c.Addr, c.Lease})
	if err != nil {
		return nil, nil, err
	}
	w := &worker{peer: p}
	return map[string]rig.Handler{
		"repeat": rig.Handle(w.repeat),
		"crowd":  rig.Handle(w.crowd),
		"take":   rig.Handle(w.take),
		"give":   rig.Handle(w.give),
		"queue":  rig.Handle(w.queue),
		"loop":   rig.Handle(w.loop),
		"hold":   rig.Handle(w.hold),
		"memory": rig.Handle(w.memory),
	}, p.close, nil
}

// contenders makes several.
func (w *worker) contenders(n int) ([]contender, error) {
	all := make([]contender, n)
	for i := range all {
		var err error
		if all[i], err = w.peer.contender(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

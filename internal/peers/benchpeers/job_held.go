package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

const (
	heldLocks = 2000
	heldLease = 10 * time.Second
)

type holdArgs struct {
	Name  string
	Locks int
}

// hold acquires many locks and keeps them.
func (w *worker) hold(a holdArgs) (struct{}, error) {
	c, err := w.peer.contender()
	if err != nil {
		return struct{}{}, err
	}
	// The first use of a client makes what all share.
	if _, err := c.lock(context.Background(), a.Name); err != nil {
		return struct{}{}, err
	}
	w.bare = rig.Memory()
	for i := range a.Locks {
		release, err := c.lock(context.Background(), fmt.Sprintf("%s-%d", a.Name, i))
		if err != nil {
			return struct{}{}, err
		}
		w.kept = append(w.kept, release)
	}
	return struct{}{}, nil
}

// memory is what the held locks take. It is asked for after the first renewals: a
// library may start what renews only then.
func (w *worker) memory(locks int) (float64, error) {
	return (rig.Memory() - w.bare) / float64(locks), nil
}

// heldServer is a server of one peer's own, for job f.
type heldServer struct {
	kind
	rig.Counter
	addr  string
	close func()
}

// startHeld starts one for each: it counts commands, and nothing is timed, so all
// are measured at once.
func startHeld(peers []kind) ([]heldServer, error) {
	var servers []heldServer
	for _, k := range peers {
		if k.Floor {
			continue
		}
		if k.Etcd {
			s, err := rig.StartEtcd(k.NoFsync)
			if err != nil {
				return servers, err
			}
			servers = append(servers, heldServer{k, s, s.Addr, s.Close})
			continue
		}
		s, err := rig.StartRedis()
		if err != nil {
			return servers, err
		}
		servers = append(servers, heldServer{k, s, s.Addr, s.Close})
	}
	return servers, nil
}

// jobF is 2,000 held locks of each peer.
func (b *bench) jobF(servers []heldServer) {
	samples := make([]sample, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			samples[i] = sample{Job: "f", Peer: s.Key}
			var err error
			began := time.Now()
			if samples[i].Values, err = b.measureHeld(s); err != nil {
				samples[i].Values, samples[i].Why = nil, err.Error()
			}
			progress(samples[i], began)
		})
	}
	wg.Wait()
	b.samples = append(b.samples, samples...)
}

func (b *bench) measureHeld(s heldServer) (values, error) {
	c := workerConfig{Kind: s.Key, Addr: s.addr, Lease: heldLease}
	return rig.WithFleet(peerRole, c, 1, func(fleet []*rig.Process) (values, error) {
		if err := fleet[0].Call("hold", holdArgs{"f", heldLocks}, nil); err != nil {
			return nil, err
		}
		commands, err1 := rig.Counted(s, func() error {
			time.Sleep(b.limits.Idle) // the time over which commands are counted
			return nil
		})
		var bytes float64
		err2 := fleet[0].Call("memory", heldLocks, &bytes)
		v := values{"bytes": bytes}
		if s.Renews {
			v["commands"] = commands / b.limits.Idle.Seconds()
		}
		return v, errors.Join(err1, err2)
	})
}

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// values are a measurement's figures by name.
type values map[string]float64

// sample is one measurement of one peer in one round.
type sample struct {
	Job    string `json:"job"`
	Peer   string `json:"peer"`
	Round  int    `json:"round"`
	Values values `json:"values,omitempty"`
	Why    string `json:"why,omitempty"` // it was not measured
}

// bench is a run: the servers and what was measured.
type bench struct {
	limits  limits
	redis   *rig.Redis
	etcd    *rig.Etcd
	noFsync *rig.Etcd
	unique  int
	samples []sample
}

func newBench(l limits) (*bench, error) {
	b := &bench{limits: l}
	var err1, err2, err3 error
	b.redis, err1 = rig.StartRedis()
	b.etcd, err2 = rig.StartEtcd(false)
	b.noFsync, err3 = rig.StartEtcd(true)
	return b, errors.Join(err1, err2, err3)
}

func (b *bench) close() {
	b.redis.Close()
	b.etcd.Close()
	b.noFsync.Close()
}

func (b *bench) serverOf(k kind) (rig.Counter, string) {
	switch {
	case k.NoFsync:
		return b.noFsync, b.noFsync.Addr
	case k.Etcd:
		return b.etcd, b.etcd.Addr
	default:
		return b.redis, b.redis.Addr
	}
}

// name is a lock that nothing has been done with.
func (b *bench) name(job string) string {
	b.unique++
	return fmt.Sprintf("%s-%d", job, b.unique)
}

// rounds measures all jobs for all peers, one after the other, and begins again: a
// slow moment of the machine hits all alike.
func (b *bench) rounds(jobs []job, peers []kind) {
	for round := range b.limits.Rounds {
		for _, j := range jobs {
			if round >= j.rounds(b.limits) {
				continue
			}
			for _, k := range peers {
				if j.skip(k) {
					continue
				}
				b.measure(j, k, round)
			}
		}
	}
}

func (b *bench) measure(j job, k kind, round int) {
	s := sample{Job: j.key, Peer: k.Key, Round: round}
	began := time.Now()
	var err error
	if s.Values, err = j.run(b, k); err != nil {
		s.Values, s.Why = nil, err.Error()
	}
	b.samples = append(b.samples, s)
	progress(s, began)
}

func progress(s sample, began time.Time) {
	fmt.Fprintf(os.Stderr, "%d %-7s %-22s %5.1fs %s\n", s.Round, s.Job, s.Peer, time.Since(began).Seconds(), s.Why)
}

// fleet starts fresh processes of a peer on a server, and ends them.
func (b *bench) fleet(k kind, n int, do func([]*rig.Process) (values, error)) (v values, err error) {
	_, addr := b.serverOf(k)
	return rig.WithFleet(peerRole, workerConfig{Kind: k.Key, Addr: addr, Lease: b.limits.Lease}, n, do)
}

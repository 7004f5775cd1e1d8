package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// limits are how long each point takes.
type limits struct {
	Rounds int
	Alone  time.Duration
	Loop   time.Duration
	Drain  time.Duration
	Idle   time.Duration
	Lease  time.Duration
}

var (
	full  = limits{Rounds: 3, Alone: 300 * time.Millisecond, Loop: time.Second, Drain: 5 * time.Second, Idle: 5 * time.Second, Lease: 10 * time.Second}
	short = limits{Rounds: 1, Alone: 150 * time.Millisecond, Loop: 300 * time.Millisecond, Drain: 2 * time.Second, Idle: 3 * time.Second, Lease: 5 * time.Second}
)

// point is one measurement.
type point struct {
	Sweep  string `json:"sweep"`
	X      int    `json:"x"`
	Round  int    `json:"round"`
	Values values `json:"values"`
}

// growth is a run.
type growth struct {
	limits   limits
	redis    *rig.Redis
	profiles string // a folder for them, or none
	unique   int
	points   []point
}

// rounds goes through all sweeps and points, and begins again: a slow moment of the
// machine hits all points alike.
func (g *growth) rounds(chosen []sweep) error {
	for round := range g.limits.Rounds {
		for _, s := range chosen {
			for _, x := range s.xs {
				if s.once && round > 0 {
					continue
				}
				if err := g.measure(s, x, round); err != nil {
					return fmt.Errorf("%s %d: %w", s.key, x, err)
				}
			}
		}
	}
	return nil
}

func (g *growth) measure(s sweep, x, round int) error {
	began := time.Now()
	v, err := s.run(g, x)
	if err != nil {
		return err
	}
	g.points = append(g.points, point{s.key, x, round, v})
	fmt.Fprintf(os.Stderr, "%d %-10s %6d %5.1fs\n", round, s.key, x, time.Since(began).Seconds())
	return nil
}

func (g *growth) name(what string) string {
	g.unique++
	return fmt.Sprintf("%s-%d", what, g.unique)
}

// fleet starts fresh processes, and ends them.
func (g *growth) fleet(n int, do func([]*rig.Process) (values, error)) (values, error) {
	return rig.WithFleet(workerRole, workerConfig{g.redis.Addr, g.limits.Lease}, n, do)
}

func (g *growth) profile(p *rig.Process, name string, cpu time.Duration) error {
	if g.profiles == "" {
		return nil
	}
	return p.Call("profile", profileArgs{g.profileFile(name), cpu}, nil)
}

// profileFile is none if no profiles are wanted.
func (g *growth) profileFile(name string) string {
	if g.profiles == "" {
		return ""
	}
	return filepath.Join(g.profiles, name+".pprof")
}

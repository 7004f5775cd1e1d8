package chaos_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/chaos"
	"github.com/redislockservice/redislockservice/internal/redistest"
)

const (
	places     = 4 // worker processes at a time
	perProcess = 4 // clients
	pollDelay  = 500 * time.Millisecond
	opTimeout  = 2 * time.Second
)

// place is where one worker process after the other runs, behind a proxy.
type place struct {
	n       int
	proxy   *redistest.Proxy
	proc    *process
	runs    int
	stopped bool
	cutOff  bool // a network fault is on
	dead    bool // to be started again
	begun   bool // it has been told to begin
}

// controller breaks things, and puts them right again.
type controller struct {
	t       *testing.T
	rng     *rand.Rand
	dir     string
	lease   time.Duration
	aof     bool
	server  *redistest.Server
	void    *redistest.Server // without any data, to be a replica of
	storage *chaos.Storage
	places  []*place
	procs   []*process // all that have run

	undos     []undo
	redisBusy bool // a fault of the server is on
	lossOpen  bool // the server's memory of itself is gone, and nobody has written it again
	snapshot  redistest.Snapshot

	log      []string
	counts   map[string]int
	losses   []int64
	admitted []chaos.Span
	stopped  map[string][]chaos.Span
}

type undo struct {
	at time.Time
	do func()
}

const prefix = "chaos"

func newController(t *testing.T, seed uint64, lease time.Duration, aof bool, dir string, storage *chaos.Storage) *controller {
	t.Helper()
	// Loading is slow enough to be met: some milliseconds for each filler key.
	args := []string{"--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"}
	if aof {
		args = append(args, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	c := &controller{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: dir, lease: lease, aof: aof, storage: storage,
		counts: make(map[string]int), stopped: make(map[string][]chaos.Span)}
	c.server, c.void = redistest.Start(t, redistest.WithArgs(args...)), redistest.Start(t)
	socket := filepath.Join(dir, "s")
	serveStorage(t, storage, socket)
	for n := range places {
		c.places = append(c.places, &place{n: n, proxy: redistest.NewProxy(t, c.server.Addr()), dead: true})
	}
	return c
}

// revive starts the processes that have ended. Not while the server has lost its
// data and nobody has noticed: see the package's admitted case.
func (c *controller) revive() {
	for _, p := range c.places {
		if !p.dead || c.lossOpen {
			continue
		}
		c.start(p)
	}
	for _, p := range c.places {
		if _, ready := p.proc.has("ready"); ready && !p.begun && !p.dead {
			p.begun = true
			p.proc.do("traffic")
		}
	}
}

func (c *controller) start(p *place) {
	p.runs++
	name := fmt.Sprintf("w%d.%d", p.n, p.runs)
	p.proc = spawn(c.t, workerConfig{
		Name: name, URL: "redis://" + p.proxy.Addr() + "/0", Prefix: prefix, Report: filepath.Join(c.dir, name),
		Storage: filepath.Join(c.dir, "s"), Lease: c.lease, Poll: pollDelay, Timeout: opTimeout, Clients: perProcess, Seed: c.rng.Uint64(),
	})
	c.procs = append(c.procs, p.proc)
	p.dead, p.stopped, p.begun = false, false, false
}

// newcomers says whether a process runs that may not have seen the server's memory.
func (c *controller) newcomers() bool {
	return slices.ContainsFunc(c.places, func(p *place) bool {
		if p.dead {
			return false
		}
		_, ready := p.proc.has("ready")
		return !ready
	})
}

// storm runs for so long, with a fault about every second.
func (c *controller) storm(d time.Duration) {
	end := time.Now().Add(d)
	next := time.Now().Add(time.Second)
	for time.Now().Before(end) {
		c.settle(time.Now())
		c.revive()
		if time.Now().After(next) {
			c.breakSomething()
			next = time.Now().Add(time.Second)
		}
		time.Sleep(20 * time.Millisecond) // poll: what is due, and who has died or is ready
	}
}

// settle undoes what is due, and looks whether a loss of data has been noticed.
func (c *controller) settle(now time.Time) {
	for len(c.undos) > 0 && !c.undos[0].at.After(now) {
		u := c.undos[0]
		c.undos = c.undos[1:]
		u.do()
	}
	if c.lossOpen && !c.redisBusy {
		msg := c.server.Do(c.t, "EXISTS", "{"+prefix+"}:server")
		n, err := msg.AsInt64()
		require.NoError(c.t, err)
		c.lossOpen = n == 0
	}
}

func (c *controller) later(d time.Duration, do func()) {
	c.undos = append(c.undos, undo{time.Now().Add(d), do})
	slices.SortStableFunc(c.undos, func(x, y undo) int { return x.at.Compare(y.at) })
}

func (c *controller) note(fault string, format string, args ...any) {
	c.counts[fault]++
	c.log = append(c.log, fmt.Sprintf("%d %s %s", monotonic(), fault, fmt.Sprintf(format, args...)))
}

func (c *controller) breakSomething() {
	var able []fault
	total := 0
	for _, f := range faults {
		if f.redis && c.redisBusy || f.loses && (c.lossOpen || c.newcomers()) || f.only == noAOF && c.aof || f.only == onlyAOF && !c.aof {
			continue
		}
		able = append(able, f)
		total += f.weight
	}
	draw := c.rng.IntN(total)
	for _, f := range able {
		if draw -= f.weight; draw < 0 {
			f.do(c)
			return
		}
	}
}

// victim draws a place whose process runs and isn't hurt yet.
func (c *controller) victim() *place {
	var able []*place
	for _, p := range c.places {
		if !p.dead && !p.stopped && !p.cutOff {
			able = append(able, p)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return able[c.rng.IntN(len(able))]
}

// heal puts everything right, and waits until every process has been granted a lock.
func (c *controller) heal() {
	for len(c.undos) > 0 {
		c.settle(time.Now().Add(time.Hour))
	}
	c.until(time.Minute, "after all faults have ended, every process gets a lock", func() bool {
		c.settle(time.Now())
		c.revive()
		return !c.lossOpen && !c.newcomers() && !slices.ContainsFunc(c.places, func(p *place) bool { return p.dead || !p.begun })
	})
}

// until polls on the goroutine of the test: the condition may end it.
func (c *controller) until(limit time.Duration, what string, done func() bool) {
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) {
			c.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond) // poll: other processes have to get there
	}
}

// history reads what all processes have told.
func (c *controller) history() *chaos.History {
	h := new(chaos.History)
	for _, p := range c.procs {
		file, err := os.Open(p.cfg.Report)
		if os.IsNotExist(err) {
			continue // killed before it began
		}
		require.NoError(c.t, err)
		require.NoError(c.t, h.Read(p.cfg.Name, file))
		require.NoError(c.t, file.Close())
	}
	slices.SortFunc(h.Attempts, func(x, y *chaos.Attempt) int { return cmp.Compare(x.Call, y.Call) })
	return h
}

func (c *controller) stop(p *place, d time.Duration) {
	from := monotonic()
	p.proc.signal(syscall.SIGSTOP)
	p.stopped = true
	proc := p.proc
	c.later(d, func() {
		proc.signal(syscall.SIGCONT)
		c.stopped[proc.cfg.Name] = append(c.stopped[proc.cfg.Name], chaos.Span{From: from, To: monotonic()})
		p.stopped = false
	})
}

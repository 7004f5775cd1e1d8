package peers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

const lease = 3 * time.Second

// scenario is one fault. after says when, counted from the grant; each moment is a
// trial of its own, and the worst counts.
type scenario struct {
	name  string
	after func(renewal time.Duration) []time.Duration
	hurt  func(t *testing.T, x *trial)
	// fresh: the contender begins only after the fault, and has never seen the server.
	fresh  bool
	noEtcd bool
	// admitted: an overlap is documented in docs/guarantees.md.
	admitted bool
}

// early are moments right after the grant.
func early(time.Duration) []time.Duration {
	return []time.Duration{0, 40 * time.Millisecond, 200 * time.Millisecond}
}

// beforeRenewals are moments right before the first and the second renewal, and
// earlier ones: some spread theirs by a tenth.
func beforeRenewals(r time.Duration) []time.Duration {
	return []time.Duration{r*88/100 - 10*time.Millisecond, r - 20*time.Millisecond, 2*r - 20*time.Millisecond}
}

var scenarios = []scenario{
	{name: "black hole right after the grant", after: early, hurt: func(_ *testing.T, x *trial) { x.blackHole() }},
	{name: "black hole right before a renewal", after: beforeRenewals, hurt: func(_ *testing.T, x *trial) { x.blackHole() }},
	{name: "holder stopped (SIGSTOP) for one and a half leases", after: beforeRenewals, hurt: func(_ *testing.T, x *trial) { x.stopHolder() }},
	{name: "FLUSHALL", after: early, noEtcd: true, hurt: func(t *testing.T, x *trial) { t.Helper(); x.server.flush(t) }},
	{name: "FLUSHALL, and the next to come is a new process", after: early, noEtcd: true, fresh: true, admitted: true,
		hurt: func(t *testing.T, x *trial) { t.Helper(); x.server.flush(t) }},
	{name: "restart without data", after: early, hurt: func(t *testing.T, x *trial) { t.Helper(); x.server.restartEmpty(t) }},
	{name: "restart from an old snapshot", after: early, noEtcd: true, hurt: func(t *testing.T, x *trial) { t.Helper(); x.server.restore(t) }},
}

// TestGap measures all, prints the table, and puts it into the file that GAP_DOC
// names. Only this library is held to it: the next holder never comes before the
// last one knows.
func TestGap(t *testing.T) {
	var mu sync.Mutex // guards worst
	worst := make(map[string]time.Duration)
	slots := make(chan struct{}, 4) // trials at a time: they wait, mostly
	t.Run("trials", func(t *testing.T) {
		for _, s := range scenarios {
			for _, k := range Kinds {
				if s.noEtcd && k.Etcd {
					continue
				}
				for _, after := range s.after(k.Renewal(lease)) {
					t.Run(fmt.Sprintf("%s/%s/%v", s.name, k.Name, after), func(t *testing.T) {
						t.Parallel()
						slots <- struct{}{}
						defer func() { <-slots }()
						gap, ok := measure(t, k, s, after)
						if !ok {
							require.NotEqual(t, Kinds[0].Name, k.Name, "the contender got no lock within ten leases")
							t.Log("the contender got no lock within ten leases: nothing to measure")
							return
						}
						t.Logf("gap %v", gap)
						if k.Name == Kinds[0].Name && !s.admitted && gap < 0 {
							t.Errorf("two holders for %v", -gap)
						}
						mu.Lock()
						defer mu.Unlock()
						key := s.name + "/" + k.Name
						if old, ok := worst[key]; !ok || gap < old {
							worst[key] = gap
						}
					})
				}
			}
		}
	})
	text := table(worst)
	fmt.Print(text)
	if doc := os.Getenv("GAP_DOC"); doc != "" {
		require.NoError(t, replaceIn(doc, text))
	}
}

// trial is one holder, one contender and one fault.
type trial struct {
	server server
	proxy  *redistest.Proxy // the holder's way to the server
	holder *holder
	resume *time.Timer
}

func (x *trial) blackHole() {
	x.proxy.PauseUpstream()
	x.proxy.PauseDownstream()
}

func (x *trial) stopHolder() {
	_ = x.holder.os.Signal(syscall.SIGSTOP)
	x.resume = time.AfterFunc(lease*3/2, func() { _ = x.holder.os.Signal(syscall.SIGCONT) })
}

// measure returns the time from the holder's last "I hold it" to the contender's
// grant; ok is false if that didn't come.
func measure(t *testing.T, k Kind, s scenario, after time.Duration) (gap time.Duration, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*lease)
	defer cancel()
	x := &trial{server: startServer(t, k)}
	x.proxy = redistest.NewProxy(t, x.server.Addr())
	contender := open(t, k, x.server.Addr())
	_, err := contender.Lock(t.Context(), "other") // it knows the server
	require.NoError(t, err)
	if s.name == "restart from an old snapshot" {
		x.server.remember(t)
	}
	x.holder = startHolder(t, holderConfig{Kind: k.Name, Addr: x.proxy.Addr(), Name: "lock", Lease: lease})
	poll(t, time.Minute, "the holder has the lock", func() bool { held, _, _ := x.holder.state(); return held })
	if s.fresh {
		contender.Close()
	}
	got := make(chan int64, 1)
	contend := func(p Peer) {
		defer close(got)
		for ctx.Err() == nil { // a server that restarts is an error to some
			if _, err := p.Lock(ctx, "lock"); err == nil {
				got <- monotonic()
				return
			}
			wait(5 * time.Millisecond)
		}
	}
	var running sync.WaitGroup
	if !s.fresh {
		running.Go(func() { contend(contender) })
	}
	wait(after)
	s.hurt(t, x)
	if s.fresh {
		fresh := open(t, k, x.server.Addr())
		running.Go(func() { contend(fresh) })
	}
	next, ok := <-got
	running.Wait()
	if !ok {
		return 0, false
	}
	end := time.Now().Add(3 * lease)
	poll(t, 3*lease+time.Second, "the holder has noticed", func() bool {
		_, _, isFalse := x.holder.state()
		return isFalse || time.Now().After(end) // it may never notice
	})
	if x.resume != nil {
		x.resume.Stop()
	}
	_, last, _ := x.holder.state()
	return time.Duration(next - last), true
}

func open(t *testing.T, k Kind, addr string) Peer {
	t.Helper()
	p, err := k.open(addr, lease)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func poll(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond) // poll: another process has to get there
	}
}

// freeURL is one that nobody listens on just now.
func freeURL(t *testing.T) url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return url.URL{Scheme: "http", Host: listener.Addr().String()}
}

// table is in Markdown: milliseconds of double holding, or "none" and the gap.
func table(worst map[string]time.Duration) string {
	var b strings.Builder
	b.WriteString("| fault |")
	for _, k := range Kinds {
		fmt.Fprintf(&b, " %s |", k.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Kinds)) + "\n")
	for _, s := range scenarios {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, k := range Kinds {
			gap, measured := worst[s.name+"/"+k.Name]
			switch {
			case !measured:
				b.WriteString(" – |")
			case gap < 0 && -gap < time.Millisecond:
				b.WriteString(" **< 1 ms** |")
			case gap < 0:
				fmt.Fprintf(&b, " **%d ms** |", -gap.Milliseconds())
			default:
				fmt.Fprintf(&b, " none (gap %d ms) |", gap.Milliseconds())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

const (
	beginMark = "<!-- gap: begin; written by make gap -->\n"
	endMark   = "<!-- gap: end -->\n"
)

// replaceIn puts the text between the marks of a file.
func replaceIn(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(old), beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no marks for the table", path)
	}
	return os.WriteFile(path, []byte(before+beginMark+text+endMark+after), 0o644)
}

package sim

import (
	"fmt"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// trace is a running hash of what happens in a run: two runs with the same one
// were the same to everybody who looks from outside of the nodes. It is written
// with every step, so it must cost next to nothing.
type trace uint64

const (
	traceStart trace = 14695981039346656037
	tracePrime trace = 1099511628211
)

func (t *trace) number(n int64) {
	x := (*t ^ trace(n)) * tracePrime
	*t = x ^ x>>29
}

func (t *trace) text(s string) {
	x := *t
	for i := range len(s) {
		x = (x ^ trace(s[i])) * tracePrime
	}
	*t = x
}

func (t *trace) flags(all ...bool) {
	n := int64(0)
	for _, is := range all {
		n <<= 1
		if is {
			n++
		}
	}
	t.number(n)
}

// The four things that a trace consists of. Each also is a line of the log.

func (w *World) sawAct(a *act) {
	w.trace.number(time.Since(epoch).Microseconds())
	w.trace.text(a.name)
	if w.cfg.Log {
		w.line("%d %s", time.Since(epoch).Microseconds(), a.name)
	}
}

func (w *World) sawStep(s *Step, f *Fault) {
	w.trace.text(s.Node)
	w.trace.number(int64(s.Phase)<<48 | int64(s.Part)<<32 | int64(s.Number))
	w.trace.flags(s.Writes, f.Lose, f.Cut, f.Late, f.Overtake, f.Repeat > 0)
	w.trace.text(f.Revoke)
	if w.cfg.Log {
		w.line("%v: %v", *s, *f)
	}
}

func (w *World) sawApplied(a *Applied) {
	w.trace.text(a.Node)
	w.trace.number(int64(a.Number))
	w.trace.flags(a.Late)
	w.trace.text(a.RunID)
	w.trace.number(sumOf(a.Writes.Sets))
	for _, m := range a.Writes.Publishes {
		w.trace.text(m.Message)
	}
	if w.cfg.Log {
		w.line("%s applied %d, late %t, by %s: %s", a.Node, a.Number, a.Late, a.RunID[len(a.RunID)-2:], written(a))
	}
}

// sumOf doesn't depend on the order. In one transaction it makes no difference,
// and it is that in which callers came who were woken at the same instant.
func sumOf(sets []exchange.Set) (sum int64) {
	for i := range sets {
		one := traceStart
		one.text(sets[i].Key)
		one.text(string(sets[i].Value))
		sum += int64(one)
	}
	return sum
}

func (w *World) sawFreeze() {
	w.trace.number(time.Since(epoch).Microseconds())
	if w.cfg.Log {
		w.line("%d frozen", time.Since(epoch).Microseconds())
	}
}

func (w *World) line(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func written(a *Applied) string {
	out := ""
	for i := range a.Writes.Sets {
		out += fmt.Sprintf("\n\t%s = %s", a.Writes.Sets[i].Key, a.Writes.Sets[i].Value)
	}
	return out
}

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The operations of the model. What failed is left out: failing is always legal.
// So is what nobody used: an acquire of unknown outcome, and one whose HasLock never
// answered true (it may have been lost before its grant was even returned). A hold that was lost or
// released ends at the end of its certain interval, the earliest legal moment: to
// end earlier only makes more legal.
const (
	opGrant = iota
	opHas
	opEnd
)

type lockInput struct {
	op    int
	id    string
	chain string
	write bool
	token int64
}

// lockState is comparable, as porcupine likes it: "id chain w|r" of each holder,
// sorted, each on a line.
type lockState struct {
	holders  string
	maxToken int64
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) { return lockStep(state.(lockState), input.(lockInput)) },
	DescribeOperation: func(input, _ any) string {
		in := input.(lockInput)
		return fmt.Sprintf("%s %s write=%v token=%d", [...]string{"grant", "has", "end"}[in.op], in.id, in.write, in.token)
	},
	DescribeState: func(state any) string { return fmt.Sprint(state) },
}

func lockStep(s lockState, in lockInput) (bool, any) {
	mine := in.line()
	at := strings.Index(s.holders, mine)
	switch in.op {
	case opHas:
		return at >= 0, s
	case opEnd:
		if at < 0 {
			return false, s
		}
		s.holders = s.holders[:at] + s.holders[at+len(mine):]
		return true, s
	}
	if in.token <= s.maxToken {
		return false, s
	}
	lines := slices.Collect(strings.Lines(s.holders))
	for _, line := range lines {
		f := strings.Fields(line)
		if f[1] != in.chain && (in.write || f[2] == "w") {
			return false, s
		}
	}
	lines = append(lines, mine)
	slices.Sort(lines)
	return true, lockState{strings.Join(lines, ""), in.token}
}

func (in lockInput) line() string {
	mode := "r"
	if in.write {
		mode = "w"
	}
	return in.id + " " + in.chain + " " + mode + "\n"
}

// Linear asks porcupine whether the history of each name is one that a single
// lock could have had. A search that takes longer than the limit counts as a
// violation: it says nothing.
func Linear(h *History, limit time.Duration) []Violation {
	var out []Violation
	for _, name := range h.Names() {
		ops := operations(h.holds(name))
		switch porcupine.CheckOperationsTimeout(lockModel, ops, limit) {
		case porcupine.Ok:
		case porcupine.Illegal:
			out = append(out, Violation{Promise: "linearizable", Detail: fmt.Sprintf("%q: no order of its %d operations is legal", name, len(ops))})
		case porcupine.Unknown:
			out = append(out, Violation{Promise: "linearizable", Detail: fmt.Sprintf("%q: inconclusive within %v for %d operations", name, limit, len(ops))})
		}
	}
	return out
}

func operations(holds []hold) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 3*len(holds))
	slices.SortFunc(holds, func(x, y hold) int { return cmp.Compare(x.Call, y.Call) })
	clients := lanes(holds)
	for i, x := range holds {
		if x.LastTrue == 0 {
			continue
		}
		in := lockInput{id: x.ID, chain: x.Chain, write: x.write, token: x.Token}
		add := func(op int, from, to int64) {
			in.op = op
			ops = append(ops, porcupine.Operation{ClientId: clients[i], Input: in, Call: from, Output: nil, Return: to})
		}
		end := x.Until()
		add(opGrant, x.Call, x.Got)
		add(opHas, end, end)
		add(opEnd, end, end+1)
	}
	return ops
}

// lanes gives holds that overlap different numbers, and few of them: they are the
// lines of porcupine's drawing.
func lanes(holds []hold) []int {
	out := make([]int, len(holds))
	var free []int64 // when each lane is free again
	for i, x := range holds {
		lane := slices.IndexFunc(free, func(at int64) bool { return at < x.Call })
		if lane < 0 {
			lane = len(free)
			free = append(free, 0)
		}
		free[lane] = x.Until() + 1
		out[i] = lane
	}
	return out
}

package deadlock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkOrders lets the waiters, one per node, become known in every order, at a
// stranger and at each of their own nodes. At each step the search from the
// changed waiter must agree with the search of everything, and in the end all
// must name the same.
func checkOrders(t *testing.T, ws []Waiter) {
	t.Helper()
	want := Victims(ws)
	for at := range len(ws) + 1 {
		node := "stranger"
		if at < len(ws) {
			node = ws[at].Node
		}
		permute(len(ws), func(order []int) {
			table := newTestTable(t, node, Limits{})
			for _, i := range order {
				tell(t, table, node, ws[i])
			}
			require.Equal(t, want, table.Deadlocks(), "node %s, order %v", node, order)
		})
	}
}

func tell(t *testing.T, table *Table, node string, w Waiter) {
	t.Helper()
	var changed []Key
	if w.Node == node {
		changed = table.Put(w)
	} else {
		changed = put(table, w, 1, 0).Search
	}
	all, found := table.Deadlocks(), table.Find(changed...)
	for _, d := range found {
		require.Contains(t, all, d)
	}
	for _, d := range all {
		if slices.ContainsFunc(d.Cycle, func(m Waiter) bool { return m.Key() == w.Key() }) {
			require.Contains(t, found, d)
		}
	}
}

func permute(n int, visit func([]int)) {
	order := make([]int, 0, n)
	var next func()
	next = func() {
		if len(order) == n {
			visit(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				next()
				order = order[:len(order)-1]
			}
		}
	}
	next()
}

func TestPermuteVisitsEveryOrder(t *testing.T) {
	t.Parallel()
	n := 0
	permute(4, func([]int) { n++ })
	require.Equal(t, 24, n)
}

// TestFindAgreesWithVictimsOnEveryGraphOfThree: 64 graphs, who holds, every order
// of messages, every node.
func TestFindAgreesWithVictimsOnEveryGraphOfThree(t *testing.T) {
	t.Parallel()
	for code := uint32(0); code < 1<<6; code += (everyGraph + 3) / 4 {
		for plain := range uint32(8) {
			checkOrders(t, realize(graphOf(3, code), plain))
		}
	}
}

// TestEveryOrderOfFourOnEveryNode takes a sample of the graphs of four, with
// -exhaustive all of them.
func TestEveryOrderOfFourOnEveryNode(t *testing.T) {
	t.Parallel()
	var step uint32 = 293 * min(everyGraph, 4)
	if *exhaustive {
		step = 1
	}
	for code := uint32(1<<12 - 1); code < 1<<12; code -= step {
		for plain := range uint32(16) {
			checkOrders(t, realize(graphOf(4, code), plain))
		}
	}
}

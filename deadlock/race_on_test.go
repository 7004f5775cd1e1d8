//go:build race

package deadlock

// The code under test has no goroutines, so the race detector only makes it ten
// times slower: a thinner sample then.
const everyGraph = 16

var walks = []walk{
	{2, 3, 1, tally{graphs: 4392, cyclic: 1672, shapes: 16}},
	{4, 1, 1, tally{graphs: 81, cyclic: 33, shapes: 66}},
	{3, 2, 7, tally{graphs: 876, cyclic: 427, shapes: 199}},
	{4, 2, 307, tally{graphs: 430, cyclic: 302, shapes: 370}},
	{4, 3, 100_003, tally{graphs: 493, cyclic: 422, shapes: 423}},
}

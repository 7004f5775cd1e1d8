//go:build !race

package deadlock

const everyGraph = 1

// walks are the default run. Pinned: a walk that shrinks proves less.
var walks = []walk{
	{2, 3, 1, tally{graphs: 4392, cyclic: 1672, shapes: 16}},
	{3, 2, 1, tally{graphs: 6261, cyclic: 3263, shapes: 383}},
	{4, 1, 1, tally{graphs: 81, cyclic: 33, shapes: 66}},
	{3, 3, 17, tally{graphs: 27247, cyclic: 18777, shapes: 464}},
	{4, 2, 13, tally{graphs: 9858, cyclic: 7133, shapes: 4054}},
	{4, 3, 2003, tally{graphs: 24394, cyclic: 21009, shapes: 8239}},
}

package sim

import "math/rand/v2"

// chooser makes the choices of a run and remembers them. Choice 0 is always the
// harmless one: first come first served, no fault. So a run goes on sensibly
// where a list of choices ends, and taking choices out of a list takes out faults.
type chooser struct {
	random *rand.Rand // nil when a list is replayed
	list   []int
	made   []int
}

func newChooser(seed uint64, replay []int) *chooser {
	if replay != nil {
		return &chooser{list: replay}
	}
	return &chooser{random: rand.New(rand.NewPCG(seed, 0x51ed2701))}
}

// pick chooses from n.
func (c *chooser) pick(n int) int {
	var choice int
	if c.random != nil {
		choice = c.random.IntN(n)
	} else {
		choice = c.listed(n)
	}
	c.made = append(c.made, choice)
	return choice
}

// weigh chooses an index by weight. A replayed one may have weight 0.
func (c *chooser) weigh(weights []int) int {
	choice := 0
	if c.random != nil {
		total := 0
		for _, w := range weights {
			total += w
		}
		at := c.random.IntN(total)
		for at >= weights[choice] {
			at -= weights[choice]
			choice++
		}
	} else {
		choice = c.listed(len(weights))
	}
	c.made = append(c.made, choice)
	return choice
}

func (c *chooser) listed(n int) int {
	if len(c.made) >= len(c.list) {
		return 0
	}
	return c.list[len(c.made)] % n
}

// Shrink looks for a shorter list of choices that still fails: it takes out
// pieces, from large to small, and then makes single choices harmless.
func Shrink(choices []int, fails func([]int) bool) []int {
	for size := (len(choices) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(choices); {
			without := append(append([]int{}, choices[:at]...), choices[min(at+size, len(choices)):]...)
			if fails(without) {
				choices = without
			} else {
				at += size
			}
		}
	}
	for i := range choices {
		if choices[i] == 0 {
			continue
		}
		tame := append([]int{}, choices...)
		tame[i] = 0
		if fails(tame) {
			choices = tame
		}
	}
	for len(choices) > 0 && choices[len(choices)-1] == 0 {
		choices = choices[:len(choices)-1] // that is what comes after the end anyway
	}
	return choices
}

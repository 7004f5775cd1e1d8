package main

// values are a point's figures by name.
type values map[string]float64

// sweep is one thing that grows.
type sweep struct {
	key   string
	title string
	axis  string
	xs    []int
	// once: it takes long, and has one round.
	once   bool
	run    func(g *growth, x int) (values, error)
	curves []curve
}

// curve is one figure of a sweep, and how it may grow.
type curve struct {
	value string
	title string
	flat  bool    // it may not grow
	limit float64 // how much it may be in the end; 0: no such goal
	more  bool    // it is no cost
}

var sweeps = []sweep{
	{
		key: "waiters", title: "waiters of one name, in two processes", axis: "waiters", xs: []int{1, 10, 100, 1000, mostWaiters}, run: sweepWaiters,
		curves: []curve{
			{value: "bytes", title: "bytes per waiting goroutine", flat: true, limit: 8 << 10},
			{value: "stack", title: "of these, its stack", flat: true},
			{value: "commands", title: "commands per hand-off", flat: true},
			{value: "handoff", title: "µs per hand-off", flat: true},
		},
	},
	{
		key: "processes", title: "processes that compete for one name, 4 goroutines each", axis: "processes", xs: []int{1, 2, 4, 8, 16}, run: sweepProcesses,
		curves: []curve{
			{value: "ops", title: "acquisitions/s", flat: true, more: true},
			{value: "commands", title: "commands per acquisition", flat: true},
			{value: "connections", title: "connections per process", flat: true},
		},
	},
	{
		key: "names", title: "names in a call, all or none", axis: "names", xs: []int{1, 3, 10, 30, mostNames}, run: sweepNames,
		curves: []curve{{value: "p50", title: "acquire and release, p50, µs"}},
	},
	{
		key: "held", title: "held locks of one process, lease of 10 s", axis: "held locks", xs: []int{1, 10, 100, 1000, 10000, mostHeld}, run: sweepHeld,
		curves: []curve{
			{value: "bytes", title: "bytes per lock", flat: true, limit: 6 << 10},
			{value: "stack", title: "of these, its goroutine's stack", flat: true},
			{value: "commands", title: "commands/s"},
			{value: "core", title: "share of one core"},
			{value: "stall", title: "longest stall of another acquire, ms", flat: true},
			{value: "p50", title: "another acquire, p50, µs", flat: true},
		},
	},
	{
		key: "readers", title: "readers that hold one name", axis: "readers", xs: []int{1, 10, 100, 1000}, run: sweepReaders,
		curves: []curve{{value: "p50", title: "one more reader, acquire and release, p50, µs"}},
	},
	{
		key: "service", title: "names that have been used", axis: "names", xs: []int{10, 1000, 100000}, once: true, run: sweepService,
		curves: []curve{
			{value: "p50", title: "acquire and release, p50, µs", flat: true},
			{value: "memory", title: "heap and stacks of the process, bytes", flat: true},
		},
	},
}

package rig

import "runtime"

// Memory is what this process' heap and stacks take, after two collections: what the
// first one's finalizers let go is gone with the second.
func Memory() float64 {
	heap, stacks := HeapAndStacks()
	return heap + stacks
}

// HeapAndStacks are the parts of [Memory].
func HeapAndStacks() (heap, stacks float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

package rig

import "runtime"

// Memory is what this process' heap and stacks take, after two collections: what the
// first one's finalizers let go is gone with the second.
func Memory() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// Package rig is what the benchmarks of this module stand on: servers, processes
// of their own for those who are measured, one clock for all of them, and counters.
//
// # What it gives
//
// A program that uses it starts itself again for each process it wants to measure
// ([Start]), and tells that process what to do by calls ([Process.Call]) over its
// standard input and output: one JSON line there, one back. So nothing that is
// measured shares a heap, a scheduler or a connection with what measures it, or with
// what was measured before. [Redis] and [Etcd] start a server on loopback, and count
// the commands it is sent.
//
// # What it doesn't give
//
// Judgement of a figure: no benchmark passes or fails. It runs on Linux only, since
// [Now] compares moments between processes, and no process outlives its parent.
package rig

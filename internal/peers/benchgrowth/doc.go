// Command benchgrowth measures what this library costs as what is asked of it grows:
// waiters and processes on one name, names in a call, held locks, readers of one name,
// names in the service. `make bench-growth` runs it.
//
// # What it gives
//
// A file per sweep. Each point is measured in fresh processes (package rig); -dir gets
// every round's figures as growth.json, and a curve per sweep as SVG, drawn from it.
// -profile gets profiles of the processes with the most waiters and held locks.
package main

// Command benchpeers measures this library, other Go locks and the floor under them
// on one server, in one run. `make bench-peers` runs it.
//
// # What it gives
//
// Jobs a to g, a file each. Each measurement is made in fresh processes that do
// nothing else (package rig), round-robin over the libraries: first job a of all, then
// job b of all, and so on, and all again in the next round. So a slow moment of the
// machine hits all alike. The tables show medians over the rounds; -json keeps every
// round's figures.
//
// Each library is used as its README says, and once more tuned for speed; kinds tells
// how. All have the same lease.
//
// # What it doesn't give
//
// A judgement of the others: each was made for other promises. Redis keeps nothing on
// disk here, etcd does unless it says otherwise. A library without renewal has
// nothing to send while it holds a lock, one without shared locks can't do job g.
package main

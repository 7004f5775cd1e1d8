// Package exchange is the vocabulary of the one verb that the lane speaks to
// Redis: what is written in one transaction, and what is read together with it.
//
// It gives plain values and nothing else: no I/O, no rules, no clock. The lane
// declares the port (the interface with the verb) where it uses it; redistx
// implements it on a real client, sim in memory. The values stand in a package
// of their own so that none of the three has to import another.
package exchange

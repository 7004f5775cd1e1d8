// Package deadlock finds deadlocks among the waiters of all nodes: the wait-for
// graph, the cycles in it, the victim of each, and the messages by which nodes
// tell each other who waits.
//
// # What it gives
//
// [Table] is what one node knows: its own waiters ([Table.Put], [Table.Remove])
// and those of others ([Table.Apply]). Each change returns the waiters that
// [Table.Find] has to search from; [Table.Deadlocks] searches everything.
// [Table.Delta], [Table.Full], [Table.Repeat] and [Table.Ask] return messages to
// publish; [Decode] reads one. [Deadlock.Story] tells a cycle in words, and [Why]
// gives the reasons of one edge, for the confirmation.
//
// # What it does not give
//
// It has no clock, no I/O, no goroutine and no lock: the caller brings the time,
// carries the messages and serialises the calls. It hurts nobody: messages are
// hints that anyone who may publish can forge, and a cycle of the table may be
// old. Whoever is named a victim must confirm its cycle against the records
// first. Who may publish can also mute a node (by using up its numbers) or hide
// edges; polling finds such deadlocks later.
//
// # The graph
//
// A waiter needs all its wishes at once, so each cycle is a deadlock, and a
// diamond is none. What its own chain holds (by acquisition id) is never in its
// way; a wish that its chain's holdings serve already is no wish. There is an
// edge from W to V if, for a name that W wishes,
//
//	W wishes \ V   holds read   holds write   waits to write
//	read           -            edge          edge, unless W's chain holds the name
//	write          edge         edge          -
//
// A wish to read that goes past those who wait to write, since they came later
// ([Want.Past]), has no edge to them: they are in its way until it starves, for
// some 25 ms, and no longer. Whoever waits knows that best, and tells it.
//
// "Waits to write" includes an upgrade, from read to write. Two waiters of one
// context are two waiters: one's wish to write stands in the way of the other's
// wish to read, as it would for a stranger.
//
// A waiter that holds nothing can be in a cycle only as a waiting writer. One
// that holds nothing and only reads cannot: it is neither kept nor told.
//
// Those that hold nothing and have the same wishes are one vertex per node, here
// as on every other node. The oldest stands for all, with a count. It stays the
// same while others join; when it goes, the next is younger, so a class that was
// to give up a member stays the one to give up.
//
// # Victims
//
// Waiters are ordered by age: start of the wait in Redis time, then id, then
// node. None of it changes during a wait. Each strongly connected group (knot) is
// judged by itself, and [Table.Find] gives the answer of [Victims] for the knots
// it meets. In a knot the victims are the set that
//
//  1. leaves no cycle,
//  2. has as few members as possible that hold nothing: one is needed exactly for
//     a cycle in which nobody holds something,
//  3. has as few others as possible,
//  4. and, among those left, has the youngest: the one with the youngest waiter
//     in which two sets differ.
//
// So a simple cycle has one victim, its youngest member that holds something;
// and if one waiter would break several cycles, it is the only victim. Each
// victim is reported with a cycle that no other victim breaks. After some of the
// victims have gone, the others are exactly the answer for the rest: it does not
// matter which node looks when.
//
// This is computed exactly for knots of up to 12 waiters. In a larger one, a
// single waiter that breaks all cycles is found as well; else waiters are kept
// from the oldest to the youngest (first those that hold nothing), and whoever
// closes a cycle with those kept is a victim: none too many in itself, but maybe
// more than the smallest set; a knot that shrinks to 12 is judged anew. The work
// on one knot is bounded by a count of steps, the same on every node; what is
// left then is found by the next search.
//
// # Cost
//
// Find is linear in the holdings and wishes of those that the changed waiters
// wait for, directly or not, and stops there if no cycle comes back. An upgrade
// adds the number of holders of its name. Ten thousand plain writers behind a
// holder that does not wait cost a search one step each. For more than 32 changes
// it searches the whole table once, which is linear in its size.
//
// # Messages
//
// JSON with a version, at most Limits.MessageBytes each. A node numbers its
// messages, in its incarnation, and sends
//
//   - full: all its waiters, in one or more parts of the same number. Only when
//     all parts have come, whatever they do not name is dropped;
//   - delta: waiters added, changed and removed;
//   - alive: number and sum of its waiters, as the repeat of a list too long to be
//     sent each time. Who knows another list asks;
//   - ask: to one node or all, for a full.
//
// Invariants, whatever is lost, doubled, late or out of order:
//   - A removed waiter does not come back by an older message. (The numbers of a
//     silent node are kept for four lapse times, and no longer.)
//   - After a full in all its parts, or an alive that matches, the list is what
//     the node had when it sent it, or newer.
//   - A waiter that no message has repeated for the lapse time is dropped, though
//     its node goes on: three poll delays, if that is the repeat.
//   - A higher incarnation drops all of the one before; a lower one is ignored.
//
// # Caps
//
// By default a message has 16 KiB (checked before it is read), a node 16,384 told
// waiters, a waiter 256 names and as many blockers; names have 512 bytes, ids 128,
// labels 256. A table knows 1,024 other nodes, 64 MiB of their waiters, and 256
// removals of each between two fulls. What is above a cap is dropped and counted
// ([Stats]). A local waiter above a cap is not judged either, so that no node
// judges by what the others cannot know.
package deadlock

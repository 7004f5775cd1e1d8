// Package pubsub keeps one Redis subscription connection per process, to be
// shared by several lock services and by the application.
//
// # What it gives
//
//   - Subscribe returns once Redis has confirmed the subscription. What is
//     published after that reaches the handler, or the handler's Down is called.
//   - The messages of one subscription are handled one at a time, in the order
//     in which Redis sent them, on a goroutine of the subscription's own. A slow
//     handler delays nobody else, and a handler may call Subscribe, Publish and
//     Close, and use the client.
//   - A lost connection is replaced, with jittered exponential back-off, until
//     Close. Each handler sees Down, and Up once its own channel is confirmed
//     again; no message of the new connection comes before that Up.
//   - A half-open connection is noticed. Redis is asked on the subscription
//     connection itself every heartbeat (2 s) and has one heartbeat to answer,
//     so a silent server is noticed within about 4 s.
//
// # What it does not give
//
//   - Delivery. Redis keeps no messages: what is published while a subscription
//     is down is missed. Up means "read the state again".
//   - Delivery to a handler that is slower than its messages. Its queue is
//     bounded; what doesn't fit is dropped, and the handler is told: Down with
//     ErrOverflow, then Up, both after it has handled all that came before the
//     gap. Until then everything further is dropped too, so a handler that is
//     always too slow is told once per full queue and not once per message.
//   - Protection from a handler that panics: the panic is not recovered, and ends
//     the process as in any goroutine. A handler that never returns keeps its
//     own subscription, and its Close, for ever.
//   - Patterns, sharded channels, Redis Cluster.
//
// # How it works
//
// The connection is one of the client's dedicated connections. A single
// goroutine (run) owns it and is the only one that sends anything on it:
// SUBSCRIBE and UNSUBSCRIBE as the registry of channels asks for it, and the
// heartbeat. The client's read loop only appends to the queues (inbox), and
// each subscription's goroutine calls the handler.
//
//	          lost, silent                      back-off, dial
//	serving ───────────────▶ down (all Down) ──────────────────▶ reconnecting
//	   ▲                                                              │
//	   └────────────── all channels subscribed again (Up) ◀───────────┘
//
// A channel that the server refuses (an ACL rule) fails the Subscribe calls that
// wait for it with the server's error. Subscriptions that were confirmed earlier
// stay down and are tried again with the same back-off; other channels don't
// notice.
//
// The heartbeat is a SUBSCRIBE of a channel that is subscribed already, which
// Redis confirms again and which needs no right that isn't needed anyway, or a
// PING while there is no channel. With RESP2 the client keeps subscriptions on a
// second connection that PING would not reach.
//
// # Invariants
//
//   - At most one call of Dedicate is under way, for it takes no context and
//     may wait for ever for the client's pool. A connection that comes late,
//     after a failed New or after Close, is given back at once.
//   - The connection is always closed before its place in the pool is given back,
//     so that nothing subscribed, and no hook, stays behind in the pool.
//   - Nothing that comes from a connection counts after that connection was
//     declared down.
//   - A handler is never called under a mutex, nor in the client's read loop.
//   - For one subscription Down and Up alternate, Down first.
//
// # Lock order
//
// Service.mu before inbox.mu. No channel is waited for under either.
package pubsub

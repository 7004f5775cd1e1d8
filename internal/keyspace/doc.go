// Package keyspace names everything a lock service keeps in Redis.
//
// It gives the keys and channels of one prefix, and the rules for prefixes and
// lock names. It does no I/O and knows nothing of what is stored.
//
// Invariants:
//   - All keys of a prefix share one hash tag, {prefix}, so they live in one slot.
//   - The kind of a key stands before the name, so that no lock name, whatever
//     its bytes, reaches a key or channel of another kind.
//   - Different names have different keys: the name is appended unchanged, never
//     escaped, folded or normalised.
package keyspace

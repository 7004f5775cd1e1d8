package lockrules

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	rewrite    = flag.Bool("rewrite", false, "rewrite the expected output of testdata/*.txt")
	exhaustive = flag.Bool("exhaustive", false, "search the large spaces too (some gigabytes and, with -timeout 60m, some minutes)")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What most tests use: times in milliseconds of Redis.
const (
	start Millis = 1_000
	lease Millis = 60
	lasts Millis = 15
)

// instant is a moment of the records in the unit of TIME.
func instant(ms Millis) Instant { return Instant(ms) * 1000 }

func ptr[T any](v T) *T { return &v }

// held is a live holding of one lease from start.
func held(id, node string) Holding {
	return Holding{ID: id, Owner: "owner-" + id, Node: node, AcquiredAt: start, ExpiresAt: ptr(start + lease),
		LeaseMillis: lease, FencingToken: int64(instant(start))}
}

// waits is a live mark of one span from start.
func waits(node string, write bool) Mark {
	return Mark{Node: node, Write: write, Since: start, Until: start + lasts, LastsMillis: lasts}
}

// elder is the mark of somebody who came a moment before.
func elder(m Mark) Mark { return since(m, m.Since-1) }

func since(m Mark, at Millis) Mark {
	m.Since = at
	return m
}

// record is a record of x with these readers.
func record(readers ...Holding) Record {
	r := Empty("x")
	r.ReadOwners = append(r.ReadOwners, readers...)
	r.FencingToken = int64(instant(start))
	return r
}

func asks(id, node string, mode Mode, chain ...string) Request {
	return Request{Asker: Asker{ID: id, Owner: "owner-" + id, Node: node, Chain: chain},
		Wants: []Want{{Name: "x", Mode: mode}}, LeaseMillis: lease}
}

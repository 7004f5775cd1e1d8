package deadlock

import (
	"testing"
)

// plainCrowd has a holder who does not wait for them, and plain waiters whose
// wishes all differ, so that none are told together.
func plainCrowd(tb testing.TB, n int, same bool) *Table {
	table := newTestTable(tb, "n", Limits{})
	table.Put(wait("holder", 1, "w:x", "|", "w:free"))
	for i := range n {
		own := numbered("own", i)
		if same {
			own = "own"
		}
		table.Put(wait(numbered("p", i), int64(i+2), "|", "w:x", "w:"+own))
	}
	return table
}

func BenchmarkFindAmongTenThousandPlain(b *testing.B) {
	table := plainCrowd(b, 10_000, false)
	key := Key{"n", numbered("p", 5000)}
	for b.Loop() {
		if len(table.Find(key)) != 0 {
			b.Fatal("a deadlock out of nothing")
		}
	}
}

func BenchmarkFindDeadlockAmongTenThousandPlain(b *testing.B) {
	table := plainCrowd(b, 10_000, false)
	table.Put(wait("A", 1, "w:a", "|", "w:b", "w:x"))
	keys := table.Put(wait("B", 2, "w:b", "|", "w:a"))
	for b.Loop() {
		if len(table.Find(keys...)) != 1 {
			b.Fatal("no deadlock")
		}
	}
}

// The worst case: one cycle through the whole crowd.
func BenchmarkFindKnotOfTenThousandPlain(b *testing.B) {
	table := plainCrowd(b, 10_000, false)
	keys := table.Put(wait("holder", 1, "w:x", "|", "r:own00001"))
	for i := range 10_000 {
		table.Put(wait(numbered("p", i), int64(i+2), "|", "w:x", "w:own00001", "w:"+numbered("own", i)))
	}
	for b.Loop() {
		if len(table.Find(keys...)) != 1 {
			b.Fatal("no deadlock")
		}
	}
}

func BenchmarkSearchWholeTableOfTenThousandPlain(b *testing.B) {
	table := plainCrowd(b, 10_000, false)
	for b.Loop() {
		if len(table.Deadlocks()) != 0 {
			b.Fatal("a deadlock out of nothing")
		}
	}
}

func BenchmarkPutAndRemoveLookAlike(b *testing.B) {
	table := plainCrowd(b, 10_000, true)
	w := wait("new", 1<<40, "|", "w:x", "w:own")
	for b.Loop() {
		table.Put(w)
		table.Remove(w.ID)
	}
}

func benchmarkFull(b *testing.B, same bool) {
	table := plainCrowd(b, 10_000, same)
	bytes, messages := 0, 0
	for b.Loop() {
		parts := table.Full()
		bytes, messages = 0, len(parts)
		for _, p := range parts {
			bytes += len(p)
		}
	}
	b.ReportMetric(float64(bytes), "wire-B")
	b.ReportMetric(float64(messages), "messages")
}

func BenchmarkEncodeTenThousandLookAlikes(b *testing.B)  { benchmarkFull(b, true) }
func BenchmarkEncodeTenThousandDifferent(b *testing.B)   { benchmarkFull(b, false) }
func BenchmarkRepeatOfTenThousandDifferent(b *testing.B) { benchmarkRepeat(b) }

func benchmarkRepeat(b *testing.B) {
	table := plainCrowd(b, 10_000, false)
	table.Delta()
	bytes := 0
	for b.Loop() {
		bytes = len(table.Repeat()[0])
	}
	b.ReportMetric(float64(bytes), "wire-B")
}

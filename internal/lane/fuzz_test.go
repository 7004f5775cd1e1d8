package lane

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

// What stands at a key, or comes over a channel, may be anybody's. It may be
// refused; it may not crash a process, and what is accepted must hold what the
// rules rest on.

const (
	fuzzName = "orders"
	fuzzNow  = lockrules.Instant(1_796_077_792_590_038)
)

func sampleRecord() lockrules.Record {
	at, ends, released := fuzzNow.Millis()-500, fuzzNow.Millis()+59_500, fuzzNow.Millis()-100
	ok := lockrules.OK
	rec := lockrules.Empty(fuzzName)
	rec.WriteOwner = &lockrules.Holding{ID: "w", Owner: "host:1", Node: "n1", AcquiredAt: at, ExpiresAt: &ends,
		LeaseMillis: 60_000, FencingToken: int64(fuzzNow) - 500_000, Renewals: 3}
	rec.ReadOwners = []lockrules.Holding{{ID: "r", Owner: "host:2", Node: "n2", AcquiredAt: at, LeaseMillis: 60_000,
		ReleasedAt: &released, Outcome: &ok}}
	rec.Waiting = []lockrules.Mark{{Node: "n3", Write: true, Since: at, Until: ends, LastsMillis: 15_000}}
	rec.FencingToken, rec.UpdatedAt = int64(fuzzNow)-500_000, at
	return rec
}

func FuzzDecodeRecord(f *testing.F) {
	rec := sampleRecord()
	data, err := encodeRecord(jsonhandler.Standard, &rec)
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := decodeRecord(jsonhandler.Standard, fuzzName, data)
		if err != nil {
			return
		}
		again, err := encodeRecord(jsonhandler.Standard, &rec)
		require.NoError(t, err)
		back, err := decodeRecord(jsonhandler.Standard, fuzzName, again)
		require.NoError(t, err, "what was read can be written, and read again")
		twice, err := encodeRecord(jsonhandler.Standard, &back)
		require.NoError(t, err)
		require.Equal(t, string(again), string(twice), "nothing is lost on the way")
		requireRulesHold(t, rec)
	})
}

// requireRulesHold runs the rules over a record that was accepted.
func requireRulesHold(t *testing.T, rec lockrules.Record) {
	t.Helper()
	now := fuzzNow.Millis()
	rec, _ = lockrules.Settle(rec, now)
	requireLasts(t, rec, now)
	lockrules.NextLapse(rec, now)
	requireTurns(t, rec, now)
	marked, _, _ := lockrules.SetMark(rec, "n1", lockrules.Waiters{Want: lockrules.SomeWrites, Since: now}, now, 15_000)
	requireLasts(t, marked, now)
	for _, mode := range []lockrules.Mode{lockrules.Read, lockrules.Write} {
		req := lockrules.Request{Asker: lockrules.Asker{ID: "fuzz's own", Owner: "o", Node: "n1"},
			Wants: []lockrules.Want{{Name: fuzzName, Mode: mode}}, LeaseMillis: 60_000}
		d := lockrules.Acquire([]lockrules.Record{rec}, req, fuzzNow, func(string) (lockrules.Blocker, bool) { return lockrules.Blocker{}, false })
		if !d.Granted {
			require.NotEmpty(t, d.Blockers)
			continue
		}
		require.Greater(t, d.Token, rec.FencingToken, "tokens rise")
		requireLasts(t, d.Records[0], now)
		h, _, found := d.Records[0].Find(req.ID)
		require.True(t, found && h.Alive(now) && !h.Alive(d.ExpiresAt), "whoever was granted holds it for the lease")
		after, ok := lockrules.Renew(d.Records, lockrules.Renewal{ID: req.ID, LeaseMillis: 60_000}, now+30_000)
		require.True(t, ok)
		_, met, _ := lockrules.ReleaseOne(after[0], lockrules.Release{ID: req.ID, Outcome: lockrules.OK}, now+60_000)
		require.Equal(t, lockrules.Done, met)
	}
}

// requireTurns: who is woken first is somebody, if anybody gains, and who goes first
// has come before.
func requireTurns(t *testing.T, rec lockrules.Record, now lockrules.Millis) {
	t.Helper()
	nobody := func(lockrules.Mark) bool { return false }
	all := lockrules.Wake(rec, "n1", now)
	first, others := lockrules.WakeFirst(rec, "n1", now, nobody)
	require.Equal(t, len(all) > 0, len(first) > 0)
	require.Equal(t, len(first) < len(all), others)
	if m, yes := lockrules.GoesFirst(rec, "n1", now, now, nobody); yes {
		require.Contains(t, all, m.Node)
		require.Less(t, m.Since, now)
	}
}

// requireLasts: the TTL is one that can be written.
func requireLasts(t *testing.T, rec lockrules.Record, now lockrules.Millis) {
	t.Helper()
	ttl := lockrules.Lasts(rec, now, 30_000)
	if rec.KeepLockData {
		require.Zero(t, ttl)
		return
	}
	require.GreaterOrEqual(t, ttl, lockrules.Millis(30_000))
	require.Less(t, ttl, lockrules.Millis(math.MaxInt64/int64(time.Millisecond)))
}

func FuzzDecodeServer(f *testing.F) {
	data, err := encodeServer(jsonhandler.Standard, &lockrules.Server{V: 1, RunID: "run", Since: fuzzNow.Millis(), LeaseMillis: 60_000})
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeServer(jsonhandler.Standard, data)
		if err != nil {
			require.Nil(t, s)
			return
		}
		again, err := encodeServer(jsonhandler.Standard, s)
		require.NoError(t, err)
		back, err := decodeServer(jsonhandler.Standard, again)
		require.NoError(t, err)
		require.Equal(t, s.RunID, back.RunID)
		// Whatever is remembered, it can't forbid for longer than one lease from
		// now, nor shorten the hold-off of another run.
		now := fuzzNow.Millis()
		other := lockrules.CheckServer(s, true, lockrules.Sighting{RunID: s.RunID + "2", Uptime: 1 << 30}, 60_000, now)
		require.GreaterOrEqual(t, other.Until, now+60_000)
		require.NotNil(t, other.Write)
		require.LessOrEqual(t, other.Until, now+max(s.LeaseMillis, 60_000))
		same := lockrules.CheckServer(s, true, lockrules.Sighting{RunID: s.RunID, Uptime: 1 << 50}, 60_000, now)
		require.LessOrEqual(t, same.Until, now+max(s.LeaseMillis, 60_000))
	})
}

func FuzzDecodeWake(f *testing.F) {
	msg, err := EncodeWake([]string{"orders", "a\x00b", "日本"})
	require.NoError(f, err)
	f.Add(msg)
	f.Fuzz(func(t *testing.T, msg string) {
		names, err := DecodeWake(msg)
		if err != nil {
			return
		}
		again, err := EncodeWake(names)
		require.NoError(t, err)
		back, err := DecodeWake(again)
		require.NoError(t, err)
		require.Equal(t, names, back)
	})
}

// Times, leases and tokens that no clock gives would overflow what is computed
// from them: the lock would look free, or the next token be smaller.
func TestRecordsWithImpossibleNumbersAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*lockrules.Record){
		"negative token":       func(r *lockrules.Record) { r.FencingToken = -1 },
		"last token":           func(r *lockrules.Record) { r.FencingToken = math.MaxInt64 },
		"endless lease":        func(r *lockrules.Record) { r.WriteOwner.LeaseMillis = math.MaxInt64 },
		"negative lease":       func(r *lockrules.Record) { r.WriteOwner.LeaseMillis = -1 },
		"expiry out of sight":  func(r *lockrules.Record) { *r.WriteOwner.ExpiresAt = math.MaxInt64 },
		"expiry before time":   func(r *lockrules.Record) { *r.WriteOwner.ExpiresAt = math.MinInt64 },
		"owner's last token":   func(r *lockrules.Record) { r.WriteOwner.FencingToken = math.MaxInt64 },
		"last renewal":         func(r *lockrules.Record) { r.WriteOwner.Renewals = math.MaxInt64 },
		"reader's lease":       func(r *lockrules.Record) { r.ReadOwners[0].LeaseMillis = math.MinInt64 },
		"endless mark":         func(r *lockrules.Record) { r.Waiting[0].LastsMillis = math.MaxInt64 },
		"mark out of sight":    func(r *lockrules.Record) { r.Waiting[0].Until = math.MinInt64 },
		"mark of no beginning": func(r *lockrules.Record) { r.Waiting[0].Since = math.MaxInt64 },
	} {
		rec := sampleRecord()
		spoil(&rec)
		data, err := json.Marshal(&rec)
		require.NoError(t, err)
		_, err = decodeRecord(jsonhandler.Standard, fuzzName, data)
		require.Error(t, err, name)
	}
	server, err := json.Marshal(lockrules.Server{V: 1, RunID: "run", LeaseMillis: math.MaxInt64})
	require.NoError(t, err)
	_, err = decodeServer(jsonhandler.Standard, server)
	require.Error(t, err)
}

// A field whose name differs in case only is the same field to encoding/json. If
// it were kept as unknown, each write would be undone at the next read.
func TestFieldThatDiffersInCaseOnlyDoesNotOutliveAWrite(t *testing.T) {
	t.Parallel()
	rec := sampleRecord()
	data, err := encodeRecord(jsonhandler.Standard, &rec)
	require.NoError(t, err)
	twin := []byte(`{"writeowner":` + `{"id":"ghost","leaseMillis":1},"zone":"eu",` + string(data[1:]))
	read, err := decodeRecord(jsonhandler.Standard, fuzzName, twin)
	require.NoError(t, err)
	read.WriteOwner = nil
	data, err = encodeRecord(jsonhandler.Standard, &read)
	require.NoError(t, err)
	back, err := decodeRecord(jsonhandler.Standard, fuzzName, data)
	require.NoError(t, err)
	require.Nil(t, back.WriteOwner)
	require.Contains(t, string(data), `"zone":"eu"`)
}

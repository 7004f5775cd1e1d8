package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/faketime"
)

// TestWatchFailsOnEveryTouch has the facts that were measured on a real server:
// what makes the EXEC of a watched key fail, and what doesn't.
func TestWatchFailsOnEveryTouch(t *testing.T) {
	t.Parallel()
	value := []byte("v")
	cases := []struct {
		name    string
		present bool // at WATCH
		touch   func(r *Redis)
		fails   bool
	}{
		{"nothing, present", true, func(*Redis) {}, false},
		{"nothing, missing", false, func(*Redis) {}, false},
		{"set to another value", true, func(r *Redis) { r.Put(keyA, []byte("w"), 0) }, true},
		{"set to the same value", true, func(r *Redis) { r.Put(keyA, value, 0) }, true},
		{"set and set back", true, func(r *Redis) { r.Put(keyA, []byte("w"), 0); r.Put(keyA, value, 0) }, true},
		{"created", false, func(r *Redis) { r.Put(keyA, value, 0) }, true},
		{"created and deleted", false, func(r *Redis) { r.Put(keyA, value, 0); r.Delete(keyA) }, true},
		{"deleted", true, func(r *Redis) { r.Delete(keyA) }, true},
		{"deleted though missing", false, func(r *Redis) { r.Delete(keyA) }, false},
		{"expiry changed", true, func(r *Redis) { r.Touch(keyA, time.Hour) }, true},
		{"expiry changed though missing", false, func(r *Redis) { r.Touch(keyA, time.Hour) }, false},
		{"expired", true, func(r *Redis) { r.StepClock(2 * time.Hour) }, true},
		{"evicted", true, func(r *Redis) { r.Evict(keyA) }, true},
		{"flushed", true, func(r *Redis) { r.FlushAll() }, true},
		{"flushed though missing", false, func(r *Redis) { r.FlushAll() }, false},
		{"replaced by another type", true, func(r *Redis) { r.PutOther(keyA) }, true},
		{"another key set", true, func(r *Redis) { r.Put(keyB, value, 0) }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, r *Redis) {
				if c.present {
					r.Put(keyA, value, time.Hour)
				}
				p := r.Port()
				watch(t, p, keyA)
				c.touch(r)
				require.Equal(t, !c.fails, commit(t, p, set(keyA, "mine")))
			})
		})
	}
}

func TestWatchOfAnExpiredKeyIsThatOfAMissingOne(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Put(keyA, []byte("v"), time.Second)
		r.StepClock(time.Minute)
		p := r.Port()
		snap := watch(t, p, keyA)
		require.False(t, snap.Values[0].Exists)
		r.FlushAll()
		require.True(t, commit(t, p, set(keyA, "mine")))
	})
}

func TestOfTwoWatchersOnlyTheFirstCommits(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p, q := r.Port(), r.Port()
		watch(t, p, keyA)
		watch(t, q, keyA)
		require.True(t, commit(t, q, set(keyA, "second")))
		committed, snap, err := p.Exchange(within(t, time.Minute), set(keyA, "first"), []string{keyA})
		require.NoError(t, err)
		require.False(t, committed)
		require.Equal(t, "second", string(snap.Values[0].Data), "a conflict brings the new value along")
		require.True(t, commit(t, p, set(keyA, "first")), "which is watched again")
	})
}

func TestCommitNeedsAWatchOfThisVeryConnection(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		refused := func(why string) {
			t.Helper()
			committed, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), []string{keyA})
			require.ErrorIs(t, err, exchange.ErrNoWatch, why)
			require.False(t, committed)
		}
		refused("no connection yet")

		watch(t, p, keyA)
		require.True(t, commit(t, p, set(keyA, "v")))
		refused("nothing was read after the commit")

		watch(t, p, keyA)
		watch(t, p)
		refused("the watch was dropped")

		watch(t, p, keyA)
		r.CutAll()
		_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "w"), []string{keyA})
		var conn *exchange.ConnError
		require.ErrorAs(t, err, &conn)
		require.True(t, conn.Sent, "a connection that died while idle is found out by writing")
		refused("a new connection watches nothing")

		watch(t, p, keyA)
		r.Refuse(exchange.Loading)
		_, _, err = p.Exchange(within(t, time.Minute), nil, []string{keyA})
		require.Error(t, err)
		r.Accept()
		refused("the last read failed")
		requireValue(t, r, keyA, "v")
	})
}

func TestWatchesDoNotAddUp(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		watch(t, p, keyB)
		r.Put(keyA, []byte("v"), 0)
		require.True(t, commit(t, p, set(keyB, "mine")), "the batch before was never committed and has no say")
	})
}

func TestAnEmptyCommitIsNone(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		committed, snap, err := p.Exchange(within(t, time.Minute), &exchange.Writes{}, []string{keyA})
		require.NoError(t, err)
		require.False(t, committed)
		require.Len(t, snap.Values, 1)
		_, _, err = r.Port().Exchange(within(t, time.Minute), nil, nil)
		require.NoError(t, err)
	})
}

func TestSnapshotTellsMissingEmptyAndForeignApart(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Put(keyA, nil, 0)
		r.PutOther(keyB)
		p := r.Port()
		snap := watch(t, p, keyA, "missing", keyB)
		require.True(t, snap.Values[0].Exists)
		require.NotNil(t, snap.Values[0].Data)
		require.Equal(t, exchange.Value{}, snap.Values[1])
		require.True(t, snap.Values[2].Exists)
		require.ErrorContains(t, snap.Values[2].Err, "WRONGTYPE")
		require.Equal(t, r.RunID(), snap.RunID)
		require.EqualValues(t, aged/time.Second, snap.Uptime)
	})
}

func TestCommitIsWholeAndKeepsNothingOfTheCaller(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Put(keyB, []byte("old"), 0)
		p := r.Port()
		watch(t, p, keyA, keyB)
		w := &exchange.Writes{
			Sets:    []exchange.Set{{Key: keyA, Value: []byte("new"), TTL: 1500 * time.Microsecond}},
			Deletes: []string{keyB},
		}
		committed, snap, err := p.Exchange(within(t, time.Minute), w, []string{keyA, keyB})
		require.NoError(t, err)
		require.True(t, committed)
		w.Sets[0].Value[0] = 'X'
		snap.Values[0].Data[1] = 'X'
		require.False(t, snap.Values[1].Exists)
		r.Touch(keyA, time.Hour)
		requireValue(t, r, keyA, "new")
	})
}

func TestExpiryIsRoundedUpAndJudgedByTheServersClock(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		require.True(t, commit(t, p, &exchange.Writes{Sets: []exchange.Set{
			{Key: keyA, Value: []byte("v"), TTL: 1500 * time.Microsecond}}}))
		require.Equal(t, 2*time.Millisecond, r.TTL(keyA))
		faketime.Pass(2 * time.Millisecond)
		requireValue(t, r, keyA, "v")
		faketime.Pass(time.Millisecond)
		_, ok := r.Get(keyA)
		require.False(t, ok)

		r.Put(keyA, []byte("v"), time.Minute)
		r.StepClock(-time.Hour)
		faketime.Pass(30 * time.Minute)
		require.Equal(t, 31*time.Minute, r.TTL(keyA))
	})
}

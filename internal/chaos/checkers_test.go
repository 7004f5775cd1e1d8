package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/chaos"
)

// script makes a history of events that are written as a reader would tell them.
// Times are milliseconds.
type script struct {
	t *testing.T
	h chaos.History
}

const ms = int64(time.Millisecond)

func (s *script) add(e chaos.Event) {
	s.t.Helper()
	e.At, e.Until = e.At*ms, e.Until*ms
	worker, _, _ := strings.Cut(e.ID, "/")
	require.NoError(s.t, s.h.Add(worker, e))
}

// wants reads "a" as the read lock and "a!" as the write lock of a.
func wants(text string) []chaos.Want {
	var out []chaos.Want
	for _, f := range strings.Fields(text) {
		name, write := strings.CutSuffix(f, "!")
		out = append(out, chaos.Want{Name: name, Write: write})
	}
	return out
}

func (s *script) call(id, chain, locks string, at int64) {
	s.add(chaos.Event{Kind: chaos.EventCall, ID: id, Chain: chain, Wants: wants(locks), At: at, Timeout: 10000 * ms})
}

func (s *script) got(id string, at, token int64) {
	s.add(chaos.Event{Kind: chaos.EventGot, ID: id, At: at, Token: token})
}

func (s *script) has(id string, at int64) { s.add(chaos.Event{Kind: chaos.EventTrue, ID: id, At: at}) }

func (s *script) hasNot(id string, at int64) {
	s.add(chaos.Event{Kind: chaos.EventFalse, ID: id, At: at, Until: at})
}

func (s *script) released(id string, at int64) {
	s.add(chaos.Event{Kind: chaos.EventRelease, ID: id, At: at, Until: at + 1})
}

func (s *script) failed(id string, at int64, outcome string) {
	s.add(chaos.Event{Kind: chaos.EventFailed, ID: id, At: at, Outcome: outcome})
}

// holds is a whole hold in one line.
func (s *script) holds(id, chain, locks string, call, got, until, token int64) {
	s.call(id, chain, locks, call)
	s.got(id, got, token)
	s.has(id, until)
	s.released(id, until+1)
}

func promises(violations []chaos.Violation) []string {
	var out []string
	for _, v := range violations {
		out = append(out, v.Promise)
	}
	return out
}

func TestTwoWritersAtOnceAreFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a!", 0, 10, 50, 1)
	s.holds("w/2", "2", "a!", 20, 40, 60, 2)
	v := chaos.Exclusion(&s.h, nil)
	require.Equal(t, []string{"one holder"}, promises(v.Violations))
	require.Contains(t, v.Violations[0].Detail, "for 10ms")
	require.Equal(t, []string{"linearizable"}, promises(chaos.Linear(&s.h, time.Minute)))
}

func TestAWriterAmongReadersIsFoundThoughAnotherReaderLiesBetween(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a", 0, 10, 100, 1)
	s.holds("w/2", "2", "a", 0, 20, 30, 2)
	s.holds("w/3", "3", "a! b", 40, 50, 60, 3)
	require.Equal(t, []string{"one holder"}, promises(chaos.Exclusion(&s.h, nil).Violations))
	require.Equal(t, []string{"linearizable"}, promises(chaos.Linear(&s.h, time.Minute)))
}

func TestReadersTogetherAndTurnsOfWritersAreFine(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a", 0, 10, 40, 1)
	s.holds("w/2", "2", "a", 0, 20, 30, 2)
	s.holds("w/3", "3", "a!", 0, 41, 50, 3)
	s.holds("w/4", "4", "a!", 0, 50, 60, 4) // touches
	require.Empty(t, chaos.Exclusion(&s.h, nil).Violations)
	require.Empty(t, chaos.Linear(&s.h, time.Minute))
	require.Empty(t, chaos.Fencing(&s.h, nil))
	require.Equal(t, 2, chaos.Together(&s.h))
}

func TestAnUpgradeIsNoConflictWithItsOwnRead(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.call("w/1", "1", "a", 0)
	s.got("w/1", 10, 1)
	s.holds("w/2", "1", "a!", 20, 30, 40, 2)
	s.has("w/1", 60)
	require.Empty(t, chaos.Exclusion(&s.h, nil).Violations)
	require.Empty(t, chaos.Linear(&s.h, time.Minute))
}

// A stopped process tells its last true late; what it does afterwards is no evidence.
func TestWhoIsNotSureAnyMoreConflictsWithNobody(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.call("w/1", "1", "a!", 0)
	s.got("w/1", 10, 1)
	s.has("w/1", 20)
	s.holds("w/2", "2", "a!", 20, 45, 60, 2)
	s.hasNot("w/1", 90)
	s.released("w/1", 95)
	v := chaos.Exclusion(&s.h, nil)
	require.Empty(t, v.Violations)
	require.Equal(t, 25*time.Millisecond, v.Gap)
	require.Equal(t, 1, v.Losses)
	require.Empty(t, chaos.Linear(&s.h, time.Minute))
}

// The process was stopped between the grant and its return, and others came first.
func TestAGrantThatWasLostBeforeItWasReturnedIsNoEvidence(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.call("w/1", "1", "a!", 0)
	s.got("w/1", 100, 1)
	s.hasNot("w/1", 101)
	s.holds("w/2", "2", "a!", 0, 50, 120, 2)
	require.Empty(t, chaos.Exclusion(&s.h, nil).Violations)
	require.Empty(t, chaos.Linear(&s.h, time.Minute))
}

func TestAnOverlapIsAdmittedOnlyInItsSpan(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a!", 0, 10, 50, 1)
	s.holds("w/2", "2", "a!", 20, 40, 60, 2)
	v := chaos.Exclusion(&s.h, []chaos.Span{{From: 30 * ms, To: 45 * ms}})
	require.Empty(t, v.Violations)
	require.Equal(t, 10*time.Millisecond, v.Admitted)
	v = chaos.Exclusion(&s.h, []chaos.Span{{From: 41 * ms, To: 45 * ms}})
	require.Len(t, v.Violations, 1)
}

func TestATrueAfterAFalseIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.call("w/1", "1", "a!", 0)
	s.got("w/1", 10, 1)
	s.hasNot("w/1", 20)
	s.has("w/1", 30)
	require.Equal(t, []string{"HasLock stays false"}, promises(chaos.Exclusion(&s.h, nil).Violations))
}

func TestTokensThatDoNotRiseAreFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a!", 0, 10, 20, 7)
	s.holds("w/2", "2", "a", 15, 30, 40, 5) // asked for while the first was held
	require.Equal(t, []string{"tokens rise"}, promises(chaos.Fencing(&s.h, nil)))
	require.Equal(t, []string{"linearizable"}, promises(chaos.Linear(&s.h, time.Minute)))
}

func TestATokenUsedTwiceIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a", 0, 30, 40, 5)
	s.holds("w/2", "2", "a", 0, 30, 40, 5)
	require.Equal(t, []string{"tokens differ"}, promises(chaos.Fencing(&s.h, nil)))
}

func TestCallsAtTheSameTimeMayHaveTokensInAnyOrder(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a", 0, 30, 40, 9)
	s.holds("w/2", "2", "a", 0, 35, 45, 5)
	require.Empty(t, chaos.Fencing(&s.h, nil))
}

func TestAHolderThatMayNotWriteIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a!", 0, 10, 50, 1)
	s.add(chaos.Event{Kind: chaos.EventStore, ID: "w/1", Name: "a", At: 20, Until: 30, Refused: true})
	require.Equal(t, []string{"holders may write"}, promises(chaos.Fencing(&s.h, nil)))
	require.Empty(t, chaos.Fencing(&s.h, []chaos.Span{{From: 15 * ms, To: 25 * ms}}))
	late := &script{t: t}
	late.holds("w/1", "1", "a!", 0, 10, 50, 1)
	late.add(chaos.Event{Kind: chaos.EventStore, ID: "w/1", Name: "a", At: 45, Until: 55, Refused: true})
	require.Empty(t, chaos.Fencing(&late.h, nil))
}

func TestTheStorageRefusesTheOldAndNoticesLostUpdates(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		var s chaos.Storage
		do := func(token int64, write bool, base, id string) chaos.Answer {
			return s.Do(chaos.Access{Name: "a", Fenced: fenced, Write: write, Token: token, Base: base, ID: id})
		}
		base := do(1, false, "", "").Head
		do(2, false, "", "") // the next holder reads
		late := do(1, true, base, "old")
		require.Equal(t, fenced, late.Refused)
		require.False(t, do(2, true, base, "new").Refused)
		want := chaos.Totals{Writes: 2, Lost: 1}
		if fenced {
			want = chaos.Totals{Writes: 1, Refused: 1}
		}
		require.Equal(t, want, s.Totals(fenced))
		require.Zero(t, s.Totals(!fenced))
	}
}

func TestAVictimWithoutADeadlockIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a!", 0, 10, 5000, 1)
	s.call("w/2", "2", "a!", 20)
	s.failed("w/2", 100, chaos.Deadlock)
	require.Equal(t, []string{"a victim has a deadlock"}, promises(chaos.Deadlocks(&s.h, chaos.Terms{Lease: time.Second, Within: time.Second})))
	require.Equal(t, 1, chaos.Victims(&s.h))
}

// 1 holds a and wants b, 2 holds b and wants a.
func crossed(t *testing.T, outcome string) *chaos.History {
	t.Helper()
	s := &script{t: t}
	s.call("w/1", "1", "a!", 0)
	s.got("w/1", 10, 1)
	s.call("w/2", "2", "b", 0)
	s.got("w/2", 10, 2)
	s.call("w/1x", "1", "b!", 20)
	s.call("w/2x", "2", "a", 30)
	s.failed("w/2x", 9000, outcome)
	s.failed("w/1x", 9500, chaos.NotInTime)
	s.has("w/1", 10000)
	s.has("w/2", 10000)
	for _, a := range s.h.Attempts {
		a.Timeout = 9 * time.Second.Nanoseconds()
	}
	return &s.h
}

func TestADeadlockWithAVictimIsFine(t *testing.T) {
	t.Parallel()
	require.Empty(t, chaos.Deadlocks(crossed(t, chaos.Deadlock), chaos.Terms{Lease: time.Second}))
}

func TestADeadlockWithoutAVictimIsFoundWhereNothingIsBroken(t *testing.T) {
	t.Parallel()
	h := crossed(t, chaos.NotInTime)
	quiet := []chaos.Span{{From: 0, To: 20000 * ms}}
	require.Equal(t, []string{"a deadlock has a victim"}, promises(chaos.Deadlocks(h, chaos.Terms{Lease: time.Second, Quiet: quiet, Within: 3 * time.Second})))
	require.Empty(t, chaos.Deadlocks(h, chaos.Terms{Lease: time.Second, Within: 3 * time.Second}))
	require.Empty(t, chaos.Deadlocks(crossed(t, chaos.NotInTime), chaos.Terms{Lease: time.Second, Quiet: quiet, Within: 10 * time.Second}))
}

// 2 wants to write a and read b, gives up, and can't tell: 1, which holds b and
// wants to read a, must believe for a while that it stands behind 2.
func TestAWaitThatEndedUntoldCountsUntilItLapses(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "b!", 0, 10, 9000, 1)
	s.call("w/2", "2", "a! b", 20)
	s.failed("w/2", 100, chaos.NotInTime)
	s.call("w/1x", "1", "a", 500)
	s.failed("w/1x", 600, chaos.Deadlock)
	require.Empty(t, chaos.Deadlocks(&s.h, chaos.Terms{Lease: time.Second, Lapse: time.Second}))
	require.Len(t, chaos.Deadlocks(&s.h, chaos.Terms{Lease: time.Second, Lapse: 300 * time.Millisecond}), 1)
}

// A reader lets a waiting writer pass, so readers can be in a cycle of readers.
func TestAReaderBehindAWaitingWriterCanBeInADeadlock(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a", 0, 10, 9000, 1)
	s.holds("w/2", "2", "b!", 0, 10, 9000, 2)
	s.call("w/2x", "2", "a!", 20) // waits for 1
	s.call("w/3", "3", "c!", 0)
	s.got("w/3", 10, 3)
	s.call("w/3x", "3", "a", 30)  // waits behind 2
	s.call("w/1x", "1", "c!", 40) // waits for 3
	s.failed("w/1x", 100, chaos.Deadlock)
	require.Empty(t, chaos.Deadlocks(&s.h, chaos.Terms{Lease: time.Second, Within: time.Second}))
}

func TestAnswersThatComeTooLateAreFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.call("w/1", "1", "a!", 0)
	s.failed("w/1", 13000, chaos.NotInTime)
	require.Equal(t, []string{"calls end in time"}, promises(chaos.Answered(&s.h, time.Second, nil)))
	require.Empty(t, chaos.Answered(&s.h, 4*time.Second, nil))
	require.Empty(t, chaos.Answered(&s.h, time.Second, map[string][]chaos.Span{"w": {{From: 5000 * ms, To: 8000 * ms}}}))
	s.failed("w/1", 100, chaos.Unexpected)
	require.Equal(t, []string{"every error is known"}, promises(chaos.Answered(&s.h, time.Second, nil)))
}

func TestWhoIsNeverServedIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("v/1", "1", "a!", 0, 10, 50, 1)
	require.Equal(t, []string{"who waits is served"}, promises(chaos.Served(&s.h, chaos.Span{From: 0, To: 100 * ms}, []string{"v", "w"})))
	require.Len(t, chaos.Served(&s.h, chaos.Span{From: 51 * ms, To: 100 * ms}, []string{"v"}), 1)
	require.Empty(t, chaos.Served(&s.h, chaos.Span{From: 20 * ms, To: 100 * ms}, []string{"v"}), "it holds one all the time")
}

func TestALockThatStaysFreeWhileAWriterWaitsIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.holds("w/1", "1", "a!", 0, 10, 1000, 1)
	s.call("w/2", "2", "a!", 20)
	s.holds("w/3", "3", "a", 900, 5000, 5900, 2)
	s.failed("w/2", 6000, chaos.NotInTime)
	quiet := chaos.Span{From: 0, To: 10000 * ms}
	require.Equal(t, []string{"a free lock is granted"}, promises(chaos.Idle(&s.h, quiet, time.Second, 2*time.Second)))
	require.Empty(t, chaos.Idle(&s.h, quiet, time.Second, 5*time.Second))
	require.Empty(t, chaos.Idle(&s.h, chaos.Span{From: 4000 * ms, To: 10000 * ms}, time.Second, 2*time.Second))
}

// A dead process' lock is held until its lease ends.
func TestALockOfADeadProcessIsNotFree(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.call("w/1", "1", "a!", 0)
	s.got("w/1", 10, 1)
	s.has("w/1", 1000)
	s.call("w/2", "2", "a!", 20)
	s.got("w/2", 3500, 2)
	s.h.Attempts[0].Timeout = 0
	require.Empty(t, chaos.Idle(&s.h, chaos.Span{From: 0, To: 10000 * ms}, time.Second, 2*time.Second))
}

func TestAJobThatRunsTwiceWithinAtLeastIsFound(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	for i, id := range []string{"w/1", "w/2"} {
		s.call(id, id, "job!", int64(i)*100)
		s.got(id, int64(i)*100+10, int64(i)+1)
	}
	for _, a := range s.h.Attempts {
		a.Job, a.AtLeast = true, 200*ms
	}
	require.Equal(t, []string{"one run per atLeast"}, promises(chaos.Jobs(&s.h, nil)))
	require.Empty(t, chaos.Jobs(&s.h, []int64{50 * ms}), "the record was lost in between")
	s.h.Attempts[0].AtLeast = 100 * ms
	require.Empty(t, chaos.Jobs(&s.h, nil))
}

func TestATornLastLineIsNoError(t *testing.T) {
	t.Parallel()
	var h chaos.History
	require.NoError(t, h.Read("w", strings.NewReader(`{"k":"call","id":"x","t":1,"w":[{"n":"a"}]}`+"\n"+`{"k":"got","id":"x"`)))
	require.Len(t, h.Attempts, 1)
	require.False(t, h.Attempts[0].Held())
	require.Error(t, h.Read("w", strings.NewReader("{\n")))
	require.Error(t, h.Read("w", strings.NewReader(`{"k":"got","id":"unknown"}`+"\n")))
}

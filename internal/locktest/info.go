package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// info: who holds, held and waits for a lock.
var info = append([]scenario{
	{name: "OnlyLocksWithARecordAreReturned", run: onlyRecords},
	{name: "CurrentAndPreviousOwnersAreTold", run: ownersTold},
	{name: "OutcomeOfTheCodeIsKept", run: outcomeKept},
	{name: "WhoWaitsIsTold", run: waitersTold},
	{name: "JSONOfTheInfoHasTheNamesOfTheRecord", run: jsonNames},
	{name: "PreviousReadersAreSixteenOfAKeptLock", run: func(t *testing.T, e *Env) { previousReaders(t, e, 16, lockservice.WithKeepLockData()) }},
	{name: "PreviousReadersAreEightOfAnyOtherLock", run: func(t *testing.T, e *Env) { previousReaders(t, e, 8) }},
	{name: "ErrorTextIsKeptOnlyIfAskedFor", run: errorText},
	{name: "LookingDoesNotHarmTheHolder", run: lookingHarmless},
}, in(bubbleName,
	scenario{name: "KeptRecordStaysAndOthersGo", run: keptStays},
	scenario{name: "LapsedOwnerIsToldFromAReleasedOne", run: lapsedTold},
)...)

// infoOf is what is known of one lock.
func infoOf(t testing.TB, svc service, name string) lockservice.LockInfo {
	t.Helper()
	infos, err := svc.GetLockInfo(t.Context(), []string{name})
	require.NoError(t, err)
	require.Len(t, infos, 1)
	return infos[0]
}

func onlyRecords(t *testing.T, e *Env) {
	svc := e.NewService()
	infos, err := svc.GetLockInfo(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Empty(t, infos)
	hold(t, t.Context(), svc, write("a"), read("c"))
	infos, err = svc.GetLockInfo(t.Context(), []string{"c", "b", "a", "c"})
	require.NoError(t, err)
	require.Len(t, infos, 2)
	require.Equal(t, []string{"c", "a"}, []string{infos[0].LockName, infos[1].LockName})
}

func ownersTold(t *testing.T, e *Env) {
	svc := e.NewService(lockservice.WithOwner("alice"))
	before := e.RedisMillis()
	a := hold(t, t.Context(), svc, write("x"))
	now := infoOf(t, svc, "x")
	require.NotNil(t, now.WriteOwner)
	w := *now.WriteOwner
	require.Equal(t, "alice", w.Owner)
	require.NotEmpty(t, w.ID)
	require.NotEmpty(t, w.Node)
	require.GreaterOrEqual(t, w.AcquiredAtEpochMillis, before)
	require.Equal(t, w.AcquiredAtEpochMillis+e.Lease.Milliseconds(), *w.ExpiresAtEpochMillis)
	require.Equal(t, e.Lease.Milliseconds(), w.LeaseMillis)
	require.Nil(t, w.ReleasedAtEpochMillis)
	require.Empty(t, w.Outcome)
	require.True(t, w.HeldAt(now.ReadAt()))
	token, _ := a.FencingToken("x")
	require.Equal(t, token, w.FencingToken)
	require.Equal(t, token, now.FencingToken)
	letGo(t, a)

	then := infoOf(t, svc, "x")
	require.Equal(t, w.ID, then.WriteOwner.ID, "the previous owner")
	require.Nil(t, then.WriteOwner.ExpiresAtEpochMillis)
	require.GreaterOrEqual(t, *then.WriteOwner.ReleasedAtEpochMillis, w.AcquiredAtEpochMillis)
	require.Equal(t, "ok", then.WriteOwner.Outcome)
	require.False(t, then.WriteOwner.HeldAt(then.ReadAt()))

	r := hold(t, t.Context(), svc, read("x"))
	both := infoOf(t, svc, "x")
	require.Len(t, both.ReadOwners, 1)
	require.Equal(t, w.ID, both.WriteOwner.ID)
	letGo(t, r)
}

func outcomeKept(t *testing.T, e *Env) {
	svc := e.NewService()
	for want, code := range map[string]func(context.Context, hasLock) error{
		"ok":    nothing,
		"error": func(context.Context, hasLock) error { return errors.New("no") },
		"panic": func(context.Context, hasLock) error { panic("no") },
	} {
		func() {
			defer func() { _ = recover() }()
			_, _ = svc.TryWriteLock(t.Context(), []string{"x"}, code, lockservice.WithKeepLockData())
		}()
		got := infoOf(t, svc, "x")
		require.Equal(t, want, got.WriteOwner.Outcome)
		require.True(t, got.KeepLockData)
	}
}

func waitersTold(t *testing.T, e *Env) {
	a, b, c := e.NewService(), e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	start(t, t.Context(), b, locks(read("x")))
	e.AwaitWaiting("x", 1)
	start(t, t.Context(), c, locks(write("x")))
	e.AwaitWaiting("x", 2)
	got := infoOf(t, a, "x")
	require.Len(t, got.Waiting, 2)
	require.False(t, got.Waiting[0].Write)
	require.True(t, got.Waiting[1].Write)
	for _, w := range got.Waiting {
		require.NotEmpty(t, w.Node)
		require.NotEqual(t, got.WriteOwner.Node, w.Node)
		require.Greater(t, w.UntilEpochMillis, w.SinceEpochMillis)
	}
}

func jsonNames(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	letGo(t, hold(t, t.Context(), a, write("x")))
	hold(t, t.Context(), a, read("x"))
	start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	data, err := json.Marshal(infoOf(t, a, "x"))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	delete(got, "readAtEpochMillis") // the one thing that is not of the record
	sameFields(t, e.Record("x"), got, "v")
}

// sameFields says that got has the fields of want, but for some that are the
// record's own business.
func sameFields(t *testing.T, want, got map[string]any, but ...string) {
	t.Helper()
	own := map[string]bool{"lastsMillis": true, "renewals": true}
	for _, name := range but {
		own[name] = true
	}
	for name := range got {
		require.Contains(t, want, name)
	}
	for name, value := range want {
		switch value := value.(type) {
		case map[string]any:
			sameFields(t, value, got[name].(map[string]any))
		case []any:
			for i := range value {
				sameFields(t, value[i].(map[string]any), got[name].([]any)[i].(map[string]any))
			}
		default:
			if !own[name] && (value != nil || got[name] != "") { // no outcome yet is null there and empty here
				require.Equal(t, value, got[name], name)
			}
		}
	}
}

func previousReaders(t *testing.T, e *Env, most int, opts ...lockservice.LockOption) {
	svc := e.NewService()
	acquire := func() *lockservice.Acquisition {
		a, err := svc.Acquire(t.Context(), []lockservice.Lock{read("x")}, opts...)
		require.NoError(t, err)
		return a
	}
	acquire()
	var last string
	for range 20 {
		r := acquire()
		readers := infoOf(t, svc, "x").ReadOwners
		last = readers[len(readers)-1].ID
		letGo(t, r)
	}
	got := infoOf(t, svc, "x")
	require.Len(t, got.ReadOwners, most+1, "those before and the current one")
	require.Equal(t, last, got.ReadOwners[most].ID, "those who left last are kept")
}

func errorText(t *testing.T, e *Env) {
	svc := e.NewService()
	fails := func(context.Context, hasLock) error { return errors.New("secret: größer") }
	_, _ = svc.TryWriteLock(t.Context(), []string{"x"}, fails)
	require.Empty(t, infoOf(t, svc, "x").WriteOwner.Error)
	require.NotContains(t, e.Get(e.Key("x")), "secret")
	_, _ = svc.TryWriteLock(t.Context(), []string{"x"}, fails, lockservice.WithKeepError(11)) // cuts a letter in two
	require.Equal(t, "secret: gr\ufffd", infoOf(t, svc, "x").WriteOwner.Error)
}

func lookingHarmless(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	before := e.Get(e.Key("x"))
	for range 20 {
		infoOf(t, svc, "x")
	}
	require.Equal(t, before, e.Get(e.Key("x")))
	letGo(t, a)
}

func keptStays(t *testing.T, e *Env) {
	svc := e.NewService()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"job"}, nothing, lockservice.WithKeepLockData())
	require.NoError(t, err)
	require.True(t, acquired)
	require.True(t, tries(t, t.Context(), svc, write("customer")))
	e.Pass(29 * time.Second)
	require.NotNil(t, e.Record("customer"))
	e.Pass(2 * time.Second)
	require.Nil(t, e.Record("customer"))
	e.Pass(time.Hour)
	got := infoOf(t, svc, "job")
	require.Equal(t, "ok", got.WriteOwner.Outcome)
	require.NotNil(t, got.LastSuccess)
	require.Equal(t, got.WriteOwner.ID, got.LastSuccess.ID)
}

func lapsedTold(t *testing.T, e *Env) {
	svc := e.NewService(lockservice.WithReleasedRecordTTL(time.Hour))
	e.plantWriter("x", "dead", 10*time.Second)
	require.True(t, infoOf(t, svc, "x").WriteOwner.HeldAt(infoOf(t, svc, "x").ReadAt()))
	e.Pass(10 * time.Second)
	got := infoOf(t, svc, "x")
	require.False(t, got.WriteOwner.HeldAt(got.ReadAt()))
	require.True(t, got.WriteOwner.LapsedAt(got.ReadAt()))
}

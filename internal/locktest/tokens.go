package locktest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// tokens: they rise, whatever happens to the records.
var tokens = append([]scenario{
	{name: "TokensRiseFromHolderToHolder", run: tokensRise},
	{name: "OneTokenPerCallInAllItsRecords", run: oneToken},
	{name: "ReuseShowsTheOriginalAndAnUpgradeANewerOne", run: reuseAndUpgrade},
	{name: "TokenIsHigherThanAnyThatTheRecordHasSeen", run: tokenFromTheFuture},
	{name: "TokensRiseOverLostData", run: tokensOver(func(e *Env) { e.Do("FLUSHALL") }), hurts: true},
	{name: "TokensRiseOverARestart", run: tokensOver(func(e *Env) { e.Restart(false) }), hurts: true},
}, in(bubbleName,
	scenario{name: "TokensRiseOverTheEndOfTheRecord", run: tokensOver(func(e *Env) { e.Pass(time.Minute) })},
)...)

// token is that of one short hold.
func token(t testing.TB, svc service, l lockservice.Lock) int64 {
	t.Helper()
	a := hold(t, t.Context(), svc, l)
	value, held := a.FencingToken(l.Name())
	require.True(t, held)
	letGo(t, a)
	_, held = a.FencingToken(l.Name())
	require.False(t, held)
	return value
}

// B4
func tokensRise(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	last := int64(0)
	for i := range 20 {
		next := token(t, []service{a, b}[i%2], []lockservice.Lock{read("x"), write("x")}[i/2%2])
		require.Greater(t, next, last)
		last = next
	}
}

func oneToken(t *testing.T, e *Env) {
	svc := e.NewService()
	for range 5 {
		token(t, svc, write("b"))
	}
	a := hold(t, t.Context(), svc, write("a"), read("b"), write("c"))
	want, _ := a.FencingToken("a")
	for _, name := range []string{"a", "b", "c"} {
		got, held := lockservice.FencingToken(a.Context(), name)
		require.True(t, held)
		require.Equal(t, want, got)
		require.InDelta(t, want, e.Record(name)["fencingToken"], 0)
	}
	_, held := a.FencingToken("d")
	require.False(t, held)
}

// B4
func reuseAndUpgrade(t *testing.T, e *Env) {
	svc := e.NewService()
	r := hold(t, t.Context(), svc, read("x"))
	first, _ := r.FencingToken("x")
	again := hold(t, r.Context(), svc, read("x"), write("y"))
	same, held := again.FencingToken("x")
	require.True(t, held)
	require.Equal(t, first, same)
	other, _ := again.FencingToken("y")
	require.GreaterOrEqual(t, other, first, "what was acquired has a token of its own")
	up := hold(t, again.Context(), svc, write("x"))
	upgraded, _ := up.FencingToken("x")
	require.Greater(t, upgraded, first)
	letGo(t, up)
	back, _ := lockservice.FencingToken(again.Context(), "x")
	require.Equal(t, first, back)
}

func tokenFromTheFuture(t *testing.T, e *Env) {
	svc := e.NewService(lockservice.WithReleasedRecordTTL(time.Hour))
	token(t, svc, write("x"))
	ahead := (e.RedisMillis() + 3_600_000) * 1000
	e.EditRecord("x", func(record map[string]any) { record["fencingToken"] = ahead })
	require.Equal(t, ahead+1, token(t, svc, write("x")))
	require.Equal(t, ahead+2, token(t, svc, read("x")))
	a := hold(t, t.Context(), svc, write("w"), write("x"))
	shared, _ := a.FencingToken("w")
	require.Equal(t, ahead+3, shared)
}

func tokensOver(hurt func(e *Env)) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		svc := e.NewService()
		before := token(t, svc, write("x"))
		hurt(e)
		e.Eventually(func() bool { return svc.WaitUntilReady(t.Context()) == nil }, "ready")
		require.Nil(t, e.Record("x"))
		require.Greater(t, token(t, svc, write("x")), before)
	}
}

package locktest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// foreign: what isn't ours is never overwritten, and what is newer survives.
var foreign = slices.Concat([]scenario{
	{name: "GarbageAtALockIsNamedAndLeftAsItIs", run: garbageLeft},
	{name: "GarbageAtOneOfSeveralLocksKeepsTheOthersFree", run: garbageAmongOthers},
	{name: "GarbageAtTheServersKeyIsNamedAndLeft", run: garbageAtServer},
	{name: "GarbageInPlaceOfAHeldLockIsALoss", run: garbageWhileHeld},
	{name: "UnknownFieldsOfTheSameVersionSurvive", run: unknownSurvive},
	{name: "GarbageOnTheWakeChannelDoesNoHarm", run: garbageOnChannel},
	{name: "AnotherJSONHandlerReadsAndWritesTheSameRecords", run: otherHandler},
}, in(bubbleName,
	scenario{name: "GarbageMeetsAWaiter", run: garbageMeetsWaiter},
))

func garbage(e *Env, name string) map[string]func(key string) {
	set := func(value string) func(key string) { return func(key string) { e.Do("SET", key, value) } }
	whole := foreignRecord(name, "somebody", 1, 1)
	return map[string]func(key string){
		"a list":           func(key string) { e.Do("RPUSH", key, "a", "b") },
		"a hash":           func(key string) { e.Do("HSET", key, "v", "1") },
		"empty":            set(""),
		"{}":               set("{}"),
		"[]":               set("[]"),
		"null":             set("null"),
		"a string":         set(`"x"`),
		"text":             set("hello"),
		"binary":           set("\x00\xff\x01"),
		"another program":  set(`{"owner":"somebody","until":12}`),
		"a higher version": set(strings.Replace(whole, `"v":1`, `"v":2`, 1)),
		"truncated":        set(whole[:len(whole)/2]),
		"trailing":         set(whole + "x"),
		"another's name":   set(foreignRecord("other", "somebody", 1, 1)),
		"a wrong type":     set(strings.Replace(whole, `"waiting":[]`, `"waiting":7`, 1)),
	}
}

// dump is the value at a key of whatever type.
func (e *Env) dump(key string) string {
	switch kind, _ := ptr(e.Do("TYPE", key)).ToString(); kind {
	case "list":
		all, _ := ptr(e.Do("LRANGE", key, "0", "-1")).AsStrSlice()
		return strings.Join(all, "|")
	case "hash":
		all, _ := ptr(e.Do("HGETALL", key)).AsStrMap()
		return strings.Join(slices.Sorted(maps.Values(all)), "|")
	default:
		return kind + ":" + e.Get(key)
	}
}

func garbageLeft(t *testing.T, e *Env) {
	svc := e.NewService()
	all := garbage(e, "x")
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		key := e.Key("x")
		all[kind](key)
		before := e.dump(key)
		for _, l := range []lockservice.Lock{read("x"), write("x")} {
			acquired, err := svc.TryLock(t.Context(), locks(l), nothing, timeout(long))
			require.False(t, acquired, kind)
			require.ErrorIs(t, err, lockservice.ErrCorruptRecord, kind)
			require.NotErrorIs(t, err, lockservice.ErrNotAcquired)
			var corrupt *lockservice.CorruptRecordError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, key, corrupt.Key)
		}
		require.Equal(t, before, e.dump(key), kind)
		e.Do("DEL", key)
		require.True(t, tries(t, t.Context(), svc, write("x")), "once it is gone")
		e.Do("DEL", key)
	}
}

func garbageAmongOthers(t *testing.T, e *Env) {
	svc := e.NewService()
	e.Do("SET", e.Key("bad"), "{}")
	letGo(t, hold(t, t.Context(), svc, write("good")))
	before := e.Get(e.Key("good"))
	_, err := svc.Acquire(t.Context(), locks(write("bad"), write("good"), read("new")))
	require.ErrorIs(t, err, lockservice.ErrCorruptRecord)
	require.Equal(t, before, e.Get(e.Key("good")))
	require.Nil(t, e.Record("new"))
	infos, err := svc.GetLockInfo(t.Context(), []string{"bad", "good", "new"})
	require.ErrorIs(t, err, lockservice.ErrCorruptRecord)
	require.Len(t, infos, 1, "what could be read is returned")
	require.Equal(t, "good", infos[0].LockName)
	require.True(t, tries(t, t.Context(), svc, write("good"), write("new")))
}

func garbageAtServer(t *testing.T, e *Env) {
	svc := e.NewService()
	held := hold(t, t.Context(), svc, write("held"))
	memory := e.Get(e.ServerKey())
	e.Do("SET", e.ServerKey(), "garbage")
	_, err := svc.TryWriteLock(t.Context(), []string{"x"}, nothing)
	require.ErrorIs(t, err, lockservice.ErrCorruptRecord)
	require.ErrorContains(t, err, e.ServerKey())
	require.Equal(t, "garbage", e.Get(e.ServerKey()))
	e.Do("SET", e.ServerKey(), memory)
	require.True(t, tries(t, t.Context(), svc, write("x")))
	letGo(t, held)
}

func garbageWhileHeld(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	e.Do("SET", e.Key("x"), "{}")
	<-a.Lost()
	require.ErrorIs(t, a.Release(t.Context()), lockservice.ErrLockLost)
	require.Equal(t, "{}", e.Get(e.Key("x")))
}

func garbageMeetsWaiter(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x"), write("y")))
	e.AwaitWaiting("x", 1)
	e.Do("SET", e.Key("x"), "{}")
	require.ErrorIs(t, p.failed(), lockservice.ErrCorruptRecord)
	require.LessOrEqual(t, p.after, 2*e.Poll)
	require.Equal(t, "{}", e.Get(e.Key("x")))
}

func unknownSurvive(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	outer := hold(t, t.Context(), a, read("x"))
	start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	e.EditRecord("x", func(record map[string]any) {
		record["future"] = map[string]any{"a": []any{1.0, "b", nil}}
		record["readOwners"].([]any)[0].(map[string]any)["colour"] = "red"
		record["waiting"].([]any)[0].(map[string]any)["mood"] = 7.0
	})
	// An upgrade and its release are reads and writes of the whole record.
	up := hold(t, outer.Context(), a, write("x"))
	check := func() {
		record := e.Record("x")
		require.Equal(t, map[string]any{"a": []any{1.0, "b", nil}}, record["future"])
		require.Equal(t, "red", record["readOwners"].([]any)[0].(map[string]any)["colour"])
		require.Equal(t, 7.0, record["waiting"].([]any)[0].(map[string]any)["mood"])
	}
	check()
	e.EditRecord("x", func(record map[string]any) {
		record["writeOwner"].(map[string]any)["shape"] = "round"
	})
	letGo(t, up)
	check()
	require.Equal(t, "round", e.Record("x")["writeOwner"].(map[string]any)["shape"])
	letGo(t, outer)
	require.NotNil(t, e.Record("x")["future"])
}

func garbageOnChannel(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	node := e.waitingNode("x")
	for _, channel := range []string{"{" + e.Prefix + "}:wake:" + node, "{" + e.Prefix + "}:waiting"} {
		for _, message := range []string{"", "x", "[]", `["x"]`, `["unknown"]`, `["x`, "{}", `{"v":99}`, "null", "7", `[1,2]`, "\x00\xff",
			strings.Repeat("[", 100_000), `["` + strings.Repeat("n", 1<<20) + `"]`} {
			e.Do("PUBLISH", channel, message)
		}
	}
	e.stillWaits(p)
	require.True(t, tries(t, t.Context(), b, write("y")))
	letGo(t, held)
	letGo(t, p.got())
}

// indented is another handler: its records look different, and mean the same.
type indented struct{}

func (indented) Marshal(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }

func (indented) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func otherHandler(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService(lockservice.WithJSONHandler(indented{}))
	for _, pair := range [][2]service{{a, b}, {b, a}} {
		held := hold(t, t.Context(), pair[0], write("x"))
		p := start(t, t.Context(), pair[1], locks(write("x")))
		e.AwaitWaiting("x", 1)
		e.stillWaits(p)
		letGo(t, held)
		letGo(t, p.got())
	}
	require.Equal(t, infoOf(t, a, "x").WriteOwner, infoOf(t, b, "x").WriteOwner)
}

package lockrules

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireSameJSON compares with encoding/json, whose output every other
// process, with whatever handler, has to be able to read.
func requireSameJSON(t *testing.T, rec *Record) {
	t.Helper()
	type plain Record // without the method
	want, err := json.Marshal((*plain)(rec))
	require.NoError(t, err)
	got, err := rec.AppendJSON(nil)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestAppendedJSONIsWhatEncodingJSONWrites(t *testing.T) {
	at, outcome := Millis(math.MinInt64), Outcome("<&>\"\\\x00\u2028\xff…")
	holdings := []Holding{
		{},
		{ID: "a", Owner: "worker-3:4711", Node: "n", AcquiredAt: 1, ExpiresAt: &at, LeaseMillis: math.MaxInt64, FencingToken: -1},
		{ID: string(outcome), Owner: "\n", Node: "日本", ReleasedAt: &at, Outcome: &outcome, Error: "e\"", Renewals: 3},
	}
	marks := []Mark{{}, {Node: "n\t", Write: true, Since: 1, Until: -2, LastsMillis: 3}}
	for i := range holdings {
		for _, list := range [][]Holding{nil, {}, holdings[:1], holdings} {
			for _, waiting := range [][]Mark{nil, {}, marks[1:], marks} {
				requireSameJSON(t, &Record{V: i, LockName: holdings[i].ID, WriteOwner: &holdings[i], ReadOwners: list, Waiting: waiting})
				requireSameJSON(t, &Record{LockName: "é", ReadOwners: list, Waiting: waiting, KeepLockData: true,
					FencingToken: math.MaxInt64, UpdatedAt: at, LastSuccess: &holdings[i]})
			}
		}
	}
}

func FuzzAppendedJSON(f *testing.F) {
	f.Add("name", "owner", "error", int64(1), int64(-1), true, uint8(7))
	f.Add("\"", "\\u0000", "\xf0\x9f", int64(0), int64(1), false, uint8(255))
	f.Fuzz(func(t *testing.T, name, owner, failure string, a, b int64, yes bool, parts uint8) {
		h := Holding{ID: name, Owner: owner, Node: failure, AcquiredAt: Millis(a), LeaseMillis: Millis(b), FencingToken: a, Error: failure, Renewals: b}
		if parts&1 != 0 {
			at := Millis(b)
			h.ExpiresAt = &at
		}
		if parts&2 != 0 {
			at, outcome := Millis(a), Outcome(owner)
			h.ReleasedAt, h.Outcome = &at, &outcome
		}
		rec := Record{V: int(parts), LockName: name, KeepLockData: yes, FencingToken: b, UpdatedAt: Millis(a)}
		if parts&4 != 0 {
			rec.WriteOwner, rec.LastSuccess = &h, &h
		}
		if parts&8 != 0 {
			rec.ReadOwners = []Holding{h, {}}
		}
		if parts&16 != 0 {
			rec.Waiting = []Mark{{Node: owner, Write: yes, Since: Millis(b), Until: Millis(a), LastsMillis: Millis(b)}}
		}
		requireSameJSON(t, &rec)
	})
}

// A field that is added to a record and not to AppendJSON would be lost with the
// next write.
func TestAppendedJSONKnowsEveryField(t *testing.T) {
	for _, kind := range []reflect.Type{reflect.TypeFor[Record](), reflect.TypeFor[Holding](), reflect.TypeFor[Mark]()} {
		filled := reflect.New(kind).Elem()
		fill(filled)
		rec := Empty("x")
		switch v := filled.Interface().(type) {
		case Record:
			rec = v
		case Holding:
			rec.WriteOwner = &v
		case Mark:
			rec.Waiting = []Mark{v}
		}
		requireSameJSON(t, &rec)
	}
}

// fill gives every field a value that isn't empty.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	default: // Extra stays empty
	}
}

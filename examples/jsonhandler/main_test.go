package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, redisenv.Tell(t.Context(), &out, tell))
	t.Log(out.String())
	require.Contains(t, out.String(), `shared: ok, last held by with-go-json
shared: ok, last held by with-go-json
go-json was used to write: true, and to read: true.
`)
}

// What a handler has to honour: the tags, null for a nil pointer, and a field that
// only a newer version knows, carried as it is.
func TestHandlerHonoursWhatRecordsNeed(t *testing.T) {
	t.Parallel()
	type record struct {
		Name   string `json:"lockName"`
		Until  *int64 `json:"expiresAtEpochMillis"`
		Hidden string `json:"-"`
		Extra  string `json:"extra,omitempty"`
	}
	for name, h := range map[string]jsonhandler.Handler{"goccy": goccy{}, "standard": jsonhandler.Standard} {
		data, err := h.Marshal(record{Name: "a <b> ü", Hidden: "x"})
		require.NoError(t, err, name)
		require.JSONEq(t, `{"lockName":"a <b> ü","expiresAtEpochMillis":null}`, string(data), name)

		// Byte by byte: order and digits are the newer version's affair.
		future := json.RawMessage(`{"b":1,"a":12345678901234567890}`)
		data, err = h.Marshal(map[string]json.RawMessage{"future": future})
		require.NoError(t, err, name)
		var fields map[string]json.RawMessage
		require.NoError(t, h.Unmarshal(data, &fields), name)
		require.Equal(t, future, fields["future"], name)
		require.Error(t, h.Unmarshal([]byte(`{"lockName":`), &record{}), name)
		require.Error(t, h.Unmarshal([]byte(`{"lockName":7}`), &record{}), name)
	}
}

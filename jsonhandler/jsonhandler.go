package jsonhandler

import "encoding/json"

// Handler serialises records. Services that share locks may use different
// handlers: what they write is plain JSON with the same field names.
type Handler interface {
	// Marshal returns the JSON of v. The result is the caller's own.
	Marshal(v any) ([]byte, error)
	// Unmarshal reads data into v, which is a pointer. It must not keep data.
	Unmarshal(data []byte, v any) error
}

// Standard is the default: encoding/json. A value that can append what
// encoding/json would write of it, without reflection, is asked to do so.
var Standard Handler = standard{}

type standard struct{}

type appender interface {
	AppendJSON(to []byte) ([]byte, error)
}

func (standard) Marshal(v any) ([]byte, error) {
	if a, ok := v.(appender); ok {
		return a.AppendJSON(nil)
	}
	return json.Marshal(v)
}

func (standard) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

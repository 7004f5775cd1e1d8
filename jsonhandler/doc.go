// Package jsonhandler is how the lock service turns its records into JSON and
// back, and where another JSON library is plugged in.
//
// It gives the interface and a default on encoding/json. It does not know what
// a record is.
//
// A Handler must be safe for use by many goroutines at once, honour the "json"
// tags of struct fields, and honour [json.RawMessage] (fields that a newer
// version has added are carried through it unchanged). All well-kept JSON
// libraries do.
package jsonhandler

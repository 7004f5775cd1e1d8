package pubsub

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID is the number that stack traces show. It serves one purpose: Close
// called from inside a handler must not wait for that handler, and a handler has
// no ctx that could tell. Numbers are never used twice in a process.
func goroutineID() uint64 {
	var header [64]byte
	text := header[:runtime.Stack(header[:], false)]
	text = bytes.TrimPrefix(text, []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		panic("pubsub: the runtime no longer numbers goroutines in stack traces")
	}
	return id
}

package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Handler does one thing that [Process.Call] may ask for.
type Handler func(args json.RawMessage) (result any, err error)

// Role makes the handlers of a process from its configuration. stop is called when
// no more is asked.
type Role func(config json.RawMessage) (handlers map[string]Handler, stop func(), err error)

// Child runs the role that this process was started for, and returns false if it was
// started by a user.
func Child(roles map[string]Role) bool {
	name, is := os.LookupEnv(roleEnv)
	if !is {
		return false
	}
	handlers, stop, err := roles[name](json.RawMessage(os.Getenv(configEnv)))
	if err != nil {
		// The first call tells it: nobody listens before.
		handlers, stop = nil, func() {}
		err = fmt.Errorf("%s did not start: %w", name, err)
	}
	serve(handlers, err)
	stop()
	return true
}

func serve(handlers map[string]Handler, broken error) {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
		if err := out.Encode(answer(handlers, broken, r)); err != nil {
			return // the parent is gone
		}
	}
}

func answer(handlers map[string]Handler, broken error, r request) response {
	handler, known := handlers[r.Do]
	if broken == nil && !known {
		broken = errors.New("unknown call")
	}
	if broken != nil {
		return response{Error: broken.Error()}
	}
	result, err := handler(r.Args)
	if err != nil {
		return response{Error: err.Error()}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return response{Error: err.Error()}
	}
	return response{Result: text}
}

// Handle makes a [Handler] of a function with arguments of a type.
func Handle[A, R any](f func(A) (R, error)) Handler {
	return func(text json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(text, &args); err != nil {
			return nil, err
		}
		return f(args)
	}
}

package redisenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Story is the output of an example. Its lines come from several goroutines.
type Story struct {
	mu  sync.Mutex // guards the writes to out
	out io.Writer
}

// NewStory tells a story to out.
func NewStory(out io.Writer) *Story { return &Story{out: out} }

// Say writes a line.
func (s *Story) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// Main runs an example as a program.
func Main(tell func(ctx context.Context, redis *Redis, story *Story) error) {
	if err := Tell(context.Background(), os.Stdout, tell); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Tell runs an example, on a Redis that is opened for it.
func Tell(ctx context.Context, out io.Writer, tell func(ctx context.Context, redis *Redis, story *Story) error) (err error) {
	redis, err := Open()
	if err != nil {
		return errors.Join(errors.New("no Redis to be had"), err)
	}
	defer redis.Close()
	story := NewStory(out)
	story.Say("On %s.", redis.Description)
	return tell(ctx, redis, story)
}

// Pause lets time go by, as a story has to, unless ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

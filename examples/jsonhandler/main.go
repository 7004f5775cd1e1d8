// Command jsonhandler puts another JSON library, github.com/goccy/go-json, in the
// place of encoding/json. Two services, one with each, share locks: what they write
// is plain JSON with the same field names.
//
// Run it with go run ./jsonhandler.
package main

import (
	"context"
	"errors"
	"sync/atomic"

	gojson "github.com/goccy/go-json"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/jsonhandler"
	"github.com/redislockservice/redislockservice/lockservice"
)

// goccy is all that is needed.
type goccy struct{}

var _ jsonhandler.Handler = goccy{}

func (goccy) Marshal(v any) ([]byte, error)      { return gojson.Marshal(v) }
func (goccy) Unmarshal(data []byte, v any) error { return gojson.Unmarshal(data, v) }

func main() { redisenv.Main(tell) }

// counting counts the calls of another handler, for the story.
type counting struct {
	handler         jsonhandler.Handler
	written, parsed *atomic.Int64
}

func (c counting) Marshal(v any) ([]byte, error) {
	c.written.Add(1)
	return c.handler.Marshal(v)
}

func (c counting) Unmarshal(data []byte, v any) error {
	c.parsed.Add(1)
	return c.handler.Unmarshal(data, v)
}

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	counter := counting{goccy{}, new(atomic.Int64), new(atomic.Int64)}
	fast, _, err := redis.Service(ctx, "with-go-json", lockservice.WithJSONHandler(counter))
	if err != nil {
		return err
	}
	standard, _, err := redis.Service(ctx, "with-encoding-json")
	if err != nil {
		return err
	}
	for _, svc := range []*lockservice.RedisLockService{fast, standard, fast} {
		if err := hold(ctx, svc); err != nil {
			return err
		}
	}
	for _, reader := range []*lockservice.RedisLockService{fast, standard} {
		if err := show(ctx, reader, story); err != nil {
			return err
		}
	}
	story.Say("go-json was used to write: %t, and to read: %t.", counter.written.Load() > 0, counter.parsed.Load() > 0)
	return nil
}

// hold takes the lock over from whoever held it last, with whichever library.
func hold(ctx context.Context, svc *lockservice.RedisLockService) error {
	acquired, err := svc.TryWriteLock(ctx, []string{"shared"}, func(context.Context, lockservice.HasLock) error {
		return nil
	}, lockservice.WithKeepLockData())
	if err == nil && !acquired {
		err = errors.New("the lock was not free")
	}
	return err
}

func show(ctx context.Context, svc *lockservice.RedisLockService, story *redisenv.Story) error {
	infos, err := svc.GetLockInfo(ctx, []string{"shared"})
	for _, info := range infos {
		story.Say("%s: %s, last held by %s", info.LockName, info.WriteOwner.State(info.ReadAt()), info.WriteOwner.Owner)
	}
	return err
}

package lockservice

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/pubsub"
)

// surroundings is all of the outside that a service touches, besides the clock.
// The simulation puts its own in its place.
type surroundings struct {
	node   string // of this service, in records and channel names
	port   lane.Port
	bus    bus
	posts  posts // may be nil: then who waits is told by messages only
	newID  func() string
	jitter func(limit time.Duration) time.Duration
}

// bus carries messages between nodes. Any of them may be lost.
type bus interface {
	Subscribe(ctx context.Context, channel string, h pubsub.Handler) (subscription, error)
	Publish(ctx context.Context, channel, payload string) error
}

type subscription interface{ Close() }

// posts is where a node leaves what its messages may not have told.
type posts interface {
	Put(ctx context.Context, key string, data []byte, lasts time.Duration) error
	Get(ctx context.Context, key string) ([]byte, error)
}

type redisBus struct{ *pubsub.Service }

func (b redisBus) Subscribe(ctx context.Context, channel string, h pubsub.Handler) (subscription, error) {
	sub, err := b.Service.Subscribe(ctx, channel, h)
	if err != nil {
		return nil, err // not a nil *Subscription in a non-nil interface
	}
	return sub, nil
}

type redisPosts struct{ client rueidis.Client }

func (p redisPosts) Put(ctx context.Context, key string, data []byte, lasts time.Duration) error {
	return p.client.Do(ctx, p.client.B().Set().Key(key).Value(string(data)).Px(lasts.Truncate(time.Millisecond)).Build()).Error()
}

func (p redisPosts) Get(ctx context.Context, key string) ([]byte, error) {
	return p.client.Do(ctx, p.client.B().Get().Key(key).Build()).AsBytes()
}

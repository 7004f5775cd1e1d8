package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// messenger is what no hand-off by way of Redis can be quicker than: the releaser
// writes one key and publishes one message, in one go, and who waits is in with the
// message. It checks nothing, and is no lock: it works for two processes
// that hand one name to and fro.
type messenger struct {
	client rueidis.Client
	own    rueidis.DedicatedClient
	give   func()
	told   chan string // cap 1: the name, by the other process
	self   string
}

const grants = "grant:"

func openMessenger(c openConfig) (peer, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, err
	}
	p := &messenger{client: client, told: make(chan string, 1), self: time.Now().Format(time.RFC3339Nano)}
	listener, _ := client.Dedicate()
	p.own, p.give = client.Dedicate()
	subscribed := make(chan struct{}, 1)
	listener.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(rueidis.PubSubSubscription) { subscribed <- struct{}{} },
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Message != p.self {
				p.told <- m.Channel[len(grants):]
			}
		},
	})
	listener.Do(context.Background(), client.B().Psubscribe().Pattern(grants+"*").Build())
	select {
	case <-subscribed:
		return p, nil
	case <-time.After(5 * time.Second):
		p.close()
		return nil, errors.New("not subscribed within 5s")
	}
}

func (p *messenger) contender() (contender, error) { return p, nil }

func (p *messenger) close() {
	p.give()
	p.client.Close()
}

func (p *messenger) lock(ctx context.Context, names ...string) (func() error, error) {
	err := p.client.Do(ctx, p.client.B().Set().Key(names[0]).Value(p.self).Nx().Px(time.Minute).Build()).Error()
	if rueidis.IsRedisNil(err) {
		err = nil
		for told := ""; told != names[0] && err == nil; {
			select {
			case told = <-p.told:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	}
	return func() error { return p.pass(names[0]) }, err
}

// pass hands the name to the other process.
func (p *messenger) pass(name string) error {
	b := p.own.B()
	for _, reply := range p.own.DoMulti(context.Background(), b.Set().Key(name).Value("").Px(time.Minute).Build(),
		b.Publish().Channel(grants+name).Message(p.self).Build()) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (p *messenger) rwlock(context.Context, string, bool) (func() error, error) {
	return nil, errNoReaders
}

package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// floor asks the server for two things, one after the other, and locks nothing.
type floor struct {
	client rueidis.Client
	own    bool // a connection for each contender
	plain  bool // SET and DEL, not PING
}

func openFloor(c openConfig, f floor) (peer, error) {
	var err error
	f.client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{c.Addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: !f.own,
	})
	return f, err
}

func openPings(shared bool) func(openConfig) (peer, error) {
	return func(c openConfig) (peer, error) { return openFloor(c, floor{own: !shared}) }
}

func openSetDel(c openConfig) (peer, error) { return openFloor(c, floor{plain: true}) }

func (p floor) contender() (contender, error) {
	if !p.own {
		return floorContender{p.client, p.plain}, nil
	}
	own, _ := p.client.Dedicate()
	return floorContender{own, p.plain}, nil
}

func (p floor) close() { p.client.Close() }

type floorContender struct {
	client rueidis.CoreClient
	plain  bool
}

func (c floorContender) lock(ctx context.Context, names ...string) (func() error, error) {
	if !c.plain {
		return func() error { return c.ping(context.Background()) }, c.ping(ctx)
	}
	set := c.client.B().Set().Key(names[0]).Value("x").Nx().Px(time.Minute).Build()
	release := func() error {
		return c.client.Do(context.Background(), c.client.B().Del().Key(names[0]).Build()).Error()
	}
	return release, c.client.Do(ctx, set).Error()
}

func (c floorContender) ping(ctx context.Context) error {
	return c.client.Do(ctx, c.client.B().Ping().Build()).Error()
}

func (c floorContender) rwlock(context.Context, string, bool) (func() error, error) {
	return nil, errNoReaders
}

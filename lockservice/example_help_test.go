package lockservice_test

import (
	"context"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/redislockservice/redislockservice/lockservice"
)

// embeddedRedis is a server for one example, so that examples need nothing installed.
// It claims to be up for an hour: else nothing would be granted for a lease.
func embeddedRedis() (url string, stop func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	m.ClockTTL(true)
	m.Server().SetPreHook(func(p *server.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		p.WriteBulk("# Server\r\nredis_version:7.0.0\r\nrun_id:example\r\nuptime_in_seconds:3600\r\n")
		return true
	})
	return "redis://" + m.Addr() + "/0", m.Close
}

// exampleService is what the examples lock with.
func exampleService() (ctx context.Context, svc *lockservice.RedisLockService, done func()) {
	ctx = context.Background()
	url, stop := embeddedRedis()
	svc, err := lockservice.Open(ctx, url, lockservice.WithOwner("worker-1"))
	if err != nil {
		panic(err)
	}
	return ctx, svc, func() {
		_ = svc.Close(ctx)
		stop()
	}
}

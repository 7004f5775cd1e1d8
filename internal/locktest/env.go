package locktest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/lockservice"
)

// Env is what one scenario runs in: a Redis, services on it, and ways to hurt it.
// Its methods fail the test they belong to, so they are called on its goroutine.
type Env struct {
	T      *testing.T
	Prefix string        // of the keys and channels of its services
	Lease  time.Duration // of its services, unless an option says otherwise
	Poll   time.Duration // their poll delay, likewise
	Fake   bool          // time is the bubble's

	server server
	keys   keyspace.Space
}

// server is a Redis that a scenario may hurt.
type server interface {
	// client is one that services use; it goes through whatever cut and pause do.
	client(t testing.TB, change func(*rueidis.ClientOption)) (rueidis.Client, error)
	// do runs a command as an administrator, who is never cut off.
	do(t testing.TB, args ...string) rueidis.RedisMessage
	// restart makes it another run of the server.
	restart(t testing.TB, keepData bool)
	// cut takes the server away from its clients until heal.
	cut(t testing.TB)
	heal(t testing.TB)
	// pause has it accept everything and answer nothing until unpause.
	pause(t testing.TB)
	unpause(t testing.TB)
}

func newEnv(t *testing.T, s server, prefix string) *Env {
	keys, err := keyspace.New(prefix)
	require.NoError(t, err)
	return &Env{T: t, Prefix: prefix, server: s, keys: keys}
}

// NewService makes a service with a client of its own, waits until it may grant
// locks, and closes it when the test ends.
func (e *Env) NewService(opts ...lockservice.Option) *lockservice.RedisLockService {
	e.T.Helper()
	return e.NewServiceOn(e.Client(), opts...)
}

// NewServiceOn is NewService on a given client.
func (e *Env) NewServiceOn(client rueidis.Client, opts ...lockservice.Option) *lockservice.RedisLockService {
	e.T.Helper()
	svc, err := lockservice.New(e.T.Context(), client, e.Options(opts...)...)
	require.NoError(e.T, err)
	e.T.Cleanup(func() { e.Close(svc) })
	require.NoError(e.T, svc.WaitUntilReady(e.T.Context()))
	return svc
}

// Close closes a service; what is held still is cut off.
func (e *Env) Close(svc *lockservice.RedisLockService) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(e.T, svc.Close(ctx))
}

// Options are those of a service of this test, and then opts.
func (e *Env) Options(opts ...lockservice.Option) []lockservice.Option {
	return append([]lockservice.Option{lockservice.WithKeyPrefix(e.Prefix), lockservice.WithLeaseTime(e.Lease),
		lockservice.WithPollDelay(e.Poll)}, opts...)
}

// Client makes a client for services; it is closed when the test ends.
func (e *Env) Client() rueidis.Client {
	e.T.Helper()
	return e.ClientWith(func(*rueidis.ClientOption) {})
}

// ClientWith is Client with other options.
func (e *Env) ClientWith(change func(*rueidis.ClientOption)) rueidis.Client {
	e.T.Helper()
	client, err := e.server.client(e.T, change)
	require.NoError(e.T, err)
	return client
}

// Do runs a command as an administrator. A nil reply is no error.
func (e *Env) Do(args ...string) rueidis.RedisMessage {
	e.T.Helper()
	return e.server.do(e.T, args...)
}

// Key is the key of a lock's record.
func (e *Env) Key(name string) string { return e.keys.Lock(name) }

// ServerKey is the key of what is remembered of the server.
func (e *Env) ServerKey() string { return e.keys.Server() }

// Get is the value of a key; empty if there is none.
func (e *Env) Get(key string) string {
	e.T.Helper()
	msg := e.Do("GET", key)
	if msg.IsNil() {
		return ""
	}
	value, err := msg.ToString()
	require.NoError(e.T, err)
	return value
}

// Record is a lock's record as the JSON object that it is; nil if there is none.
func (e *Env) Record(name string) map[string]any {
	e.T.Helper()
	value := e.Get(e.Key(name))
	if value == "" {
		return nil
	}
	var record map[string]any
	require.NoError(e.T, json.Unmarshal([]byte(value), &record))
	return record
}

// EditRecord changes a lock's record behind the back of everybody.
func (e *Env) EditRecord(name string, edit func(record map[string]any)) {
	e.T.Helper()
	record := e.Record(name)
	require.NotNil(e.T, record)
	edit(record)
	data, err := json.Marshal(record)
	require.NoError(e.T, err)
	e.Do("SET", e.Key(name), string(data))
}

// RedisMillis is Redis' time.
func (e *Env) RedisMillis() int64 {
	e.T.Helper()
	msg := e.Do("TIME")
	parts, err := msg.AsIntSlice()
	require.NoError(e.T, err)
	return parts[0]*1000 + parts[1]/1000
}

// Restart makes it another run of the server, which breaks all connections.
func (e *Env) Restart(keepData bool) { e.server.restart(e.T, keepData) }

// Cut takes the server away until Heal: connections break, new ones are refused.
func (e *Env) Cut() { e.server.cut(e.T) }

// Heal gives it back.
func (e *Env) Heal() { e.server.heal(e.T) }

// Pause has the server accept everything and answer nothing until Unpause, when it
// works on what was sent meanwhile.
func (e *Env) Pause() { e.server.pause(e.T) }

// Unpause lets it go on.
func (e *Env) Unpause() { e.server.unpause(e.T) }

// Eventually waits until cond is true.
func (e *Env) Eventually(cond func() bool, what string) {
	e.T.Helper()
	for range 20_000 {
		if e.Fake {
			settle()
		}
		if cond() {
			return
		}
		pass(time.Millisecond)
	}
	require.FailNow(e.T, "never came to pass", what)
}

// Pass lets time go by.
func (e *Env) Pass(d time.Duration) { pass(d) }

// AwaitWaiting waits until so many nodes have left a waiting mark at the lock.
func (e *Env) AwaitWaiting(name string, nodes int) {
	e.T.Helper()
	e.Eventually(func() bool {
		record := e.Record(name)
		if record == nil {
			return nodes == 0
		}
		waiting, _ := record["waiting"].([]any)
		return len(waiting) == nodes
	}, "waiting marks")
}

// LoseReplyTo has the server carry out the next command of a name, such as EXEC, and
// break the connection instead of answering. Only in a bubble.
func (e *Env) LoseReplyTo(command string) {
	e.T.Helper()
	m, ok := e.server.(*mini)
	require.True(e.T, ok, "only in a bubble")
	m.loseReply(command)
}

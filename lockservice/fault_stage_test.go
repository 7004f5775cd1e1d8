package lockservice_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

const (
	refusalLease   = 2 * time.Second
	refusalTimeout = 4 * time.Second // connection timeout; an attempt has to fit between two retries
)

// refusalStage is two services, logged in as a user of their own, and an administrator.
type refusalStage struct {
	refusal
	server *redistest.Server
	admin  rueidis.Client
	url    string
	user   string
	opts   []lockservice.Option
	logs   *observer.ObservedLogs
	stalls *stallWatch

	holder, other *lockservice.RedisLockService
	held, passing *lockservice.Acquisition
	waiter        <-chan got
	ends          time.Time // of the lease, by the record, before anything was refused
	refused       time.Time // when it began
	texts         []string  // of all errors
	took          time.Duration
}

func newRefusalStage(t *testing.T, server *redistest.Server, r refusal) *refusalStage {
	t.Helper()
	s := &refusalStage{refusal: r, server: server, user: "locks-" + r.name, stalls: watchStalls(t, server)}
	option := server.ClientOption()
	option.ConnWriteTimeout = 10 * time.Second
	var err error
	s.admin, err = rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(s.admin.Close)
	server.Do(t, "ACL", "SETUSER", s.user, "reset", "on", ">"+canary, "~*", "&*", "+@all")
	s.url = "redis://" + s.user + ":" + canary + "@" + server.Addr() + "/0"
	core, logs := observer.New(zapcore.DebugLevel)
	s.logs = logs
	s.opts = []lockservice.Option{lockservice.WithKeyPrefix("refusal-" + r.name), lockservice.WithLeaseTime(refusalLease),
		lockservice.WithRenewalInterval(refusalLease / 4), lockservice.WithPollDelay(300 * time.Millisecond),
		lockservice.WithConnectionTimeout(refusalTimeout), lockservice.WithLogger(zap.New(core))}
	s.holder, s.other = s.open(t), s.open(t)
	return s
}

func (s *refusalStage) open(t *testing.T) *lockservice.RedisLockService {
	t.Helper()
	return insist(t, func() (*lockservice.RedisLockService, error) {
		return lockservice.Open(t.Context(), s.url, s.opts...)
	})
}

func (s *refusalStage) play(f *findings) {
	began := time.Now()
	s.prepare(f)
	if len(*f) > 0 {
		return
	}
	before := s.counts(f)
	s.cause(f)
	s.newAcquires(f)
	s.looks(f)
	s.news(f)
	s.releases(f)
	s.holds(f)
	lasted := time.Since(s.refused)
	s.end(f)
	s.quiet(f, before, s.counts(f), lasted)
	s.recovers(f)
	s.secrets(f)
	s.took = time.Since(began)
	if s.stalls.since(began) {
		for i := range *f {
			(*f)[i] = fmt.Errorf("(the machine stood still for a while) %w", (*f)[i])
		}
	}
}

// prepare has a lock held that somebody else waits for, and another to be released.
func (s *refusalStage) prepare(f *findings) {
	ctx := context.Background()
	var err error
	s.held, err = s.holder.Acquire(ctx, writes([]string{"held"}), lockservice.WithTimeout(5*time.Second))
	f.unless(err == nil, "before: %w", err)
	s.passing, err = s.holder.Acquire(ctx, writes([]string{"passing"}), lockservice.WithTimeout(5*time.Second))
	f.unless(err == nil, "before: %w", err)
	s.waiter = ask2(ctx, s.other, writes([]string{"held"}), 30*time.Second)
	err = until(10*time.Second, "somebody waits", func() bool {
		infos, err := s.holder.GetLockInfo(ctx, []string{"held"})
		if err != nil || len(infos) == 0 || infos[0].WriteOwner == nil {
			return false
		}
		s.ends = infos[0].WriteOwner.ExpiresAt()
		return len(infos[0].Waiting) == 1
	})
	f.unless(err == nil, "before: %w", err)
}

func ask2(ctx context.Context, svc *lockservice.RedisLockService, locks []lockservice.Lock, timeout time.Duration) <-chan got {
	done := make(chan got, 1)
	began := time.Now()
	go func() {
		a, err := svc.Acquire(ctx, locks, lockservice.WithTimeout(timeout))
		done <- got{a, err, time.Since(began)}
	}()
	return done
}

func (s *refusalStage) do(f *findings, commands [][]string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range commands {
		c = slices.Clone(c)
		for i := range c {
			if c[i] == "USER" && (i == 2 && c[0] == "ACL" || i == 3) {
				c[i] = s.user
			}
		}
		err := s.admin.Do(ctx, s.admin.B().Arbitrary(c...).Build()).Error()
		f.unless(err == nil, "%v: %w", c, err)
	}
}

// endless is a foreign program that never ends.
var endless = []string{"EVAL", "while true do end", "0"}

func (s *refusalStage) cause(f *findings) {
	s.do(f, s.spoil)
	if s.script {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = s.admin.Do(ctx, s.admin.B().Arbitrary(endless...).Build()).Error() // killed in the end
		}()
	}
	s.refused = time.Now()
	if s.args != nil {
		err := until(20*time.Second, "the server refuses", s.refuses)
		f.unless(err == nil, "%w", err)
	}
}

// refuses asks as somebody else: a server may take a moment to begin with it.
func (s *refusalStage) refuses() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := rueidis.NewClient(s.server.ClientOption())
	if err != nil {
		return true // BUSY
	}
	defer client.Close()
	err = client.Do(ctx, client.B().Set().Key("probe").Value("").Build()).Error()
	_, isReply := rueidis.IsRedisErr(err)
	return isReply
}

func (s *refusalStage) end(f *findings) {
	if s.script {
		// The administrator's connection waits for the script: another one kills it.
		option := s.server.ClientOption()
		client, err := rueidis.NewClient(option)
		f.unless(err == nil, "mend: %w", err)
		if err == nil {
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			err = client.Do(ctx, client.B().ScriptKill().Build()).Error()
			f.unless(err == nil, "mend: %w", err)
		}
		return
	}
	s.do(f, s.mend)
}

// judge looks at an error that says that Redis refuses.
func (s *refusalStage) judge(f *findings, step string, err error, words ...string) {
	f.unless(err != nil, "%s: no error", step)
	if err == nil {
		return
	}
	s.texts = append(s.texts, err.Error())
	f.unless(errors.Is(err, lockservice.ErrUnavailable), "%s: not ErrUnavailable: %w", step, err)
	f.unless(!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled), "%s: matches an error of a ctx that is well: %w", step, err)
	for _, word := range words {
		f.unless(strings.Contains(err.Error(), word), "%s: the error says nothing of %q: %w", step, word, err)
	}
}

// newAcquires asks for a lock that nobody holds.
func (s *refusalStage) newAcquires(f *findings) {
	began := time.Now()
	a, err := s.other.Acquire(context.Background(), writes([]string{"fresh"}))
	f.unless(time.Since(began) < refusalTimeout+5*time.Second, "an attempt took %v", time.Since(began))
	_ = a.Release(context.Background())
	if s.acquire {
		f.unless(err == nil, "acquire: %w", err)
		return
	}
	s.judge(f, "acquire", err, s.words...)
}

func (s *refusalStage) looks(f *findings) {
	_, err := s.holder.GetLockInfo(context.Background(), []string{"held"})
	if s.reads {
		f.unless(err == nil, "GetLockInfo: %w", err)
		return
	}
	s.judge(f, "GetLockInfo", err, s.words...)
}

func (s *refusalStage) news(f *findings) {
	svc, err := lockservice.Open(context.Background(), s.url, s.opts...)
	if err == nil {
		_ = svc.Close(context.Background())
	}
	switch {
	case s.unsuitable:
		f.unless(errors.Is(err, lockservice.ErrUnsuitableServer), "New: not ErrUnsuitableServer: %w", err)
		if err != nil {
			s.texts = append(s.texts, err.Error())
		}
	default:
		s.judge(f, "New", err, s.words[len(s.words)-1]) // the server's own word for it
	}
}

// releases lets go while Redis refuses: the caller is not bothered with it.
func (s *refusalStage) releases(f *findings) {
	began := time.Now()
	lost := !s.passing.HasLock()
	err := s.passing.Release(context.Background())
	f.unless(err == nil || lost && errors.Is(err, lockservice.ErrLockLost), "release: %w", err)
	f.unless(time.Since(began) < refusalTimeout+5*time.Second, "the release took %v", time.Since(began))
	f.unless(!s.passing.HasLock(), "released, and HasLock says yes")
}

// holds: who holds a lock keeps it as long as it can be sure, and no longer.
func (s *refusalStage) holds(f *findings) {
	if s.renew {
		err := until(10*time.Second, "the lease went on", func() bool { return time.Now().After(s.ends.Add(refusalLease / 2)) })
		f.unless(err == nil && s.held.HasLock(), "the holder lost its lock, although it could renew")
		return
	}
	select {
	case <-s.held.Lost():
	case <-time.After(20 * time.Second):
		f.unless(false, "the holder was never told that its lock is lost")
	}
	f.unless(!s.held.HasLock(), "lost, and HasLock says yes")
	f.unless(errors.Is(context.Cause(s.held.Context()), lockservice.ErrLockLost), "the ctx ended for another cause: %v", context.Cause(s.held.Context()))
	early := s.ends.Add(-100 * time.Millisecond) // the margin, and the clock's milliseconds
	f.unless(time.Now().After(early), "the lock was given up %v before the end of its lease", time.Until(early))
}

// load is what the services have cost the server.
type load struct{ connections, commands int64 }

func (s *refusalStage) counts(f *findings) (l load) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	option := s.server.ClientOption()
	client, err := rueidis.NewClient(option)
	f.unless(err == nil, "INFO: %w", err)
	if err != nil {
		return l
	}
	defer client.Close()
	text, err := client.Do(ctx, client.B().Info().Section("stats").Build()).ToString()
	f.unless(err == nil, "INFO: %w", err)
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "total_connections_received:%d", &l.connections)
		_, _ = fmt.Sscanf(line, "total_commands_processed:%d", &l.commands)
	}
	return l
}

// quiet: nobody hammers at a server that says no. The bounds are for all services
// on the server together, so those of one server's users are far from theirs.
func (s *refusalStage) quiet(f *findings, before, after load, lasted time.Duration) {
	seconds := int64(lasted.Seconds()) + 1
	services := int64(2)
	if s.args == nil {
		services *= int64(len(userRefusals))
	}
	connections, commands := after.connections-before.connections, after.commands-before.commands
	f.unless(connections < 30*services*seconds, "%d connections in %v", connections, lasted)
	f.unless(commands < 400*services*seconds, "%d commands in %v", commands, lasted)
}

func (s *refusalStage) recovers(f *findings) {
	if s.renew {
		f.unless(s.held.HasLock(), "the holder lost its lock")
		err := s.held.Release(context.Background())
		f.unless(err == nil, "release, afterwards: %w", err)
	}
	select {
	case g := <-s.waiter:
		f.unless(g.err == nil, "who waited all the time: %w", g.err)
		f.unless(!s.held.HasLock() || g.a == nil, "two holders")
		err := g.a.Release(context.Background())
		f.unless(err == nil, "who waited all the time released: %w", err)
	case <-time.After(30 * time.Second):
		f.unless(false, "who waited all the time waits still")
	}
	if !s.renew {
		err := s.held.Release(context.Background())
		f.unless(errors.Is(err, lockservice.ErrLockLost), "the release of what was lost: %v", err)
	}
	for _, svc := range []*lockservice.RedisLockService{s.holder, s.other} {
		for _, name := range []string{"held", "passing", "fresh", "afterwards"} {
			a, err := svc.Acquire(context.Background(), writes([]string{name}), lockservice.WithTimeout(20*time.Second))
			f.unless(err == nil, "afterwards, %s: %w", name, err)
			f.unless(a.HasLock() || err != nil, "afterwards, %s: granted and not held", name)
			err = a.Release(context.Background())
			f.unless(err == nil, "afterwards, %s: %w", name, err)
		}
	}
	again, err := lockservice.Open(context.Background(), s.url, s.opts...)
	f.unless(err == nil, "New, afterwards: %w", err)
	if err == nil {
		_ = again.Close(context.Background())
	}
}

// secrets: no password in any error or log.
func (s *refusalStage) secrets(f *findings) {
	for _, e := range s.logs.All() {
		s.texts = append(s.texts, fmt.Sprintf("%s %v", e.Message, e.ContextMap()))
	}
	for _, text := range s.texts {
		f.unless(!strings.Contains(text, canary) && !strings.Contains(text, rotated), "a password in: %s", text)
	}
}

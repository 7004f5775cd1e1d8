package lockservice_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// A refusal is one reason for which a server says no, and what is right then at
// each step: New, acquire, wait, renew, release, look.
type refusal struct {
	name   string
	spoil  [][]string // how it comes about
	mend   [][]string // how it ends
	script bool       // by a script that somebody runs
	args   []string   // of its server; nil: one server for all of its kind

	words []string // what an error text has to say
	// What goes on as if nothing were wrong:
	reads   bool // GetLockInfo
	acquire bool // of a lock that nobody holds
	renew   bool // so the holder loses nothing

	unsuitable bool // New says that somebody has to change the server
}

// USER and LOGIN in the commands above stand for the services' user, and for the
// rule that gives it its password.
const (
	canary  = "canary-3f9c1d"
	rotated = "canary-e07b52"
)

var serverRefusals = []refusal{
	{name: "OutOfMemory", spoil: [][]string{{"CONFIG", "SET", "maxmemory", "1"}}, mend: [][]string{{"CONFIG", "SET", "maxmemory", "0"}},
		args: []string{"--maxmemory", "0"}, words: []string{"out of memory", "OOM"}, reads: true},
	{name: "CannotPersist", spoil: [][]string{{"CONFIG", "SET", "dir", "/proc"}, {"BGSAVE"}},
		mend: [][]string{{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}},
		args: []string{"--save", "3600 1000000", "--enable-protected-configs", "yes"}, words: []string{"can't persist", "MISCONF"}, reads: true},
	{name: "Replica", spoil: [][]string{{"REPLICAOF", "127.0.0.1", "1"}}, mend: [][]string{{"REPLICAOF", "NO", "ONE"}},
		args: []string{"--replica-serve-stale-data", "yes"}, words: []string{"read-only replica", "READONLY"}, reads: true, unsuitable: true},
	{name: "TooFewReplicas", spoil: [][]string{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, mend: [][]string{{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		args: []string{"--min-replicas-max-lag", "10"}, words: []string{"too few replicas", "NOREPLICAS"}, reads: true},
	{name: "Busy", script: true, mend: [][]string{{"SCRIPT", "KILL"}},
		args: []string{"--busy-reply-threshold", "20"}, words: []string{"busy", "BUSY"}},
}

var userRefusals = []refusal{
	{name: "PasswordRotated", spoil: [][]string{{"ACL", "SETUSER", "USER", "resetpass", ">" + rotated}, {"CLIENT", "KILL", "USER", "USER"}},
		mend: [][]string{{"ACL", "SETUSER", "USER", "resetpass", ">" + canary}}, words: []string{"not authenticated", "WRONGPASS"}},
	{name: "UserDeleted", spoil: [][]string{{"ACL", "DELUSER", "USER"}},
		mend: [][]string{{"ACL", "SETUSER", "USER", "reset", "on", ">" + canary, "~*", "&*", "+@all"}}, words: []string{"not authenticated", "WRONGPASS"}},
	// Who waits is looked at together with what is new: that may make it an MGET.
	{name: "DeniedGET", spoil: [][]string{{"ACL", "SETUSER", "USER", "-get", "-mget"}}, mend: [][]string{{"ACL", "SETUSER", "USER", "+get", "+mget"}},
		words: []string{"not permitted", "GET", "NOPERM"}, unsuitable: true},
	denied("set", refusal{reads: true}), denied("watch", refusal{}),
	denied("multi", refusal{reads: true}), denied("exec", refusal{reads: true}), denied("time", refusal{}),
	deniedOnNewConnections("info"),
	// Whoever has room in what he reads ahead doesn't need it; a new name does.
	denied("unwatch", refusal{}),
	denied("del", refusal{reads: true, acquire: true, renew: true}),
	denied("publish", refusal{reads: true, acquire: true, renew: true}),
	denied("subscribe", refusal{reads: true, acquire: true, renew: true}),
	{name: "NoKeys", spoil: [][]string{{"ACL", "SETUSER", "USER", "resetkeys", "~other"}}, mend: [][]string{{"ACL", "SETUSER", "USER", "~*"}},
		words: []string{"not permitted", "NOPERM"}, unsuitable: true},
	{name: "NoChannels", spoil: [][]string{{"ACL", "SETUSER", "USER", "resetchannels"}}, mend: [][]string{{"ACL", "SETUSER", "USER", "allchannels"}},
		reads: true, acquire: true, renew: true, unsuitable: true},
}

// denied is a right that is taken away while the services run.
func denied(command string, r refusal) refusal {
	r.name = "Denied" + strings.ToUpper(command)
	r.spoil = [][]string{{"ACL", "SETUSER", "USER", "-" + command}}
	r.mend = [][]string{{"ACL", "SETUSER", "USER", "+" + command}}
	if r.words == nil {
		r.words = []string{"not permitted", strings.ToUpper(command), "NOPERM"}
	}
	r.unsuitable = true
	return r
}

// deniedOnNewConnections is for what is asked of each of them once.
func deniedOnNewConnections(command string) refusal {
	r := denied(command, refusal{})
	r.spoil = append(r.spoil, []string{"CLIENT", "KILL", "USER", "USER"})
	return r
}

func TestRefusalsOfTheServer(t *testing.T) {
	t.Parallel()
	stages := make([]*refusalStage, len(serverRefusals))
	for i, r := range serverRefusals {
		stages[i] = newRefusalStage(t, redistest.Start(t, redistest.WithArgs(r.args...)), r)
	}
	playAll(t, stages)
}

func TestRightsAndPasswordsTakenAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stages := make([]*refusalStage, len(userRefusals))
	for i, r := range userRefusals {
		stages[i] = newRefusalStage(t, server, r)
	}
	playAll(t, stages)
}

// playAll plays them at the same time: most of it is waiting for leases to end.
func playAll(t *testing.T, stages []*refusalStage) {
	t.Helper()
	var all sync.WaitGroup
	found := make([]findings, len(stages))
	for i, s := range stages {
		all.Go(func() { s.play(&found[i]) })
	}
	all.Wait()
	for i, s := range stages {
		t.Logf("%s: %v", s.name, s.took.Round(time.Millisecond))
		for _, finding := range found[i] {
			t.Errorf("%s: %v", s.name, finding)
		}
	}
}

// findings is what was not as it has to be.
type findings []error

func (f *findings) unless(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

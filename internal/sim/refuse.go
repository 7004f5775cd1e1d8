package sim

import (
	"errors"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// Refusal is a kind of error reply and the commands that get it.
type Refusal struct {
	Kind     exchange.Kind
	Commands []string // none: those that a real server refuses for this reason
}

// refusal is the error reply to one command.
type refusal struct {
	kind  exchange.Kind
	words string
}

var (
	writing  = []string{"SET", "DEL"}
	allOfThe = []string{"WATCH", "MULTI", "GET", "MGET", "EXISTS", "SET", "DEL", "PUBLISH", "TIME", "INFO"}
)

// dial is the refusal of a connection, in place of a command.
const dial = "the connection"

// reasons are, for each kind, the words of a real server and what it refuses.
// Under LOADING a server still watches, publishes and tells the time; under BUSY
// it only watches and queues.
var reasons = map[exchange.Kind]struct {
	words    string
	commands []string
}{
	exchange.OOM:         {"OOM command not allowed when used memory > 'maxmemory'.", []string{"SET"}},
	exchange.ReadOnly:    {"READONLY You can't write against a read only replica.", writing},
	exchange.Loading:     {"LOADING Redis is loading the dataset in memory", []string{"GET", "MGET", "EXISTS", "SET", "DEL"}},
	exchange.Misconf:     {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", writing},
	exchange.Busy:        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", []string{"GET", "MGET", "EXISTS", "SET", "DEL", "PUBLISH", "TIME", "INFO"}},
	exchange.NoReplicas:  {"NOREPLICAS Not enough good replicas to write.", writing},
	exchange.NoAuth:      {"NOAUTH Authentication required.", allOfThe},
	exchange.NoPerm:      {"NOPERM this user has no permissions to run the command", allOfThe},
	exchange.MaxClients:  {"max number of clients reached", []string{dial}},
	exchange.Unsupported: {"unknown command", allOfThe},
	exchange.Other:       {"refused", allOfThe},
}

// Refuse has the server answer the commands with an error reply, until Accept.
func (r *Redis) Refuse(kind exchange.Kind, commands ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	Refusal{Kind: kind, Commands: commands}.addTo(r.refusals)
}

// Accept ends all refusals.
func (r *Redis) Accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.refusals)
}

func (x Refusal) addTo(all map[string]refusal) {
	reason := reasons[x.Kind]
	commands := x.Commands
	if len(commands) == 0 {
		commands = reason.commands
	}
	for _, command := range commands {
		all[command] = refusal{kind: x.Kind, words: reason.words}
	}
}

// refusedLocked is the error reply to a command, if it gets one.
func (r *Redis) refusedLocked(command string, once map[string]refusal) *exchange.ServerError {
	x, ok := r.refusals[command]
	if !ok {
		x, ok = once[command]
	}
	if !ok {
		return nil
	}
	r.facts[Refused]++
	return &exchange.ServerError{Command: command, Kind: x.kind, Err: errors.New(x.words)}
}

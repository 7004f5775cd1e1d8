package redistx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/keyspace"
)

// Report is what CheckUp learned of a server. Fields that the server doesn't tell are empty.
type Report struct {
	Version         string // of Redis, or of Valkey if that is what it is
	RunID           string
	Uptime          int64 // seconds, by the server's wall clock
	Role            string
	MaxMemoryPolicy string
	Warnings        []string
	Micros          int64 // Redis TIME, microseconds since the epoch
}

// CheckUp asks a server, once, whether exchanges on keys can work there: version,
// role, cluster mode, and the right to every command, key and channel, on a
// scratch key of node that expires by itself. It publishes nothing on a server
// that grants what is needed.
//
// Everything that is wrong is in one *Unsuitable. Who cannot be reached is a
// *ConnError; who refuses the login, or is loading, busy or full right now, a
// *exchange.ServerError.
func CheckUp(ctx context.Context, client rueidis.Client, keys keyspace.Space, node string) (Report, error) {
	if client.Mode() == rueidis.ClientModeCluster {
		return Report{}, &Unsuitable{Problems: []string{clusterProblem}}
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	port := New(client, Options{})
	port.lenient = true
	defer port.Close()
	port.turn.Lock()
	defer port.turn.Unlock()
	c, err := port.connect(ctx)
	if err != nil {
		return Report{}, err
	}
	// Closed, not given back: whoever lacks a right may not have been able to
	// clean up, and a subscription costs the connection two goroutines.
	defer port.drop(c)
	e := &examination{ctx: ctx, conn: c, keys: keys, node: node}
	e.run()
	return e.report, e.verdict()
}

const clusterProblem = "it is a Redis Cluster: use a single server, with a plain client"

// examination is one check-up under way.
type examination struct {
	ctx  context.Context
	conn *conn
	keys keyspace.Space
	node string

	report    Report
	problems  []string
	cluster   bool
	maxMemory bool  // a limit is set
	lost      error // the connection failed
	transient error // the first refusal that may pass by itself
}

func (e *examination) run() {
	for _, step := range []func(){e.identify, e.sections, e.watch, e.conflict, e.commit, e.subscribe} {
		if e.lost != nil {
			return
		}
		step()
	}
}

// verdict weighs: what must be put right by somebody goes before what may pass.
func (e *examination) verdict() error {
	switch {
	case e.lost != nil:
		return e.lost
	case len(e.problems) > 0:
		return &Unsuitable{Problems: e.problems}
	}
	return e.transient
}

func (e *examination) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, known := range e.problems {
		if known == text {
			return
		}
	}
	e.problems = append(e.problems, text)
}

// do runs a step's commands in one round trip; nil if the connection failed.
func (e *examination) do(commands ...rueidis.Completed) []rueidis.RedisResult {
	answers := e.conn.dedicated.DoMulti(e.ctx, commands...)
	if err := transportError(answers); err != nil {
		if reply, ok := redisError(err); ok {
			e.lost = refused("the connection", reply, exchange.Nothing)
		} else {
			e.lost = brokenError(err)
		}
		return nil
	}
	return answers
}

// identify asks for what every exchange asks for.
func (e *examination) identify() {
	b := e.conn.dedicated.B()
	answers := e.do(b.Unwatch().Build(), b.Time().Build(), b.Info().Section("server").Build())
	if answers == nil {
		return
	}
	e.granted("UNWATCH", "", answers[0].Error())
	if e.granted("TIME", "", answers[1].Error()) {
		micros, err := judgeTime(&answers[1])
		e.report.Micros = micros
		e.odd("TIME", err)
	}
	if e.granted("INFO", "", answers[2].Error()) {
		text, err := answers[2].ToString()
		e.odd("INFO", err)
		e.server(text)
	}
}

// server reads INFO server.
func (e *examination) server(text string) {
	var redis, valkey string
	infoFields(text, func(name, value string) bool {
		switch name {
		case "redis_version":
			redis = value
		case "valkey_version":
			valkey = value
		case "redis_mode", "server_mode":
			e.cluster = e.cluster || value == "cluster"
		}
		return true
	})
	var err error
	if e.report.RunID, e.report.Uptime, err = identity(text); err != nil {
		e.problem("%s, so a restart would go unnoticed", err)
	}
	e.version(redis, valkey)
}

func (e *examination) version(redis, valkey string) {
	switch {
	case valkey != "":
		e.report.Version = valkey // every Valkey is newer than Redis 6.2
	case redis == "":
		e.report.Warnings = append(e.report.Warnings, "the server doesn't tell its version; Redis 6.2 or newer, or Valkey, is needed")
	case !atLeast(redis, 6, 2):
		e.problem("its version is %.20s: Redis 6.2 or newer, or Valkey, is needed", redis)
		fallthrough
	default:
		e.report.Version = redis
	}
}

// atLeast compares the first two numbers of a version such as "7.0.15".
func atLeast(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// sections looks into parts of INFO that not every server has; one that is
// missing tells nothing, and is no problem. A missing right was seen before.
func (e *examination) sections() {
	b := e.conn.dedicated.B()
	answers := e.do(b.Info().Section("replication").Build(), b.Info().Section("memory").Build(), b.Info().Section("cluster").Build())
	for i := range answers {
		if text, err := answers[i].ToString(); err == nil {
			infoFields(text, e.field)
		}
	}
	if e.cluster {
		e.problem(clusterProblem)
	}
	if e.replica() {
		e.problem("it is a replica: use the master")
	}
	if policy := e.report.MaxMemoryPolicy; e.maxMemory && policy != "" && policy != "noeviction" {
		e.report.Warnings = append(e.report.Warnings, fmt.Sprintf(
			"maxmemory-policy is %.30q: Redis may evict records of held locks; use noeviction", policy))
	}
}

func (e *examination) field(name, value string) bool {
	switch name {
	case "role":
		e.report.Role = value
	case "cluster_enabled":
		e.cluster = e.cluster || value == "1"
	case "maxmemory":
		e.maxMemory = value != "0"
	case "maxmemory_policy":
		e.report.MaxMemoryPolicy = value
	}
	return true
}

func (e *examination) replica() bool { return e.report.Role == "slave" || e.report.Role == "replica" }

// odd notes an answer that is no error reply and makes no sense either.
func (e *examination) odd(command string, err error) {
	if err != nil && !isReply(err) && !errors.Is(err, rueidis.Nil) {
		e.problem("its answer to %s makes no sense", command)
	}
}

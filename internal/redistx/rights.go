package redistx

import (
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// scratchMillis is how long the scratch key stays at most, if something is denied on the way.
const scratchMillis = 5000

// watch tries reading under a watch.
func (e *examination) watch() {
	b, key := e.conn.dedicated.B(), e.keys.SelfTest(e.node)
	answers := e.do(b.Watch().Key(key).Build(), b.Get().Key(key).Build(), b.Mget().Key(key).Build(), b.Exists().Key(key).Build(),
		b.Unwatch().Build())
	for i, command := range []string{"WATCH", "GET", "MGET", "EXISTS", "UNWATCH"}[:len(answers)] {
		e.granted(command, key, answers[i].Error())
	}
}

// conflict tries every command of a commit, in a transaction that cannot commit:
// its own write to the watched key makes EXEC fail. Rights are checked when a
// command is queued, so nothing is published to find out who may publish. And it
// proves that a WATCH guards here, which a proxy in between can spoil.
func (e *examination) conflict() {
	b, key := e.conn.dedicated.B(), e.keys.SelfTest(e.node)
	wake, waiting := e.keys.Wake(e.node), e.keys.Waiting()
	set := func() rueidis.Completed { return b.Set().Key(key).Value("").PxMilliseconds(scratchMillis).Build() }
	names := []string{"WATCH", "SET", "MULTI", "SET", "DEL", "PUBLISH", "PUBLISH", "EXEC"}
	subjects := []string{key, key, "", key, key, wake, waiting, ""}
	answers := e.do(b.Watch().Key(key).Build(), set(), b.Multi().Build(), set(), b.Del().Key(key).Build(),
		b.Publish().Channel(wake).Message("").Build(), b.Publish().Channel(waiting).Message("").Build(), b.Exec().Build())
	if answers == nil {
		return
	}
	all := true
	for i := range answers[:7] {
		all = e.granted(names[i], subjects[i], answers[i].Error()) && all
	}
	e.judgeExec(answers[7], all, true)
}

// commit tries a transaction that must go through; it deletes the scratch key.
func (e *examination) commit() {
	if len(e.problems) > 0 || e.transient != nil {
		return // the scratch key's own expiry sees to it
	}
	b, key := e.conn.dedicated.B(), e.keys.SelfTest(e.node)
	answers := e.do(b.Watch().Key(key).Build(), b.Get().Key(key).Build(), b.Multi().Build(), b.Del().Key(key).Build(), b.Exec().Build())
	if answers != nil {
		e.judgeExec(answers[4], true, false)
	}
}

// judgeExec reads EXEC's answer. After a command that was refused it can only
// repeat that, unless EXEC itself is denied.
func (e *examination) judgeExec(answer rueidis.RedisResult, allQueued, conflict bool) {
	err := answer.Error()
	switch {
	case isReply(err):
		if allQueued || kindOf(err.Error()) == exchange.NoPerm {
			e.granted("EXEC", "", err)
		}
	case allQueued && rueidis.IsRedisNil(err) != conflict:
		e.problem("WATCH doesn't guard EXEC as it must; is there a proxy between?")
	}
}

// subscribe tries both channels. It comes last: afterwards the connection is good for nothing else.
func (e *examination) subscribe() {
	b := e.conn.dedicated.B()
	channels := []string{e.keys.Wake(e.node), e.keys.Waiting()}
	answers := e.do(b.Subscribe().Channel(channels[0]).Build(), b.Subscribe().Channel(channels[1]).Build())
	for i := range answers {
		e.granted("SUBSCRIBE", channels[i], answers[i].Error())
	}
}

// granted notes what a refusal of command on subject means; true if there is none.
func (e *examination) granted(command, subject string, err error) bool {
	if !isReply(err) {
		return true
	}
	refusal := refused(command, err, exchange.Nothing)
	switch {
	case refusal.Kind == exchange.NoPerm:
		e.problem("%s", e.missingRight(command, subject, err.Error()))
	case isUnknownCommand(err.Error()):
		e.problem("it doesn't know %s: is the command renamed or disabled?", command)
	case isCluster(err.Error()):
		e.problem(clusterProblem)
	case refusal.Kind == exchange.ReadOnly && e.replica(): // told already
	case refusal.Kind == exchange.Other && command == "INFO":
		e.problem("it refuses INFO server, so a restart would go unnoticed: %.100s", err)
	default:
		e.passing(refusal)
	}
	return false
}

func (e *examination) passing(refusal *exchange.ServerError) {
	if e.transient == nil {
		e.transient = refusal
	}
}

// missingRight says what to add to the user's ACL. The command is checked before
// keys and channels, so one user may have to be mended twice for one command.
func (e *examination) missingRight(command, subject, text string) string {
	prefix := e.keys.Prefix()
	switch {
	case strings.Contains(text, "to run the"):
		return fmt.Sprintf("the user may not run %s: allow +%s", command, strings.ToLower(command))
	case strings.Contains(text, "channel"):
		return fmt.Sprintf("the user may not use %s on channel %q: allow &{%s}:*", command, subject, prefix)
	case strings.Contains(text, "key"):
		return fmt.Sprintf("the user may not use %s on key %q: allow ~{%s}:*", command, subject, prefix)
	}
	return fmt.Sprintf("the user may not use %s: %.100s", command, text)
}

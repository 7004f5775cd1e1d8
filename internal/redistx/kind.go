package redistx

import (
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// kinds tells, by the first word of an error reply, why Redis refused.
var kinds = map[string]exchange.Kind{
	"OOM":        exchange.OOM,
	"READONLY":   exchange.ReadOnly,
	"MASTERDOWN": exchange.ReadOnly, // a replica that has lost its master
	"LOADING":    exchange.Loading,
	"MISCONF":    exchange.Misconf,
	"BUSY":       exchange.Busy,
	"NOREPLICAS": exchange.NoReplicas,
	"NOAUTH":     exchange.NoAuth,
	"WRONGPASS":  exchange.NoAuth,
	"NOPERM":     exchange.NoPerm,
}

const (
	execAbort = "EXECABORT"
	// abortCause precedes, in an EXECABORT, the error for which EXEC itself was refused.
	abortCause = "because of: "
)

// kindOf reads the kind from the server's words. rueidis has cut off a leading "ERR ".
func kindOf(text string) exchange.Kind {
	code, _, _ := strings.Cut(text, " ")
	kind, known := kinds[code]
	switch {
	case known:
		return kind
	case code == execAbort:
		_, cause, _ := strings.Cut(text, abortCause)
		return kindOf(strings.TrimPrefix(cause, "ERR "))
	case strings.HasPrefix(text, "max number of clients"):
		return exchange.MaxClients
	case isUnknownCommand(text) || isCluster(text):
		return exchange.Unsupported
	}
	return exchange.Other
}

func isUnknownCommand(text string) bool { return strings.HasPrefix(text, "unknown command") }

// isCluster says that a server of a Redis Cluster sends us elsewhere.
func isCluster(text string) bool {
	switch code, _, _ := strings.Cut(text, " "); code {
	case "CROSSSLOT", "MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN":
		return true
	}
	return false
}

// refused makes a ServerError of an error reply to command.
func refused(command string, err error, applied exchange.Applied) *exchange.ServerError {
	return &exchange.ServerError{Command: command, Kind: kindOf(err.Error()), Err: err, Applied: applied}
}

// isReply tells the server's own error replies from nil and from answers of a wrong type.
func isReply(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

func isExecAbort(err error) bool {
	return isReply(err) && strings.HasPrefix(err.Error(), execAbort)
}

func isWrongType(err error) bool {
	return isReply(err) && strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// redisError is the server's own error reply in err, if it is one. A failed
// handshake comes as such an error, too, although the connection is dead.
func redisError(err error) (error, bool) {
	var reply *rueidis.RedisError
	if errors.As(err, &reply) && reply != rueidis.Nil {
		return reply, true
	}
	return nil, false
}

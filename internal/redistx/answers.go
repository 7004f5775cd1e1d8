package redistx

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// judgeCommit reads the answers before the reads: of MULTI … EXEC, or of UNWATCH.
func judgeCommit(answers []rueidis.RedisResult, plan plan) (committed bool, err error) {
	switch {
	case plan.writes > 0:
		return judgeTransaction(answers, plan)
	case len(answers) == 1:
		return false, expectOK(&answers[0], "UNWATCH")
	}
	return false, nil
}

func judgeTransaction(answers []rueidis.RedisResult, plan plan) (committed bool, err error) {
	queued, exec := answers[:len(answers)-1], &answers[len(answers)-1]
	if refusal := judgeQueue(queued, plan); refusal != nil {
		return false, abortedBy(refusal, &queued[0], exec)
	}
	if len(queued) != plan.writes+1 {
		return false, errProtocol
	}
	err = exec.Error()
	switch {
	case rueidis.IsRedisNil(err):
		return false, nil // a watched key was touched
	case err == nil:
		return judgeElements(exec, plan)
	}
	refusal := refused("EXEC", err, exchange.Nothing)
	if !isExecAbort(err) {
		refusal.Applied = exchange.Maybe
		return false, fmt.Errorf("%w: %w", errProtocol, refusal)
	}
	return false, refusal
}

// judgeQueue looks for the first command that was not queued. If MULTI itself was
// refused, the rest has run at once, unguarded, as far as it was not refused too.
func judgeQueue(queued []rueidis.RedisResult, plan plan) error {
	var first *exchange.ServerError
	noMulti, loose := false, false
	for i := range queued {
		command, promised := "MULTI", "OK"
		if i > 0 {
			command, promised = plan.command(i-1), "QUEUED"
		}
		text, err := queued[i].ToString()
		switch {
		case isReply(err):
			noMulti = noMulti || i == 0
			if first == nil {
				first = refused(command, err, exchange.Nothing)
			}
		case err == nil && text == promised:
		case noMulti:
			loose = true
		default:
			return fmt.Errorf("%w: %s within MULTI", errProtocol, command)
		}
	}
	if first == nil {
		return nil // a nil *exchange.ServerError in an error would not be nil
	}
	if loose {
		first.Applied = exchange.Partly
	}
	return first
}

// abortedBy checks that EXEC answered as it must after a command was not queued.
func abortedBy(refusal error, multi, exec *rueidis.RedisResult) error {
	var first *exchange.ServerError
	ok := errors.As(refusal, &first)
	if !ok {
		return refusal
	}
	if !isReply(multi.Error()) && !isExecAbort(exec.Error()) {
		first.Applied = exchange.Maybe
		return fmt.Errorf("%w: %w", errProtocol, first)
	}
	return first
}

// judgeElements checks every element of an EXEC that ran. An error there means
// that the others ran all the same.
func judgeElements(exec *rueidis.RedisResult, plan plan) (committed bool, err error) {
	elements, err := exec.ToArray()
	if err != nil || len(elements) != plan.writes {
		return false, fmt.Errorf("%w: EXEC", errProtocol)
	}
	for i := range elements {
		command := plan.command(i)
		if err := elements[i].Error(); err != nil {
			return false, refused(command, err, exchange.Partly)
		}
		if command != "SET" {
			continue
		}
		if text, err := elements[i].ToString(); err != nil || text != "OK" {
			return false, fmt.Errorf("%w: SET within EXEC", errProtocol)
		}
	}
	return true, nil
}

// judgeReads reads the answers of WATCH, the reading of the keys, TIME and perhaps INFO.
func judgeReads(answers []rueidis.RedisResult, plan plan, c *conn, now time.Time) (snap exchange.Snapshot, err error) {
	reads := plan.reads()
	switch {
	case plan.keys == 0:
		return snap, nil
	case plan.info && len(answers) != reads+3, !plan.info && len(answers) != reads+2:
		return snap, errProtocol
	}
	if err := expectOK(&answers[0], "WATCH"); err != nil {
		return snap, err
	}
	if snap.Values, err = judgeValues(answers[1:1+reads], plan); err != nil {
		return snap, err
	}
	if snap.Micros, err = judgeTime(&answers[1+reads]); err != nil {
		return snap, err
	}
	if plan.info {
		if err := c.identify(&answers[2+reads], now); err != nil {
			return snap, err
		}
	}
	snap.RunID, snap.Uptime = c.runID, c.uptime
	return snap, nil
}

// judgeValues are the values of the keys; nil if they have to be read one by one.
func judgeValues(answers []rueidis.RedisResult, plan plan) ([]exchange.Value, error) {
	if plan.together {
		return judgeTogether(answers, plan)
	}
	values := make([]exchange.Value, len(answers))
	var err error
	for i := range values {
		if values[i], err = judgeValue(&answers[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// judgeTogether reads the answers of MGET and EXISTS. If these don't agree on how
// many keys there are, one is of a foreign type, or has come or gone in between.
// Should one have gone in between and another be foreign, they agree by chance and
// the foreign one looks missing. Both are watched, so that nothing is committed on
// it; who only reads may be told that a key is missing which is no record.
func judgeTogether(answers []rueidis.RedisResult, plan plan) ([]exchange.Value, error) {
	for i, command := range []string{"MGET", "EXISTS"} {
		if err := answers[i].Error(); isReply(err) {
			return nil, refused(command, err, exchange.Nothing)
		}
	}
	elements, err := answers[0].ToArray()
	if err != nil || len(elements) != plan.keys {
		return nil, fmt.Errorf("%w: MGET", errProtocol)
	}
	there, err := answers[1].AsInt64()
	if err != nil {
		return nil, fmt.Errorf("%w: EXISTS", errProtocol)
	}
	values := make([]exchange.Value, plan.keys)
	for i := range elements {
		if elements[i].IsNil() {
			continue
		}
		data, err := elements[i].AsBytes()
		if err != nil {
			return nil, fmt.Errorf("%w: MGET", errProtocol)
		}
		values[i] = exchange.Value{Data: data, Exists: true}
		there--
	}
	if there != 0 {
		return nil, nil
	}
	return values, nil
}

// identify takes from INFO which server this is.
func (c *conn) identify(answer *rueidis.RedisResult, now time.Time) error {
	runID, uptime, err := judgeInfo(answer)
	if err != nil {
		return err
	}
	if runID != c.runID {
		c.runID = strings.Clone(runID) // lets the garbage collector have the INFO text
	}
	c.uptime, c.asked = uptime, now
	return nil
}

func judgeValue(answer *rueidis.RedisResult) (exchange.Value, error) {
	data, err := answer.AsBytes()
	switch {
	case err == nil:
		return exchange.Value{Data: data, Exists: true}, nil
	case rueidis.IsRedisNil(err):
		return exchange.Value{}, nil
	case isWrongType(err):
		return exchange.Value{Exists: true, Err: err}, nil
	case !isReply(err):
		return exchange.Value{}, fmt.Errorf("%w: GET", errProtocol)
	}
	return exchange.Value{}, refused("GET", err, exchange.Nothing)
}

// judgeTime reads seconds and microseconds.
func judgeTime(answer *rueidis.RedisResult) (micros int64, err error) {
	parts, err := answer.ToArray()
	if isReply(err) {
		return 0, refused("TIME", err, exchange.Nothing)
	}
	if err != nil || len(parts) != 2 {
		return 0, fmt.Errorf("%w: TIME", errProtocol)
	}
	seconds, err1 := parts[0].AsInt64()
	rest, err2 := parts[1].AsInt64()
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%w: TIME", errProtocol)
	}
	return seconds*1_000_000 + rest, nil
}

func judgeInfo(answer *rueidis.RedisResult) (runID string, uptime int64, err error) {
	text, err := answer.ToString()
	if isReply(err) {
		return "", 0, refused("INFO", err, exchange.Nothing)
	}
	if err != nil {
		return "", 0, fmt.Errorf("%w: INFO", errProtocol)
	}
	if runID, uptime, err = identity(text); err != nil {
		return "", 0, &exchange.ServerError{Command: "INFO", Kind: exchange.Unsupported, Err: err}
	}
	return runID, uptime, nil
}

func expectOK(answer *rueidis.RedisResult, command string) error {
	text, err := answer.ToString()
	switch {
	case isReply(err):
		return refused(command, err, exchange.Nothing)
	case err != nil || text != "OK":
		return fmt.Errorf("%w: %s", errProtocol, command)
	}
	return nil
}

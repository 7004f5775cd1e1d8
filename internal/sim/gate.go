package sim

import (
	"fmt"
	"strings"
	"time"
)

// Phase is a kind of step.
type Phase uint8

// The phases of an exchange in their order, then those of a subscription.
const (
	Dial      Phase = iota // a connection is opened
	Request                // the request arrives and its commit is applied
	Late                   // the same, when the client has already seen its connection die
	Read                   // one key, or TIME, is read; the first Read also watches
	Reply                  // the reply arrives
	Message                // a published message arrives
	Subscribe              // a lost subscription connection is back
	Command                // a single command outside of exchanges arrives
	Client                 // client code goes on: see World.Turn
)

func (p Phase) String() string {
	return [...]string{"dial", "request", "late", "read", "reply", "message", "subscribe", "command", "client"}[p]
}

// Step is something that is about to happen.
type Step struct {
	Node  string
	Phase Phase
	// Number counts, per node, exchanges for the phases of an exchange, and
	// deliveries for those of subscriptions. Commands count by kind; of client
	// code it is the client.
	Number int
	Part   int   // of Read: index of the key; the number of keys for TIME. Of Command: its kind
	Writes bool  // the exchange has a commit
	call   *call // whose step it is; nil outside of exchanges
}

func (s Step) String() string {
	return fmt.Sprintf("%s %s %d.%d", s.Node, s.Phase, s.Number, s.Part)
}

// Fault is what a step suffers. The zero value is no fault.
type Fault struct {
	Delay time.Duration // the step happens so much later
	// Lose: the request, reply or message never arrives, and nobody is told.
	Lose bool
	// Cut: the connection dies before the step, on both sides.
	Cut bool
	// Late, of Request: the client is told at once that its connection has died,
	// and the request arrives all the same, after Delay and the phase Late.
	Late bool
	// Refuse, of Request and Late: this exchange meets these refusals as well.
	Refuse []Refusal
	// Revoke, of Request and Late: the right to this command is taken away
	// between queueing and EXEC, so the rest of the commit is applied without it.
	Revoke string
	// Repeat, of Message: it arrives so many times more.
	Repeat int
	// Overtake, of Message: it doesn't wait for the messages before it.
	Overtake bool
	vain     bool // nobody waits for it any more, and it has no effect
}

// String names what is set.
func (f Fault) String() string {
	var all []string
	add := func(set bool, format string, args ...any) {
		if set {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(f.Delay > 0, "delay %v", f.Delay)
	add(f.Lose, "lose")
	add(f.Cut, "cut")
	add(f.Late, "late")
	add(len(f.Refuse) > 0, "refuse %v", f.Refuse)
	add(f.Revoke != "", "revoke %s", f.Revoke)
	add(f.Repeat > 0, "repeat %d", f.Repeat)
	add(f.Overtake, "overtake")
	return strings.Join(all, ", ")
}

// Gate decides when steps happen and what goes wrong at them.
type Gate interface {
	// Pass is called before each step, by a goroutine of the model's own, which
	// goes on when Pass returns. Calls come from many goroutines at once.
	Pass(Step) Fault
}

// Latency is a gate without faults that delays each request, reply and message.
type Latency time.Duration

// Pass implements Gate.
func (l Latency) Pass(s Step) Fault {
	switch s.Phase {
	case Request, Reply, Message:
		return Fault{Delay: time.Duration(l)}
	}
	return Fault{}
}

// GateFunc is a function as a gate.
type GateFunc func(Step) Fault

// Pass implements Gate.
func (f GateFunc) Pass(s Step) Fault { return f(s) }

func sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	<-time.After(d)
}

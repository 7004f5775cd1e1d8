package pubsub

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var errTest = errors.New("cut")

// drain takes all that is queued, as the handler's goroutine would.
func drain(b *inbox) []string {
	var seen []string
	for {
		e, found, _ := b.take()
		if !found {
			return seen
		}
		switch e.kind {
		case eventMessage:
			seen = append(seen, e.payload)
		case eventDown:
			seen = append(seen, "down")
		case eventOverflow:
			seen = append(seen, fmt.Sprintf("overflow-%d", e.dropped))
		case eventUp:
			seen = append(seen, "up")
		}
	}
}

func connectedInbox(limit int) *inbox {
	b := newInbox(limit)
	b.confirm()
	return b
}

func TestFirstConfirmationIsNoUp(t *testing.T) {
	t.Parallel()
	b := newInbox(4)
	require.True(t, b.confirm())
	require.False(t, b.confirm(), "a heartbeat's confirmation is nothing new")
	require.Empty(t, drain(b))
}

func TestDownAndUpStandBetweenTheMessagesOfTwoConnections(t *testing.T) {
	t.Parallel()
	b := connectedInbox(4)
	b.message("a")
	b.down(errTest)
	b.message("between connections")
	require.False(t, b.confirm())
	b.message("b")
	require.Equal(t, []string{"a", "down", "up", "b"}, drain(b))
}

func TestFlappingConnectionDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	b := connectedInbox(4)
	b.message("a")
	for range 1000 {
		b.down(errTest)
		b.confirm()
	}
	require.LessOrEqual(t, len(b.events), 3)
	require.Equal(t, []string{"a", "down", "up"}, drain(b))
}

func TestUnseenUpIsTakenBackWhenDownAgain(t *testing.T) {
	t.Parallel()
	b := connectedInbox(4)
	b.down(errTest)
	require.Equal(t, []string{"down"}, drain(b))
	b.confirm()
	b.down(errTest)
	require.Empty(t, drain(b), "the handler is down and stays so")
	b.confirm()
	require.Equal(t, []string{"up"}, drain(b))
}

func TestOverflowIsToldOnceAndBehindWhatFitted(t *testing.T) {
	t.Parallel()
	b := connectedInbox(2)
	for _, m := range []string{"a", "b", "c", "d"} {
		b.message(m)
	}
	e, found, _ := b.take()
	require.True(t, found)
	require.Equal(t, "a", e.payload)
	b.message("e") // there is room again, but the gap stands before it
	require.Equal(t, []string{"b", "overflow-3", "up"}, drain(b))
	b.message("f")
	require.Equal(t, []string{"f"}, drain(b))
}

func TestOverflowWhileTheConnectionIsLostHasOneDownAndOneUp(t *testing.T) {
	t.Parallel()
	b := connectedInbox(1)
	b.message("a")
	b.message("b")
	b.down(errTest)
	require.Equal(t, []string{"a", "overflow-1"}, drain(b), "no Up while the connection is down")
	b.confirm()
	require.Equal(t, []string{"up"}, drain(b))

	b.message("a")
	b.message("b")
	b.down(errTest)
	b.confirm()
	require.Equal(t, []string{"a", "overflow-1", "up"}, drain(b))
}

func TestConnectionLostRightAfterAnOverflowTakesItsUpBack(t *testing.T) {
	t.Parallel()
	b := connectedInbox(1)
	b.message("a")
	b.message("b")
	_, _, _ = b.take()
	e, _, _ := b.take()
	require.Equal(t, eventOverflow, e.kind)
	b.down(errTest)
	require.Empty(t, drain(b))
	b.confirm()
	require.Equal(t, []string{"up"}, drain(b))
}

func TestClosedInboxGivesNothing(t *testing.T) {
	t.Parallel()
	b := connectedInbox(4)
	b.message("a")
	b.close()
	b.message("b")
	b.down(errTest)
	_, found := b.next()
	require.False(t, found)
	require.Empty(t, b.events)
}

// Every sequence of events, up to a length, against the promise to the handler.
func TestDownAndUpAlternateInEveryHistory(t *testing.T) {
	t.Parallel()
	const length = 8
	steps := []func(*inbox){
		func(b *inbox) { b.message("m") },
		func(b *inbox) { b.down(errTest) },
		func(b *inbox) { b.confirm() },
		nil, // the handler takes one
	}
	histories := 1
	for range length {
		histories *= len(steps)
	}
	for history := range histories {
		b := connectedInbox(1)
		check := newAlternation(t, history)
		for rest, i := history, 0; i < length; rest, i = rest/len(steps), i+1 {
			if step := steps[rest%len(steps)]; step != nil {
				step(b)
				continue
			}
			if e, found, _ := b.take(); found {
				check(e.kind)
			}
		}
		b.confirm()
		up := false
		for e, found, _ := b.take(); found; e, found, _ = b.take() {
			up = check(e.kind)
		}
		b.message("last")
		e, found, _ := b.take()
		require.True(t, found && e.payload == "last", "history %d ends connected, yet deaf (up=%v)", history, up)
		check(e.kind)
	}
}

// newAlternation returns a check that messages come only while up, and that Down
// and Up alternate.
func newAlternation(t *testing.T, history int) func(eventKind) bool {
	up := true
	return func(kind eventKind) bool {
		switch kind {
		case eventMessage:
			require.True(t, up, "history %d: message while down", history)
		case eventDown, eventOverflow:
			require.True(t, up, "history %d: Down twice", history)
			up = false
		case eventUp:
			require.False(t, up, "history %d: Up twice", history)
			up = true
		}
		return up
	}
}

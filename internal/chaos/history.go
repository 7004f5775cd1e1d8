package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Want is one lock of a call.
type Want struct {
	Name  string `json:"n"`
	Write bool   `json:"w,omitempty"`
}

// The outcomes of a call that did not get its locks.
const (
	NotInTime   = "not in time"
	Cancelled   = "cancelled"
	Deadlock    = "deadlock"
	Unavailable = "unavailable"
	Lost        = "lost" // the call around has lost its own locks
	Unexpected  = "unexpected"
)

// Attempt is one call that asked for locks, and what became of it. Times are
// nanoseconds of the monotonic clock; zero is "not that anybody knows".
type Attempt struct {
	ID      string
	Chain   string // of the outermost call around: one thread of work
	Worker  string // the process
	Wants   []Want
	Call    int64
	Timeout int64
	Job     bool
	AtLeast int64 // of a job

	Got   int64 // after the grant was returned
	Token int64

	Failed  int64 // after the refusal was returned
	Outcome string
	Error   string

	LastTrue   int64 // before the last call of HasLock that answered true
	FirstFalse int64 // after the first that answered false
	Regained   bool  // true came after false
	ToldLost   bool  // the release said that the locks had been lost
	Released   int64 // after the release returned
	Releasing  int64 // before it was called
}

// Until is the end of the certain interval.
func (a *Attempt) Until() int64 { return max(a.LastTrue, a.Got) }

// Held says whether the locks were granted.
func (a *Attempt) Held() bool { return a.Got != 0 }

// Gone is the latest moment at which a lock of the attempt can have been in
// anybody's way. lease is how long the record of a dead or cut-off process stays.
func (a *Attempt) Gone(lease int64) int64 {
	switch {
	case a.Failed != 0:
		return a.Failed + lease // undone in the background, perhaps
	case a.Released != 0:
		return a.Released + lease // likewise
	}
	return max(a.Call+a.Timeout, a.Until(), a.FirstFalse) + 3*lease
}

// Writes says whether the attempt wants name, and how.
func (a *Attempt) wants(name string) (write, wanted bool) {
	i := slices.IndexFunc(a.Wants, func(w Want) bool { return w.Name == name })
	if i < 0 {
		return false, false
	}
	return a.Wants[i].Write, true
}

// The kinds of events.
const (
	EventCall    = "call"
	EventGot     = "got"
	EventFailed  = "failed"
	EventTrue    = "true" // HasLock
	EventFalse   = "false"
	EventRelease = "release"
	EventStore   = "store"
)

// Event is one line of a process' report. What it doesn't need is left out.
type Event struct {
	Kind    string `json:"k"`
	ID      string `json:"id"`
	At      int64  `json:"t"`
	Until   int64  `json:"u,omitempty"` // when what began at At had returned
	Chain   string `json:"c,omitempty"`
	Wants   []Want `json:"w,omitempty"`
	Timeout int64  `json:"to,omitempty"`
	Job     bool   `json:"job,omitempty"`
	AtLeast int64  `json:"al,omitempty"`
	Token   int64  `json:"tok,omitempty"`
	Outcome string `json:"o,omitempty"`
	Error   string `json:"e,omitempty"`
	Lost    bool   `json:"lost,omitempty"`
	Again   bool   `json:"again,omitempty"` // true after false
	Name    string `json:"n,omitempty"`
	Refused bool   `json:"r,omitempty"`
}

// Store is a fenced write, as its writer saw it.
type Store struct {
	ID      string // of the attempt whose token went with it
	Name    string
	At      int64 // before it was sent
	Until   int64 // after the answer
	Refused bool
}

// History is what all processes have reported.
type History struct {
	Attempts []*Attempt
	Stores   []Store

	byID map[string]*Attempt
}

// Read adds the report of one process. Its last line may be torn: a process that
// is killed has no time to finish it.
func (h *History) Read(worker string, report io.Reader) error {
	lines := bufio.NewReader(report)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // what follows the last line end is torn
		}
		if err != nil {
			return err
		}
		var e Event
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return fmt.Errorf("line %d of %s: %w", n, worker, err)
		}
		if err := h.Add(worker, e); err != nil {
			return fmt.Errorf("line %d of %s: %w", n, worker, err)
		}
	}
}

// Add takes up one event.
func (h *History) Add(worker string, e Event) error {
	if e.Kind == EventCall {
		if h.byID == nil {
			h.byID = make(map[string]*Attempt)
		}
		a := &Attempt{ID: e.ID, Chain: e.Chain, Worker: worker, Wants: e.Wants, Call: e.At, Timeout: e.Timeout, Job: e.Job, AtLeast: e.AtLeast}
		h.byID[e.ID] = a
		h.Attempts = append(h.Attempts, a)
		return nil
	}
	a := h.byID[e.ID]
	if a == nil {
		return fmt.Errorf("%s of the unknown attempt %q", e.Kind, e.ID)
	}
	switch e.Kind {
	case EventGot:
		a.Got, a.Token = e.At, e.Token
	case EventFailed:
		a.Failed, a.Outcome, a.Error = e.At, e.Outcome, e.Error
	case EventTrue:
		a.LastTrue = max(a.LastTrue, e.At)
		a.Regained = a.Regained || a.FirstFalse != 0 || e.Again
	case EventFalse:
		a.FirstFalse = e.Until
	case EventRelease:
		a.Releasing, a.Released, a.ToldLost = e.At, e.Until, e.Lost
	case EventStore:
		h.Stores = append(h.Stores, Store{ID: e.ID, Name: e.Name, At: e.At, Until: e.Until, Refused: e.Refused})
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	return nil
}

// Names are all names that were asked for, in order.
func (h *History) Names() []string {
	seen := make(map[string]bool)
	var names []string
	for _, a := range h.Attempts {
		for _, w := range a.Wants {
			if !seen[w.Name] {
				seen[w.Name] = true
				names = append(names, w.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hold is one name of an attempt that was granted.
type hold struct {
	*Attempt
	name  string
	write bool
}

// holds are the holds of name, in the order in which their grants were returned.
func (h *History) holds(name string) []hold {
	var out []hold
	for _, a := range h.Attempts {
		if write, ok := a.wants(name); ok && a.Held() {
			out = append(out, hold{a, name, write})
		}
	}
	slices.SortFunc(out, func(x, y hold) int { return int(x.Got - y.Got) })
	return out
}

// conflicts says whether the two exclude each other.
func (x hold) conflicts(y hold) bool { return x.Chain != y.Chain && (x.write || y.write) }

// Violation is a promise that was broken.
type Violation struct {
	Promise string
	Detail  string
	At      int64
}

func (v Violation) String() string { return fmt.Sprintf("%s at %d: %s", v.Promise, v.At, v.Detail) }

// Span is a stretch of time.
type Span struct{ From, To int64 }

func (s Span) holds(at int64) bool { return s.From <= at && at <= s.To }

func anyHolds(spans []Span, at int64) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.holds(at) })
}

package lockservice_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/lockservice"
)

// faultOp is one operation, done once with a fault in its middle. It returns what
// was wrong with what came of it.
//
// Before the operation proper it calls arm, which sets the fault and returns what
// is closed when it strikes; when it has seen the operation's end it calls done.
type faultOp struct {
	name    string
	renewal time.Duration
	run     func(p *point) error
}

// point is one place of one operation at which something goes wrong.
type point struct {
	*rig
	name string // of the lock; no other point has it
	arm  func() (strikes <-chan struct{})
	done func()
	// long: the fault lasts for longer than a lease, so that what is held is lost.
	long bool
	next time.Duration // out: how long it took until the lock was to be had again

	mu          sync.Mutex // guards the field below
	rivalWaited time.Duration
}

var faultOps = []faultOp{
	{"AcquireOneName", quietRenewal, func(p *point) error { return p.acquire(1) }},
	{"AcquireFiveNames", quietRenewal, func(p *point) error { return p.acquire(5) }},
	{"NestedUpgrade", quietRenewal, (*point).upgrade},
	{"Renew", 40 * time.Millisecond, (*point).renew},
	{"Release", quietRenewal, (*point).release},
	{"Withdraw", quietRenewal, (*point).withdraw},
	{"CallerLeavesWhileAcquiring", quietRenewal, (*point).leave},
}

// quietRenewal keeps renewals out of what is measured.
const quietRenewal = faultLease * 9 / 20

func (p *point) names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", p.name, i)
	}
	return names
}

func writes(names []string) []lockservice.Lock {
	locks := make([]lockservice.Lock, len(names))
	for i, name := range names {
		locks[i] = lockservice.WriteLock(name)
	}
	return locks
}

// got is what became of a call of Acquire.
type got struct {
	a     *lockservice.Acquisition
	err   error
	after time.Duration
}

func ask(ctx context.Context, svc *lockservice.RedisLockService, locks []lockservice.Lock) <-chan got {
	done := make(chan got, 1)
	began := time.Now()
	go func() {
		a, err := svc.Acquire(ctx, locks, lockservice.WithTimeout(faultPatience))
		done <- got{a, err, time.Since(began)}
	}()
	return done
}

// pass is what a holder does that has nothing to do: it enters, and lets go.
func (p *point) pass(who string, g got, names []string) error {
	if g.err != nil {
		return fmt.Errorf("%s was not granted: %w", who, g.err)
	}
	var err error
	if !g.a.HasLock() && !p.long {
		err = fmt.Errorf("%s was granted, and doesn't have the lock", who)
	}
	err = errors.Join(err, p.books.enter(g.a, names...))
	p.books.leave(g.a, names...)
	if released := g.a.Release(context.Background()); released != nil && !p.long {
		err = errors.Join(err, fmt.Errorf("%s released: %w", who, released))
	}
	if g.a.HasLock() {
		err = errors.Join(err, fmt.Errorf("%w: %s has the lock after its release", errTwoHolders, who))
	}
	return err
}

// rivals has the rival ask for the locks, and let go of them at once.
func (p *point) rivals(names []string) (passed <-chan error) {
	done := make(chan error, 1)
	go func() {
		g := <-ask(context.Background(), p.rival, writes(names))
		p.mu.Lock()
		p.rivalWaited = g.after
		p.mu.Unlock()
		done <- p.pass("the rival", g, names)
	}()
	return done
}

// reopen is the end of every point: the lock is to be had again by either service,
// within what a lease may take.
func (p *point) reopen(names []string) error {
	var errs []error
	for _, svc := range []*lockservice.RedisLockService{p.svc, p.rival} {
		g := <-ask(context.Background(), svc, writes(names))
		p.next = max(p.next, g.after)
		errs = append(errs, p.pass("the next caller", g, names))
	}
	if p.next > faultLease+2*time.Second {
		errs = append(errs, fmt.Errorf("the next acquire took %v", p.next))
	}
	return errors.Join(errs...)
}

// struck waits for the fault, or for the operation's end without one.
func struck[T any](strikes <-chan struct{}, end <-chan T) (t T, ended bool) {
	select {
	case <-strikes:
		return t, false
	case t = <-end:
		return t, true
	}
}

func (p *point) acquire(n int) error {
	names := p.names(n)
	strikes := p.arm()
	mine := ask(context.Background(), p.svc, writes(names))
	g, ended := struck(strikes, mine)
	if ended {
		p.done()
	}
	theirs := p.rivals(names)
	if !ended {
		g = <-mine
		p.done()
	}
	err := p.pass("the caller", g, names)
	err = errors.Join(err, <-theirs)
	return errors.Join(err, p.reopen(names))
}

// upgrade holds the read lock, and asks for the write lock inside.
func (p *point) upgrade() error {
	names := p.names(1)
	outer := <-ask(context.Background(), p.svc, []lockservice.Lock{lockservice.ReadLock(names[0])})
	if outer.err != nil {
		return outer.err
	}
	strikes := p.arm()
	mine := ask(outer.a.Context(), p.svc, writes(names))
	inner, ended := struck(strikes, mine)
	if ended {
		p.done()
	}
	theirs := p.rivals(names)
	if !ended {
		inner = <-mine
		p.done()
	}
	var err error
	if !p.long || inner.err == nil {
		err = p.pass("the nested call", inner, names)
	} else if !errors.Is(inner.err, lockservice.ErrLockLost) || outer.a.HasLock() {
		err = fmt.Errorf("the nested call, whose outer lock may have been lost: %w", inner.err)
	}
	if released := outer.a.Release(context.Background()); released != nil && !p.long {
		err = errors.Join(err, fmt.Errorf("the outer lock: %w", released))
	}
	err = errors.Join(err, <-theirs)
	return errors.Join(err, p.reopen(names))
}

// renew holds the lock over the fault, while the rival waits for it.
func (p *point) renew() error {
	names := p.names(1)
	mine := <-ask(context.Background(), p.svc, writes(names))
	if mine.err != nil {
		return mine.err
	}
	err := p.books.enter(mine.a, names...)
	theirs := p.rivals(names)
	err = errors.Join(err, until(5*time.Second, "the rival waits", func() bool { return len(p.record(names[0]).Waiting) == 1 }))
	strikes := p.arm()
	before := p.renewals(names[0])
	err = errors.Join(err, until(5*time.Second, "the fault strikes, or the lock is renewed", func() bool {
		select {
		case <-strikes:
			return true
		default:
			return p.renewals(names[0]) > before
		}
	}))
	p.done()
	if !p.long {
		before = p.renewals(names[0])
		err = errors.Join(err, until(5*time.Second, "it is renewed after the fault", func() bool {
			return p.renewals(names[0]) > before+1 || !mine.a.HasLock()
		}))
		if !mine.a.HasLock() {
			err = errors.Join(err, errors.New("the lock was lost, although the fault was shorter than the lease"))
		}
	} else {
		<-mine.a.Lost()
		if mine.a.HasLock() {
			err = errors.Join(err, errors.New("lost, and HasLock says yes"))
		}
	}
	// The rival must not be in before the holder has lost it.
	select {
	case rivals := <-theirs:
		err = errors.Join(err, rivals)
		theirs = nil
	default:
	}
	p.books.leave(mine.a, names...)
	switch released := mine.a.Release(context.Background()); {
	case p.long && !errors.Is(released, lockservice.ErrLockLost):
		err = errors.Join(err, fmt.Errorf("the release of a lost lock says: %w", released))
	case !p.long && released != nil:
		err = errors.Join(err, fmt.Errorf("the release: %w", released))
	}
	if theirs != nil {
		err = errors.Join(err, <-theirs)
	}
	return errors.Join(err, p.reopen(names))
}

func (p *point) renewals(name string) int64 {
	rec := p.record(name)
	if rec.WriteOwner == nil {
		return 0
	}
	return rec.WriteOwner.Renewals
}

// release lets go of what the rival waits for.
func (p *point) release() error {
	names := p.names(1)
	mine := <-ask(context.Background(), p.svc, writes(names))
	if mine.err != nil {
		return mine.err
	}
	theirs := p.rivals(names)
	err := until(5*time.Second, "the rival waits", func() bool { return len(p.record(names[0]).Waiting) == 1 })
	p.arm()
	released := mine.a.Release(context.Background())
	p.done()
	if released != nil && (!p.long || !errors.Is(released, lockservice.ErrLockLost)) {
		err = errors.Join(err, fmt.Errorf("the release: %w", released))
	}
	if mine.a.HasLock() {
		err = errors.Join(err, errors.New("released, and HasLock says yes"))
	}
	if again := mine.a.Release(context.Background()); !errors.Is(again, released) {
		err = errors.Join(err, fmt.Errorf("the second release says %w, the first %w", again, released))
	}
	began := time.Now()
	err = errors.Join(err, <-theirs)
	p.next = time.Since(began)
	return errors.Join(err, p.reopen(names))
}

// withdraw waits for what the rival holds, and gives up.
func (p *point) withdraw() error {
	names := p.names(1)
	theirs := <-ask(context.Background(), p.rival, writes(names))
	if theirs.err != nil {
		return theirs.err
	}
	err := p.books.enter(theirs.a, names...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	mine := ask(ctx, p.svc, writes(names))
	err = errors.Join(err, until(5*time.Second, "the caller waits", func() bool { return len(p.record(names[0]).Waiting) == 1 }))
	p.arm()
	began := time.Now()
	cancel()
	g := <-mine
	if !errors.Is(g.err, context.Canceled) || !errors.Is(g.err, lockservice.ErrNotAcquired) {
		err = errors.Join(err, fmt.Errorf("the caller that gave up got: %w", g.err))
	}
	if took := time.Since(began); took > 2*time.Second {
		err = errors.Join(err, fmt.Errorf("giving up took %v", took))
	}
	err = errors.Join(err, until(5*time.Second, "nobody waits any more", func() bool { return len(p.record(names[0]).Waiting) == 0 }))
	p.done()
	p.books.leave(theirs.a, names...)
	if released := theirs.a.Release(context.Background()); released != nil {
		err = errors.Join(err, fmt.Errorf("the rival released: %w", released))
	}
	return errors.Join(err, p.reopen(names))
}

// leave gives up as soon as the fault strikes: whatever was granted is undone.
func (p *point) leave() error {
	names := p.names(1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	strikes := p.arm()
	mine := ask(ctx, p.svc, writes(names))
	g, ended := struck(strikes, mine)
	if ended {
		p.done()
	}
	theirs := p.rivals(names)
	if !ended {
		began := time.Now()
		cancel()
		g = <-mine
		p.done()
		if took := time.Since(began); took > 2*time.Second {
			return fmt.Errorf("giving up took %v", took)
		}
	}
	var err error
	switch {
	case g.err == nil:
		err = p.pass("the caller", g, names)
	case !errors.Is(g.err, context.Canceled) || !errors.Is(g.err, lockservice.ErrNotAcquired):
		err = fmt.Errorf("the caller that left got: %w", g.err)
	}
	err = errors.Join(err, <-theirs)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rivalWaited > faultLease+2*time.Second {
		err = errors.Join(err, fmt.Errorf("the rival waited %v for what nobody holds", p.rivalWaited))
	}
	return errors.Join(err, p.reopen(names))
}

package lockservice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lease"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// request is one call that asks for locks.
type request struct {
	wants []lockrules.Want
	opts  *lockConfig
	lease time.Duration
	watch bool // no renewal: the lease is all there is
	job   jobTerms
	site  callStack
}

// Acquire asks for all locks, or none, and waits for them up to the timeout. The
// caller releases them, best by defer. Nested in other acquisitions of ctx, it
// acquires only what they don't hold.
//
// If the locks were not to be had in time, the error matches [ErrNotAcquired]
// and is a *[NotAcquiredError] that names who is in the way. If ctx is done
// first, it matches that and ctx's error. Further: [ErrDeadlock], [ErrClosed],
// [ErrUnavailable], [ErrCorruptRecord], [ErrInvalidArgument]. A lock that the
// chain of ctx has lost is not acquired again: the error matches ErrNotAcquired
// and [ErrLockLost].
func (s *RedisLockService) Acquire(ctx context.Context, locks []Lock, opts ...LockOption) (*Acquisition, error) {
	r, err := s.newRequest(locks, opts)
	if err != nil {
		return nil, err
	}
	a, refused, err := s.acquire(ctx, r)
	if err == nil && refused != nil {
		err = refused
	}
	return a, err
}

func (s *RedisLockService) newRequest(locks []Lock, opts []LockOption) (*request, error) {
	wants, err := wantsOf(locks)
	cfg, optErr := newLockConfig(opts)
	if err := errors.Join(err, optErr); err != nil {
		return nil, err
	}
	r := &request{wants: wants, opts: cfg, lease: s.cfg.lease}
	r.site.capture()
	return r, nil
}

// acquire returns an acquisition; or, as refused, why the locks were not to be
// had; or an error.
func (s *RedisLockService) acquire(ctx context.Context, r *request) (a *Acquisition, refused *NotAcquiredError, err error) {
	if !s.enter() {
		return nil, nil, ErrClosed
	}
	defer s.exit()
	chain := s.chainOf(ctx)
	if lost := chain.lostAmong(r.wants); lost != nil {
		return nil, &NotAcquiredError{Cause: lost}, nil
	}
	lost := chain.lostLink() // asked first: a loss that nobody has noticed yet ends ctx
	if err := scopeError(ctx, lost); err != nil {
		return nil, nil, err
	}
	missing := chain.missing(r.wants)
	switch {
	case len(missing) == 0 && r.watch:
		return nil, &NotAcquiredError{}, nil // a job's lock is its own: see Execute
	case len(missing) == 0:
		return s.admitted(ctx, s.newAcquisition(ctx, chain, r, nil, lane.Grant{}, ""))
	}
	return s.acquireMissing(ctx, chain, r, missing)
}

// scopeError is why nothing can be acquired with ctx: it is done, or a link of
// its chain is lost, or both.
func scopeError(ctx context.Context, lost *Acquisition) error {
	if lost == nil {
		return doneError(ctx)
	}
	cause := lost.lossError()
	if err := ctx.Err(); err != nil {
		cause = fmt.Errorf("%w: %w", err, cause)
	}
	return &NotAcquiredError{Cause: cause}
}

// doneError is what a context that is done stands for: the call ends without
// its locks.
func doneError(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &NotAcquiredError{Cause: err}
}

func (s *RedisLockService) acquireMissing(ctx context.Context, chain *Acquisition, r *request, missing []lockrules.Want) (*Acquisition, *NotAcquiredError, error) {
	began := s.clock.now()
	for {
		id := s.newID()
		req := lockrules.Request{
			Asker: lockrules.Asker{ID: id, Owner: s.cfg.owner, Node: s.node, Chain: chain.ids()},
			Wants: missing, LeaseMillis: lockrules.Millis(r.lease.Milliseconds()), Keep: r.opts.keep,
		}
		timeout := max(r.opts.timeout-(s.clock.now()-began), 0)
		opt := lane.AcquireOptions{Timeout: timeout}
		if timeout > 0 {
			s.describeWait(ctx, &opt, chain, r)
		}
		grant, granted, blockers, err := s.lane.Acquire(ctx, req, opt)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, nil, doneError(ctx)
		case err != nil:
			return nil, nil, fromLane(err)
		case !granted:
			return nil, &NotAcquiredError{Blockers: blockersOf(blockers)}, nil
		}
		trusted := s.trustedFor(r.lease, !r.watch)
		if lease.Worthwhile(s.clock.now(), lease.TrustEnd(grant.Asked, trusted), trusted) {
			return s.admitted(ctx, s.newAcquisition(ctx, chain, r, missing, grant, id))
		}
		// The reply came so late that the lock might be lost before the code
		// has got anywhere: give it back and try again.
		s.giveBack(missing, id, r.lease)
		if s.clock.now() >= began+max(r.opts.timeout, s.cfg.opTimeout) {
			return nil, nil, fmt.Errorf("%w: replies take longer than half of the lease of %v", ErrUnavailable, r.lease)
		}
	}
}

// giveBack undoes a grant that nobody will use.
func (s *RedisLockService) giveBack(wants []lockrules.Want, id string, goOn time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.opTimeout)
	defer cancel()
	_, _ = s.lane.Release(ctx, namesOf(wants), lockrules.Release{ID: id, Outcome: lockrules.Undone}, goOn)
}

func namesOf(wants []lockrules.Want) []string {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.Name
	}
	return names
}

// newAcquisition is the handle on a grant, or on locks that are all reused.
func (s *RedisLockService) newAcquisition(ctx context.Context, chain *Acquisition, r *request, wants []lockrules.Want, g lane.Grant, id string) *Acquisition {
	a := &Acquisition{svc: s, parent: chain, id: id, wants: wants, names: namesOf(wants), grant: g, lease: r.lease,
		renews: !r.watch, opts: r.opts, job: r.job, lost: make(chan struct{})}
	a.outer, _ = ctx.Value(innermostKey{}).(*Acquisition)
	a.site = r.site
	inner, cancel := context.WithCancelCause(ctx)
	a.cancel = cancel
	if r.watch {
		inner = a.endsWithJob(inner)
	}
	a.ctx = a.carriedBy(inner)
	a.stopping, a.stop = context.WithCancel(context.Background())
	if len(wants) > 0 {
		a.trustEnd.Store(int64(a.trustFrom(g.Asked)))
		if r.opts.maxHold > 0 {
			a.endsAt = g.Asked + r.opts.maxHold
		}
	}
	return a
}

// admitted starts what keeps the acquisition, unless the service is being
// closed or a call around has lost its locks while this one waited. The keeper
// comes first: as soon as the service knows of the acquisition, Close may end it.
func (s *RedisLockService) admitted(ctx context.Context, a *Acquisition) (*Acquisition, *NotAcquiredError, error) {
	if len(a.wants) > 0 {
		a.startKeeper(ctx)
	}
	var err error
	if !s.admit(a) {
		err = ErrClosed
	} else if lost := a.parent.lostLink(); lost != nil {
		err = scopeError(ctx, lost)
		s.dismiss(a)
	}
	if err == nil {
		return a, nil, nil
	}
	a.stopKeeper()
	a.cancel(err)
	if len(a.wants) > 0 {
		s.giveBack(a.wants, a.id, a.lease)
	}
	return nil, nil, err
}

// missing are the wants that the chain doesn't hold. Who holds the write lock
// needs no read lock; who holds the read lock needs the write lock: an upgrade.
func (a *Acquisition) missing(wants []lockrules.Want) []lockrules.Want {
	if a == nil {
		return wants
	}
	var missing []lockrules.Want
	for _, w := range wants {
		if h, mode := a.find(w.Name); h == nil || mode == lockrules.Read && w.Mode == lockrules.Write {
			missing = append(missing, w)
		}
	}
	return missing
}

// lostAmong is the loss of one of the wanted locks by the chain.
func (a *Acquisition) lostAmong(wants []lockrules.Want) error {
	if a == nil {
		return nil
	}
	now := a.svc.clock.now()
	for _, w := range wants {
		if h, _ := a.find(w.Name); h != nil && !h.holds(now) {
			return h.lossError()
		}
	}
	return nil
}

// lossError is how the acquisition was lost.
func (a *Acquisition) lossError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == nil {
		return ErrLockLost
	}
	return a.why
}

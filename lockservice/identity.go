package lockservice

import "context"

// chainKey is under which a context carries the innermost acquisition of a
// service; innermostKey that of any service.
type (
	chainKey     struct{ svc *RedisLockService }
	innermostKey struct{}
)

// chainOf is the innermost acquisition of this service that ctx carries and
// that has not been released.
func (s *RedisLockService) chainOf(ctx context.Context) *Acquisition {
	a, _ := ctx.Value(chainKey{s}).(*Acquisition)
	for a != nil && a.state.Load() == stateReleased {
		a = a.parent
	}
	return a
}

func (a *Acquisition) carriedBy(ctx context.Context) context.Context {
	return &chainContext{ctx, a}
}

// chainContext carries an acquisition under both keys.
type chainContext struct {
	context.Context
	a *Acquisition
}

func (c *chainContext) Value(key any) any {
	switch k := key.(type) {
	case chainKey:
		if k.svc == c.a.svc {
			return c.a
		}
	case innermostKey:
		return c.a
	}
	return c.Context.Value(key)
}

// ids are those of the chain's acquisitions, for the rules.
func (a *Acquisition) ids() []string {
	var ids []string
	for h := a; h != nil; h = h.parent {
		if len(h.wants) > 0 && h.state.Load() != stateReleased {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// lostLink is a link of the chain that has been lost.
func (a *Acquisition) lostLink() *Acquisition {
	if a == nil {
		return nil
	}
	now := a.svc.clock.now()
	for h := a; h != nil; h = h.parent {
		if !h.holds(now) && h.state.Load() != stateReleased {
			return h
		}
	}
	return nil
}

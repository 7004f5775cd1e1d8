package lockservice

import (
	"context"
	"time"
)

// Close ends the service. New calls fail with [ErrClosed], and who waits gets it
// at once. Protected code that runs may finish and release until ctx is done;
// what is left then is cut off: its context is cancelled with cause ErrClosed,
// HasLock is false, and its locks lapse with their leases, since the code may
// still be running. All goroutines have ended when Close returns. The client
// given to New stays open, that of Open is closed.
//
// Close may be called again, at the same time too: all calls return when the
// first has ended, or with ctx's error if that is done before. From inside
// protected code it waits for that code until ctx is done.
func (s *RedisLockService) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return s.awaitClosed(ctx)
	}
	s.closing = true
	close(s.refusing)
	idle := make(chan struct{})
	s.idle = idle
	if len(s.active) == 0 {
		close(idle)
	}
	s.quiet = make(chan struct{})
	if s.asking == 0 {
		close(s.quiet)
	}
	s.mu.Unlock()
	s.lane.Refuse()
	select {
	case <-idle:
	case <-ctx.Done():
		s.cutOff()
	}
	s.awaitQuiet(ctx)
	s.stop(ctx)
	return nil
}

// awaitClosed waits for the end of another call of Close: it may be waiting for
// the very code that makes this one.
func (s *RedisLockService) awaitClosed(ctx context.Context) error {
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-s.closed:
		return nil
	default:
		return ctx.Err()
	}
}

// awaitQuiet waits for calls that were granted their locks in the moment of
// Close: while the lane works still, they can give them back.
func (s *RedisLockService) awaitQuiet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	select {
	case <-s.quiet:
	case <-ctx.Done():
	}
}

// enter notes a call that asks for locks, unless the service is being closed.
// The call ends with exit.
func (s *RedisLockService) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.asking++
	return true
}

func (s *RedisLockService) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if s.closing && s.asking == 0 {
		close(s.quiet) // once: nobody enters any more
	}
}

// cutOff ends what is still held, without releasing it.
func (s *RedisLockService) cutOff() {
	s.mu.Lock()
	left := make([]*Acquisition, 0, len(s.active))
	for a := range s.active {
		left = append(left, a)
	}
	s.mu.Unlock()
	for _, a := range left {
		a.cutOff()
	}
}

// stopTimeout bounds the last words to Redis when Close's own time is over.
const stopTimeout = time.Second

// stop gives everything back. The lane's last transaction removes this node's
// waiting marks and finishes releases.
func (s *RedisLockService) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if s.wakes != nil {
		s.wakes.Close()
	}
	s.detector.close()
	s.lane.Close(ctx)
	if s.ownPubSub != nil {
		_ = s.ownPubSub.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	close(s.closed)
}

// admit notes a granted acquisition, unless the service is being closed.
func (s *RedisLockService) admit(a *Acquisition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.active[a] = struct{}{}
	return true
}

func (s *RedisLockService) dismiss(a *Acquisition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, a)
	if s.idle != nil && len(s.active) == 0 && s.closing {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

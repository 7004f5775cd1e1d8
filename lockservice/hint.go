package lockservice

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// callStack is where a lock was asked for: program counters, which are cheap to
// take, and turned into words only when somebody has to read them.
type callStack struct {
	pcs [8]uintptr
}

func (c *callStack) capture() { runtime.Callers(3, c.pcs[:]) }

// String is the first place outside of this package: file and line.
func (c *callStack) String() string {
	if c == nil || c.pcs[0] == 0 {
		return ""
	}
	frames := runtime.CallersFrames(c.pcs[:])
	for {
		f, more := frames.Next()
		if f.PC != 0 && !ofThisPackage(f) {
			return place(f)
		}
		if !more {
			return ""
		}
	}
}

func place(f runtime.Frame) string {
	return fmt.Sprintf("%s:%d", filepath.Join(filepath.Base(filepath.Dir(f.File)), filepath.Base(f.File)), f.Line)
}

const packagePath = "github.com/redislockservice/redislockservice/lockservice."

func ofThisPackage(f runtime.Frame) bool {
	return strings.HasPrefix(f.Function, packagePath) && !strings.HasSuffix(f.File, "_test.go")
}

// describeWait prepares what is known of a call in case it has to wait.
func (s *RedisLockService) describeWait(ctx context.Context, opt *lane.AcquireOptions, chain *Acquisition, r *request) {
	opt.Tag = &waitTag{owner: s.cfg.owner, chain: chain, site: &r.site}
	opt.OnPark = func(blockers []lockrules.Blocker) {
		if holder := s.holderHere(blockers); holder != nil && protectedFrames() > closuresAround(ctx) {
			s.hint(r, holder, "a call waits for a lock that its own goroutine holds: was the ctx of the protected code passed on?", 0)
		}
	}
}

// hint tells of a wait for this very process, naming both places.
func (s *RedisLockService) hint(r *request, holder *Acquisition, text string, waited time.Duration) {
	s.log.Warn(text, zap.Strings("waitsFor", namesOf(r.wants)), zap.String("waitsAt", r.site.String()),
		zap.Strings("held", holder.names), zap.String("acquiredAt", holder.site.String()), zap.Duration("waited", waited))
}

// holderHere finds an acquisition of this service among those in the way.
func (s *RedisLockService) holderHere(blockers []lockrules.Blocker) *Acquisition {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blockers {
		if b.Node != s.node || b.Reason != lockrules.Held {
			continue
		}
		for a := range s.active {
			if a.id == b.ID {
				return a
			}
		}
	}
	return nil
}

// protectedFrames counts how many protected functions the calling goroutine is
// inside of. If it is more than its context knows of, then some code was given a
// context with the locks in it and went on with another one.
func protectedFrames() int {
	var pcs [64]uintptr
	n := runtime.Callers(1, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	count := 0
	for {
		f, more := frames.Next()
		if f.Function == packagePath+"(*Acquisition).protect" {
			count++
		}
		if !more {
			return count
		}
	}
}

func closuresAround(ctx context.Context) int {
	count := 0
	a, _ := ctx.Value(innermostKey{}).(*Acquisition)
	for ; a != nil; a = a.outer {
		if a.closure {
			count++
		}
	}
	return count
}

package lockservice

import (
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// events is what the lane tells. It is called while the lane works and must
// not block.
type events struct{ s *RedisLockService }

func (e events) HoldOff(reason lockrules.HoldOff, left time.Duration) {
	e.s.log.Warn("no lock is granted for a while", zap.Stringer("because", reason), zap.Duration("left", left))
}

func (e events) Waits(string, []lockrules.Blocker) {}

func (e events) Gone(string) {}

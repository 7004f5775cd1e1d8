package lockservice

import (
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// events is what the lane tells. It is called while the lane works and must
// not block.
type events struct{ s *RedisLockService }

func (e events) HoldOff(reason lockrules.HoldOff, left time.Duration) {
	e.s.log.Warn("no lock is granted for a while", zap.Stringer("because", reason), zap.Duration("left", left))
}

func (e events) Waits(w lane.Waiting) { e.s.detector.waits(w) }

func (e events) Gone(id string) { e.s.detector.gone(id) }

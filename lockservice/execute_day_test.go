package lockservice_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

const (
	tickEvery = 5 * time.Minute
	ticksADay = int(24 * time.Hour / tickEvery)
)

// day is three instances that tick every five minutes, each a little later than the
// exact time, for a day.
type day struct {
	e         *locktest.Env
	rand      *rand.Rand
	instances [3]service

	mu     sync.Mutex // guards the fields below
	starts []int      // how often the task was started in each tick
	tokens []int64    // in the order of the starts
}

// tick is one tick on all instances. crashes has the winner die in the middle of its
// run; the instance that takes its place ticks next time.
func (d *day) tick(t *testing.T, crashes bool) {
	began := make(chan int, len(d.instances))
	var wg sync.WaitGroup
	for i, svc := range d.instances {
		skew, takes := d.upTo(200*time.Millisecond), d.upTo(2*time.Second)
		wg.Go(func() {
			d.e.Pass(skew)
			_, _ = svc.Execute(t.Context(), job, 4*time.Minute, time.Second, func(ctx context.Context) error {
				d.note(ctx)
				began <- i
				if crashes {
					<-ctx.Done()
					return nil
				}
				d.e.Pass(takes)
				return nil
			}, lockservice.WithKeepLockData())
		})
	}
	if crashes {
		i := <-began
		crash(d.e, d.instances[i])
		d.instances[i] = newQuietService(d.e)
	}
	wg.Wait()
}

func (d *day) upTo(limit time.Duration) time.Duration {
	return time.Duration(d.rand.Int64N(int64(limit))).Truncate(time.Millisecond)
}

func (d *day) note(ctx context.Context) {
	token, _ := lockservice.FencingToken(ctx, job)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts[len(d.starts)-1]++
	d.tokens = append(d.tokens, token)
}

func TestExecuteDayOfSkewedTicksAndCrashesRunsTheTaskOncePerTick(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		d := &day{e: e, rand: rand.New(rand.NewPCG(2026, 12))}
		for i := range d.instances {
			d.instances[i] = newQuietService(e)
		}
		midnight, crashes := time.Now(), 0
		for i := range ticksADay {
			e.Pass(time.Until(midnight.Add(time.Duration(i) * tickEvery)))
			d.starts = append(d.starts, 0)
			dies := d.rand.IntN(20) == 0
			if dies {
				crashes++
			}
			d.tick(t, dies)
		}
		require.Greater(t, crashes, 5)
		for i, n := range d.starts {
			require.Equal(t, 1, n, "tick %d", i)
		}
		require.IsIncreasing(t, d.tokens)
		info := infoOf(t, d.instances[0])
		require.NotNil(t, info.LastSuccess)
	})
}

package lockservice_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// The classic mistake: code under a lock asks for it again, with the context
// that it had before.
func TestHintNamesBothPlacesWhenTheContextIsNotPassedOn(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		core, logs := observer.New(zap.WarnLevel)
		svc := env.NewService(lockservice.WithLogger(zap.New(core)))
		ctx := t.Context()
		_, err := svc.TryWriteLock(ctx, []string{"mine"}, func(context.Context, lockservice.HasLock) error {
			acquired, err := svc.TryWriteLock(ctx, []string{"mine"}, func(context.Context, lockservice.HasLock) error { return nil },
				lockservice.WithTimeout(time.Second))
			require.False(t, acquired)
			return err
		})
		require.NoError(t, err)
		hints := logs.FilterMessageSnippet("was the ctx of the protected code passed on?").All()
		require.Len(t, hints, 1)
		fields := hints[0].ContextMap()
		require.Contains(t, fields["waitsAt"], "hint_test.go")
		require.Contains(t, fields["acquiredAt"], "hint_test.go")
		require.NotEqual(t, fields["waitsAt"], fields["acquiredAt"])
	})
}

// Goroutines that wait for each other are plain use, whatever contexts they share.
func TestPlainContentionLogsNoHint(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		core, logs := observer.New(zap.WarnLevel)
		svc := env.NewService(lockservice.WithLogger(zap.New(core)))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				acquired, err := svc.TryWriteLock(t.Context(), []string{"shared"}, func(ctx context.Context, _ lockservice.HasLock) error {
					faketime.Pass(50 * time.Millisecond)
					_, err := svc.TryWriteLock(ctx, []string{"shared", "inner"}, func(context.Context, lockservice.HasLock) error { return nil },
						lockservice.WithTimeout(time.Minute))
					return err
				}, lockservice.WithTimeout(time.Minute))
				require.NoError(t, err)
				require.True(t, acquired)
			})
		}
		all.Wait()
		require.Zero(t, logs.Len(), "%v", logs.All())
	})
}

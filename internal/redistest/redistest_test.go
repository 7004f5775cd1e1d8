package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// kindsHere are the ways to run a server that this machine has; at least one.
func kindsHere(t *testing.T) []string {
	t.Helper()
	var kinds []string
	for _, kind := range []string{kindDocker, kindBinary} {
		if err := probe(kind); err == nil {
			kinds = append(kinds, kind)
		}
	}
	require.NotEmpty(t, kinds, "neither Docker nor redis-server")
	return kinds
}

func probe(kind string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lifecycleTimeout)
	defer cancel()
	_, err := kindFor(ctx, kind)
	return err
}

// onEach runs the test on every kind of server that is here.
func onEach(t *testing.T, test func(t *testing.T, start func(args ...string) *Server)) {
	t.Helper()
	for _, kind := range kindsHere(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, func(args ...string) *Server {
				ctx, cancel := context.WithTimeout(t.Context(), lifecycleTimeout)
				defer cancel()
				s, err := launchOn(ctx, kind, append([]string{"--save", "", "--appendonly", "no"}, args...))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.remove()) })
				return s
			})
		})
	}
}

func get(t *testing.T, s *Server, key string) string {
	t.Helper()
	msg := s.Do(t, "GET", key)
	if msg.IsNil() {
		return ""
	}
	value, err := msg.ToString()
	require.NoError(t, err)
	return value
}

// eventuallySet waits until the client, which may have to notice first that its
// connections are dead, can write.
func eventuallySet(t *testing.T, client rueidis.Client, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return client.Do(ctx, client.B().Set().Key(key).Value("v").Build()).Error() == nil
	}, 20*time.Second, 10*time.Millisecond)
}

func TestRestartKeepsTheAddressAndLosesTheData(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start()
		addr, client := s.Addr(), s.Client(t)
		eventuallySet(t, client, "k")
		s.Kill(t)
		require.Error(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
		s.Start(t)
		require.Equal(t, addr, s.Addr())
		require.Empty(t, get(t, s, "k"))
		eventuallySet(t, client, "k") // the same client finds the server again
		require.Equal(t, "v", get(t, s, "k"))
	})
}

func TestAppendOnlyFileSurvivesKillButNotRestartEmpty(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start("--appendonly", "yes", "--appendfsync", "always")
		s.Do(t, "SET", "k", "v")
		s.Restart(t)
		require.Equal(t, "v", get(t, s, "k"))
		s.RestartEmpty(t)
		require.Empty(t, get(t, s, "k"))
	})
}

func TestStopSavesWhatSavePointsAllow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start("--save", "3600 1")
		s.Do(t, "SET", "k", "v")
		s.Stop(t)
		s.Start(t)
		require.Equal(t, "v", get(t, s, "k"))
	})
}

func TestRestoreSnapshotBringsBackTheOldData(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start()
		s.Do(t, "SET", "k", "old")
		old := s.SaveSnapshot(t)
		s.Do(t, "SET", "k", "new")
		s.Do(t, "SET", "late", "v")
		s.RestoreSnapshot(t, old)
		require.Equal(t, "old", get(t, s, "k"))
		require.Empty(t, get(t, s, "late"))
	})
}

func TestPauseHangsClientsAndUnpauseLetsGo(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start()
		client := s.Client(t)
		eventuallySet(t, client, "k")
		s.Pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := client.Do(ctx, client.B().Incr().Key("n").Build()).Error()
		require.Error(t, err)
		require.False(t, isRedisError(err), "a frozen server must not answer: %v", err)
		s.Unpause(t)
		eventuallySet(t, client, "k")
	})
}

func isRedisError(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

func TestPausedServerCanBeKilledAndStopped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start()
		s.Pause(t)
		s.Kill(t)
		s.Start(t)
		s.Pause(t)
		s.Stop(t)
		s.Start(t)
		s.Do(t, "PING")
		s.Pause(t) // and removed, by the clean-up
	})
}

func TestPasswordIsUsedByAllClients(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start("--requirepass", "open sesame")
		eventuallySet(t, s.Client(t), "k")
		require.Equal(t, "v", get(t, s, "k"))
		option, err := rueidis.ParseURL(s.URL())
		require.NoError(t, err)
		require.Equal(t, "open sesame", option.Password)
		s.Restart(t)
		require.Empty(t, get(t, s, "k"))
	})
}

func TestCommandStatsCountsCalls(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		s := start()
		for range 3 {
			s.Do(t, "SET", "k", "v")
		}
		stats := s.CommandStats(t)
		require.EqualValues(t, 3, stats["set"])
		require.NotContains(t, stats, "eval")
	})
}

func TestStartSaysWhyTheServerDoesNotRun(t *testing.T) {
	t.Parallel()
	if probe(kindBinary) != nil {
		return // the message of a container is in its log, with the engine
	}
	ctx, cancel := context.WithTimeout(t.Context(), lifecycleTimeout)
	defer cancel()
	_, err := launchOn(ctx, kindBinary, []string{"--no-such-option", "1"})
	require.ErrorContains(t, err, "no-such-option")
}

func TestTakenPortIsRecognised(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, start func(...string) *Server) {
		holder := start()
		kind := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		second := &Server{port: holder.port, release: func() {}, backend: newBackend(kind, holder.port, nil)}
		ctx, cancel := context.WithTimeout(t.Context(), lifecycleTimeout)
		defer cancel()
		err := second.start(ctx)
		require.NoError(t, second.remove())
		require.Error(t, err)
		require.True(t, isPortTaken(err), "%v", err)
	})
}

func TestReservedPortsDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[int]bool)
	for range 50 {
		port, release, err := reservePort()
		require.NoError(t, err)
		defer release()
		require.False(t, seen[port], "port %d was given out twice", port)
		seen[port] = true
	}
}

func TestSharedServerIsOneAndPrefixesDiffer(t *testing.T) {
	t.Parallel()
	first := Shared(t)
	require.Same(t, first, Shared(t))
	t.Run("odd name {*}?[]\\ here", func(t *testing.T) {
		first, second := Prefix(t), Prefix(t)
		require.NotEqual(t, first, second)
		require.Regexp(t, `^[A-Za-z0-9_-]+$`, first)
	})
}

func TestForcedKindIsNeverReplacedByTheOther(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := kindFor(t.Context(), kindBinary)
	require.ErrorContains(t, err, "install")
	_, err = kindFor(t.Context(), "podman")
	require.ErrorContains(t, err, "REDISTEST")
}

func TestCommandStatsParser(t *testing.T) {
	t.Parallel()
	text := "# Commandstats\r\ncmdstat_get:calls=12,usec=5\r\ncmdstat_client|list:calls=1,usec=1\r\nrubbish\r\n"
	require.Equal(t, map[string]int64{"get": 12, "client|list": 1}, parseCommandStats(text))
}

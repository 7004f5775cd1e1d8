package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
	"github.com/redislockservice/redislockservice/lockservice"
)

type loopArgs struct {
	Name       string
	Goroutines int
	Long       time.Duration
}

// loop is goroutines that acquire and release one name as fast as they can.
func (w *worker) loop(a loopArgs) (values, error) {
	var ops atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for end := time.Now().Add(a.Long); a.Goroutines > 0; a.Goroutines-- {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := w.once(lockservice.WriteLock(a.Name)); err != nil {
					failed.Store(&err)
					return
				}
				ops.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return values{"ops": float64(ops.Load()) / a.Long.Seconds()}, nil
}

type repeatArgs struct {
	Names  []string
	Read   bool
	Random bool // one of the names at a time
	Long   time.Duration
	// Profile is a file, or none.
	Profile string
}

// repeat is one caller, alone.
func (w *worker) repeat(a repeatArgs) (values, error) {
	stop, err := profileCPU(a.Profile)
	if err != nil {
		return nil, err
	}
	defer stop()
	locks := make([]lockservice.Lock, len(a.Names))
	for i, name := range a.Names {
		locks[i] = lockservice.WriteLock(name)
		if a.Read {
			locks[i] = lockservice.ReadLock(name)
		}
	}
	took, err := rig.Repeat(a.Long, func() error {
		if a.Random {
			return w.once(locks[rand.IntN(len(locks))])
		}
		return w.once(locks...)
	})
	return values{"p50": rig.Median(took)}, err
}

// touch uses many names once, and returns what the process takes afterwards.
func (w *worker) touch(a takeArgs) (values, error) {
	err := spread(a.N, func(i int) error { return w.once(lockservice.WriteLock(fmt.Sprintf("%s-%d", a.Name, i))) })
	return values{"memory": rig.Memory()}, err
}

type profileArgs struct {
	File string
	CPU  time.Duration // for so long; else the heap
}

// profile writes one for pprof.
func (w *worker) profile(a profileArgs) (struct{}, error) {
	if a.CPU > 0 {
		stop, err := profileCPU(a.File)
		if err != nil {
			return struct{}{}, err
		}
		defer stop()
		time.Sleep(a.CPU) // for so long it is profiled
		return struct{}{}, nil
	}
	file, err := os.Create(a.File)
	if err != nil {
		return struct{}{}, err
	}
	defer file.Close()
	rig.Memory() // collect first
	return struct{}{}, pprof.Lookup("heap").WriteTo(file, 0)
}

// profileCPU does nothing without a name.
func profileCPU(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

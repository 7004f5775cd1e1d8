package rig

import (
	"errors"
	"sync"
)

// WithFleet starts processes of one role, and ends them when do has.
func WithFleet[T any](role string, config any, n int, do func([]*Process) (T, error)) (result T, err error) {
	fleet := make([]*Process, 0, n)
	defer func() {
		for _, p := range fleet {
			p.Close()
		}
	}()
	for range n {
		p, err := Start(role, config)
		if err != nil {
			return result, err
		}
		fleet = append(fleet, p)
	}
	return do(fleet)
}

// All has every process do the same at once.
func All[A, R any](fleet []*Process, do string, args func(i int) A) ([]R, error) {
	results, errs := make([]R, len(fleet)), make([]error, len(fleet))
	var wg sync.WaitGroup
	for i, p := range fleet {
		wg.Go(func() { errs[i] = p.Call(do, args(i), &results[i]) })
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// Same are equal arguments for all.
func Same[A any](args A) func(int) A { return func(int) A { return args } }

package rig

import "errors"

// Counter counts the commands that a server has been sent.
type Counter interface {
	Commands() (float64, error)
}

// Counted is how many commands come while do runs.
func Counted(c Counter, do func() error) (float64, error) {
	before, err := c.Commands()
	if err != nil {
		return 0, err
	}
	err1 := do()
	after, err2 := c.Commands()
	return after - before, errors.Join(err1, err2)
}

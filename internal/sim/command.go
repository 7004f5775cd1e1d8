package sim

import (
	"context"
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// The kinds of single commands.
const (
	publishCommand = iota
	setCommand
	getCommand
)

// ErrNoKey is what Get of a missing key returns.
var ErrNoKey = errors.New("sim: there is no such key")

// Publish is a PUBLISH outside of an exchange, on a connection of its own.
func (p *Port) Publish(ctx context.Context, channel, message string) error {
	return p.command(ctx, publishCommand, func() error {
		p.r.publishLocked(channel, message)
		return nil
	})
}

// Put is a SET outside of an exchange.
func (p *Port) Put(ctx context.Context, key string, data []byte, lasts time.Duration) error {
	return p.command(ctx, setCommand, func() error {
		p.r.setLocked(key, data, lasts)
		return nil
	})
}

// Get is a GET outside of an exchange.
func (p *Port) Get(ctx context.Context, key string) (data []byte, err error) {
	err = p.command(ctx, getCommand, func() error {
		e, ok := p.r.lookLocked(key)
		if !ok {
			return ErrNoKey
		}
		data = append(data, e.value...)
		return nil
	})
	return data, err
}

// command carries one command. What is lost is lost on its way to the server;
// the caller learns of it by its ctx.
func (p *Port) command(ctx context.Context, kind int, do func() error) error {
	if isClosed(p.node.killed) {
		return &exchange.ConnError{Err: ErrKilled}
	}
	p.r.mu.Lock()
	p.node.commands[kind]++
	number := p.node.commands[kind]
	p.r.mu.Unlock()
	f := p.r.pass(Step{Node: p.node.name, Phase: Command, Number: number, Part: kind})
	sleep(f.Delay)
	if f.Lose {
		<-ctx.Done()
		return &exchange.ConnError{Sent: true, Err: errTimeout}
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	switch {
	case isClosed(p.node.killed):
		return &exchange.ConnError{Err: ErrKilled}
	case f.Cut, p.r.down:
		return &exchange.ConnError{Err: errCut}
	case ctx.Err() != nil:
		return &exchange.ConnError{Err: errEarly}
	}
	if x := p.r.refusedLocked([...]string{"PUBLISH", "SET", "GET"}[kind], f.refusals()); x != nil {
		return x
	}
	return do()
}

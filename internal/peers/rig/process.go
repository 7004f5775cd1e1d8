package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	roleEnv   = "BENCH_ROLE"
	configEnv = "BENCH_CONFIG"
)

type request struct {
	Do   string          `json:"do"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Process is this program, started again in a role. Its calls are made one at a time.
type Process struct {
	PID int

	process *os.Process
	in      io.WriteCloser
	answers *json.Decoder
	exited  chan struct{}
}

// Start starts this program again, in a role that it has given to [Child].
func Start(role string, config any) (*Process, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, configEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	p := &Process{}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it under a reader.
	out, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = write
	p.answers = json.NewDecoder(out)
	if p.exited, err = spawn(cmd); err != nil {
		return nil, errors.Join(err, out.Close(), write.Close())
	}
	p.process, p.PID = cmd.Process, cmd.Process.Pid
	return p, write.Close() // the child has its own end
}

// callLimit is more than any call takes: what takes longer hangs, and is ended.
const callLimit = 45 * time.Second

// Call has the process do something, and waits for the answer.
func (p *Process) Call(do string, args, result any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	limit := time.AfterFunc(callLimit, func() { _ = p.process.Kill() })
	defer limit.Stop()
	if err := json.NewEncoder(p.in).Encode(request{Do: do, Args: text}); err != nil {
		return fmt.Errorf("%s: %w", do, err)
	}
	var answer response
	if err := p.answers.Decode(&answer); err != nil {
		return fmt.Errorf("%s: no answer: %w", do, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", do, answer.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// Close lets the process end, and ends it if it takes its time.
func (p *Process) Close() {
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
		_ = p.process.Kill()
		<-p.exited
	}
}

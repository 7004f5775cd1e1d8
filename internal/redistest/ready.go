package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// waitReady returns once the server answers PING with PONG. An open port proves
// nothing: Docker's proxy accepts before Redis listens, and Redis listens while it
// still loads its data.
func (s *Server) waitReady(ctx context.Context) error {
	return poll(ctx, func() error {
		answer, err := call(ctx, s.Addr(), s.password, "PING")
		if err == nil && answer != "PONG" {
			return fmt.Errorf("%s answers PING with %q", s.Addr(), answer)
		}
		return err
	})
}

// poll calls check until it gives no error, and returns the last one when ctx ends.
func poll(ctx context.Context, check func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// call runs one command on a connection of its own. It speaks the protocol by hand:
// a client would retry, and pool, what fails.
func call(ctx context.Context, addr, password string, args ...string) (string, error) {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	replies := bufio.NewReader(conn)
	if password != "" {
		if _, err := roundTrip(conn, replies, "AUTH", password); err != nil {
			return "", fmt.Errorf("log in: %w", err)
		}
	}
	return roundTrip(conn, replies, args...)
}

func roundTrip(conn io.Writer, replies *bufio.Reader, args ...string) (string, error) {
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, request.String()); err != nil {
		return "", err
	}
	return readReply(replies)
}

// readReply knows the replies that PING, AUTH and INFO give: a line, an error or a
// bulk string.
func readReply(replies *bufio.Reader) (string, error) {
	line, err := replies.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("the server says %s", line[1:])
	case strings.HasPrefix(line, "$"):
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return "", fmt.Errorf("unexpected reply %q", line)
		}
		bulk := make([]byte, size)
		_, err = io.ReadFull(replies, bulk)
		return string(bulk), err
	}
	return "", fmt.Errorf("unexpected reply %q", line)
}

package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Bounds of what a probe reads: a task's answer is not to be trusted.
const (
	maxHeader = 64 << 10 // bytes
	maxOutput = 256      // bytes, of what is told of a command
)

// Dial connects to a port of a task.
type Dial func(ctx context.Context, port int32) (net.Conn, error)

// HTTP gets a path from a port of a task: a status from 200 to 399 is good. Redirections
// are not followed, and of the body nothing is read.
func HTTP(dial Dial, port int32, path string) func(context.Context) error {
	client := &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, port) },
			DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	url := fmt.Sprintf("http://localhost:%d%s", port, path)
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", "ohm-health")
		response, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("GET %s of port %d: %w", path, port, plain(ctx, err))
		}
		_ = response.Body.Close() // nothing of it was wanted
		if response.StatusCode < 200 || response.StatusCode > 399 {
			return fmt.Errorf("GET %s of port %d: status %d", path, port, response.StatusCode)
		}
		return nil
	}
}

// TCP connects to a port of a task.
func TCP(dial Dial, port int32) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := dial(ctx, port)
		if err != nil {
			return fmt.Errorf("connecting to port %d: %w", port, plain(ctx, err))
		}
		_ = conn.Close() // nothing was sent
		return nil
	}
}

// Exec runs a command in a task: exit code 0 is good.
func Exec(run func(ctx context.Context, command []string, output io.Writer) (code int, err error), command []string) func(context.Context) error {
	return func(ctx context.Context) error {
		said := &head{}
		code, err := run(ctx, command, said)
		switch {
		case err != nil:
			return fmt.Errorf("running %s: %w", command[0], plain(ctx, err))
		case code != 0:
			return fmt.Errorf("%s exited with code %d%s", command[0], code, said)
		}
		return nil
	}
}

// plain is why a probe failed, for people.
func plain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err // without the address, of which a port is known
	}
	return err
}

// head keeps the beginning of what is written.
type head struct {
	mu   sync.Mutex // guards kept: two streams may be written at once
	kept bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept.Write(p[:min(len(p), maxOutput-h.kept.Len())])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(h.kept.String(), "")), "\n")
	if line == "" {
		return ""
	}
	return ": " + line
}

// Localhost connects to a port of this machine.
func Localhost(ctx context.Context, port int32) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
}

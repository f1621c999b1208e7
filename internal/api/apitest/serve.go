// Package apitest serves the routes of a feature in tests.
package apitest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/token"
)

// Daemon is a running server of routes that a test has registered.
type Daemon struct {
	t      testing.TB
	socket string
}

// Serve serves until the test ends. It reports answers that do not match their description.
func Serve(t testing.TB, register func(*api.Server)) Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "api") // t.TempDir may be too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := Daemon{t, filepath.Join(dir, "daemon.sock")}
	l, err := endpoint.Listen(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(trusting{}, slog.New(slog.DiscardHandler))
	register(s)
	base, cancel := context.WithCancelCause(context.Background())
	h := &http.Server{Handler: Described(t, s), BaseContext: func(net.Listener) context.Context { return base }}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	t.Cleanup(func() {
		cancel(api.ErrStopping)
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return d
}

// People returns a client for people.
func (d Daemon) People() *api.Client { return d.closing(api.Dial(d.socket)) }

// Agent returns a client for the first incarnation of an agent, which need not exist.
func (d Daemon) Agent(path string) *api.Client { return d.closing(api.DialAgent(d.socket, path)) }

func (d Daemon) closing(c *api.Client) *api.Client {
	d.t.Cleanup(c.Close)
	return c
}

// trusting accepts any token and treats it as the path of an agent.
type trusting struct{}

func (trusting) Caller(_ context.Context, own string) (token.Caller, error) {
	return token.Caller{Path: own, Incarnation: 1}, nil
}

func (trusting) Owner(int) (*token.Caller, error) { return nil, nil }
func (trusting) RunOf(int) string                 { return "" }
func (trusting) Denied(token.Caller, int, string) {}

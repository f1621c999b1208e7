package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/coppice-dev/coppice/internal/httpserver"
)

// exports serves the exporters of the command lines of agents on this machine.
type exports struct {
	handler http.Handler
	logger  *slog.Logger
	ctx     context.Context // in which it serves

	mu     sync.Mutex
	listen string
	end    context.CancelFunc // of what serves at listen
	served sync.WaitGroup
}

// newExports serves until ctx ends, once it has an address.
func newExports(ctx context.Context, h http.Handler, logger *slog.Logger) *exports {
	return &exports{handler: h, logger: logger, ctx: ctx, end: func() {}}
}

// move serves at another address from now on; nowhere if it is empty.
func (e *exports) move(listen string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if listen == e.listen {
		return
	}
	e.listen = listen
	e.end()
	e.served.Wait()
	if listen == "" {
		return
	}
	ctx, end := context.WithCancel(e.ctx)
	e.end = end
	e.served.Go(func() { e.run(ctx, listen) })
}

func (e *exports) run(ctx context.Context, listen string) {
	s := httpserver.Server{
		Name: "the receiver of [otlp]", Handler: e.handler, Logger: e.logger,
		MaxConns: 1024, // of agents, which keep them open
	}
	s.Run(ctx, listen)
}

// address returns where exporters find it; empty if nowhere.
func (e *exports) address() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listen
}

// close ends it. Needs that ctx has ended.
func (e *exports) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end()
	e.served.Wait()
}

// Package traces exports spans over OTLP: of incarnations of agents, of attempts at tasks, and of runs of orders. The
// spans are made from the event log, whose last exported event is stored. The log is the queue: while the receiver
// does not answer, nothing is lost that the log still has, and nothing waits for it.
package traces

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spanid"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/traces/spans"
)

// Options configure a Manager. All are required.
type Options struct {
	Store    store.Store
	Log      *event.Log
	Epoch    func() string // of the log
	Logger   *slog.Logger
	Settings func() spec.Traces
	// Once says that the numbers of incarnations begin at 1, and that nothing of an earlier daemon is exported.
	Once bool
	// Connect returns a connection to the receiver of the settings. It sends nothing yet. Its error has no secret.
	Connect func(spec.Traces) (Connection, error)
}

// Connection sends spans to a receiver.
type Connection interface {
	// Export sends spans in bounded time, and returns how many of them the receiver has rejected. If its error is an
	// *export.Error, that says what to do.
	Export(context.Context, []spans.Span) (rejected int64, err error)
	Close()
}

// Manager exports spans. A nil Manager exports nothing.
type Manager struct {
	Options
	wake  chan struct{} // holds a token when the settings may be others
	saved []byte        // the state in the store; of Open and Run

	mu    sync.Mutex
	state state
}

// New returns a Manager that does nothing before Open.
func New(o Options) *Manager { return &Manager{Options: o, wake: make(chan struct{}, 1)} }

// Changed has the settings read again.
func (m *Manager) Changed() {
	if m == nil {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// numbering returns the name of the numbering; empty while nothing is exported.
func (m *Manager) numbering() string {
	if m == nil {
		return ""
	}
	if s := m.get(); s.After != nil {
		return s.Numbering
	}
	return ""
}

// Environ returns the environment of an incarnation with its span, if it has none yet.
func (m *Manager) Environ(path string, env []string) []string {
	numbering := m.numbering()
	if numbering == "" {
		return env
	}
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, proc.EnvIncarnation+"="); ok {
			incarnation, _ := strconv.ParseUint(value, 10, 64) // proc has written it
			return with(env, spanid.Incarnation(numbering, path, incarnation))
		}
	}
	return env
}

// OrderEnviron returns the environment of an attempt of a run of an order with its span, if it has none yet.
func (m *Manager) OrderEnviron(run string, attempt int, env []string) []string {
	numbering := m.numbering()
	if numbering == "" {
		return env
	}
	return with(env, spanid.Order(numbering, run, attempt))
}

// with returns an environment with a span, if it has none yet.
func with(env []string, id spanid.ID) []string {
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, spanid.Variable+"=") }) {
		return env
	}
	return append(slices.Clip(env), spanid.Variable+"="+id.Traceparent())
}

// Run exports spans until ctx ends, and then what has happened before that. Call it once, after Open.
func (m *Manager) Run(ctx context.Context) {
	if m == nil {
		return
	}
	for {
		if settings := m.Settings(); settings.IsSet() {
			m.turnOn(ctx)
			m.export(ctx, settings)
		} else {
			m.turnOff(ctx)
			select {
			case <-m.wake:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// turnOn begins with the next event, if nothing was exported before.
func (m *Manager) turnOn(ctx context.Context) {
	for m.numbering() == "" {
		_, last, err := m.Log.Last(ctx, 1, func(event.Event) bool { return true })
		if err == nil {
			m.begin(ctx, m.get(), last)
			return
		}
		m.Logger.Warn("cannot read the event log, to export traces", "error", err)
		if !wait(ctx, logPause) {
			return
		}
	}
}

// turnOff forgets where the export was: what happens now is never exported.
func (m *Manager) turnOff(ctx context.Context) {
	if s := m.get(); s.After != nil {
		s.After, s.Since = nil, 0
		m.set(ctx, s)
	}
}

// logPause is the time between two tries to read the log.
const logPause = 5 * time.Second

// wait waits for a time; it reports false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

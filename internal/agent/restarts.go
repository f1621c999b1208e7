package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// restartPrefix is the prefix of the keys of restart requests in the store.
const restartPrefix = "restarts"

// ErrOvertaken is the end of a request whose incarnation was stopped or restarted meanwhile.
var ErrOvertaken = errors.New("it was stopped or restarted meanwhile")

// RestartOptions are the parts of a daemon that Restarts use.
type RestartOptions struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	// Record writes an event with its operations, and returns when the store has both.
	Record func(e event.Event, ops ...store.Op) error
	// Restart restarts the agent of an incarnation, unless that has a successor.
	Restart func(ctx context.Context, who token.Caller) error
	Changed func() // called when there is a new request
}

// Restarts are the restarts that agents have asked for. A request is in the store until it is done, so
// that it survives the daemon.
type Restarts struct {
	RestartOptions
	mu     sync.Mutex
	byPath map[string]*restart
}

// restart is the request of an incarnation.
type restart struct {
	Path        string `json:"path"`
	Incarnation uint64 `json:"incarnation"`
	Reason      string `json:"reason,omitempty"`

	saved chan struct{} // closed when it is known whether the store has it
	err   error         // why not
}

func (r *restart) key() string { return restartPrefix + "/" + store.PathKey(r.Path) }
func (r *restart) caller() token.Caller {
	return token.Caller{Path: r.Path, Incarnation: r.Incarnation}
}

// NewRestarts returns Restarts without a request.
func NewRestarts(o RestartOptions) *Restarts {
	return &Restarts{RestartOptions: o, byPath: make(map[string]*restart)}
}

// Request asks for a restart of the agent of an incarnation. It returns when the store has the request.
func (s *Restarts) Request(ctx context.Context, who token.Caller, reason string) error {
	s.mu.Lock()
	r := s.byPath[who.Path]
	before, first := r, r == nil || r.Incarnation != who.Incarnation
	if first {
		r = &restart{Path: who.Path, Incarnation: who.Incarnation, Reason: plaintext.OneLine(reason, api.MaxNote),
			saved: make(chan struct{})}
		s.byPath[who.Path] = r
	}
	s.mu.Unlock()
	if !first {
		select {
		case <-r.saved:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if before != nil { // it is done, as this incarnation runs; its record is replaced
		s.logEnd(before, "it is done")
	}
	message := who.Path + " asks to be restarted"
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	e := event.Event{Type: event.AgentRestartRequested, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path,
		Message: message}
	value, _ := json.Marshal(r) // strings and a number
	err := s.Record(e.With(map[string]string{"reason": r.Reason}),
		store.Op{Kind: store.Put, Key: r.key(), Value: value})
	if err != nil {
		r.err = fmt.Errorf("%w: the restart cannot be kept: %w", api.ErrConflict, err)
		s.Drop(who.Path, who.Incarnation, "the store does not take it")
	} else {
		s.Changed()
	}
	close(r.saved)
	return r.err
}

// Of returns the reason of the restart that an incarnation has asked for; false if it has not.
func (s *Restarts) Of(who token.Caller) (reason string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byPath[who.Path]; r != nil && r.Incarnation == who.Incarnation {
		return r.Reason, true
	}
	return "", false
}

// Drop forgets the restart that an incarnation has asked for, or any of that agent if the number is 0.
func (s *Restarts) Drop(path string, incarnation uint64, why string) {
	s.mu.Lock()
	r := s.byPath[path]
	if r == nil || incarnation != 0 && r.Incarnation != incarnation {
		s.mu.Unlock()
		return
	}
	delete(s.byPath, path)
	s.mu.Unlock()
	s.logEnd(r, why, store.Op{Kind: store.Delete, Key: r.key()})
}

func (s *Restarts) logEnd(r *restart, why string, ops ...store.Op) {
	s.Log.Append(event.Event{
		Type: event.AgentRestartEnded, Path: r.Path, Incarnation: r.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("the restart that %s has asked for is over: %s", r.Path, why),
	}, ops...)
}

// Perform restarts an agent that has asked for it, if it still has to be.
func (s *Restarts) Perform(ctx context.Context, path string) {
	s.mu.Lock()
	r := s.byPath[path]
	s.mu.Unlock()
	if r == nil {
		return
	}
	why := "it is done"
	if err := s.Restart(ctx, r.caller()); err != nil {
		var held *supervisor.HeldError
		if errors.As(err, &held) {
			return // the reconciler tries again when the limit has room
		}
		if ctx.Err() != nil || errors.Is(err, supervisor.ErrNoSupervisor) || errors.Is(err, supervisor.ErrStopping) {
			return // the next daemon does it
		}
		why = err.Error()
	}
	s.Drop(r.Path, r.Incarnation, why)
}

// DropOvertaken forgets requests of incarnations that have ended on their own and have a successor,
// except those that are being performed.
func (s *Restarts) DropOvertaken(session func(path string) runtime.Session, busy func(path string) bool) {
	s.mu.Lock()
	var over []*restart
	for _, r := range s.byPath {
		if last := session(r.Path); last != nil && last.Observe().Incarnation > r.Incarnation {
			over = append(over, r)
		}
	}
	s.mu.Unlock()
	for _, r := range over {
		if !busy(r.Path) {
			s.Drop(r.Path, r.Incarnation, ErrOvertaken.Error())
		}
	}
}

// Restore reads the requests that the last daemon has left. An agent that was stopped for one does not
// stay stopped: it is started, or was already.
func (s *Restarts) Restore(ctx context.Context, agents map[string]*spec.Agent, records map[string]*Record) error {
	stored, _, err := s.Store.Snapshot(ctx, restartPrefix)
	if err != nil {
		return fmt.Errorf("reading which restarts were asked for: %w", err)
	}
	for _, op := range stored {
		r := &restart{saved: make(chan struct{})}
		close(r.saved)
		if json.Unmarshal(op.Value, r) != nil || agents[r.Path] == nil || r.key() != op.Key {
			s.Logger.Warn("cannot read the request of a restart, which is ignored", "key", op.Key)
			continue
		}
		s.byPath[r.Path] = r
		switch known := records[r.Path]; {
		case known == nil || known.Incarnation != r.Incarnation:
			s.Drop(r.Path, 0, "that incarnation is over")
		case known.State == supervisor.Suspended.String():
			known.State, known.Reason = supervisor.Waiting.String(), ""
		}
	}
	return nil
}

// Package claim stores what agents report about the end of their work. Claims are shown to people.
// One about a task that the agent has claimed ends the attempt at that.
package claim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// Bounds on claims.
const (
	keep          = 20              // claims of an agent; the oldest are removed
	maxRevisions  = 100             // revisions of a claim; each is an event
	recordTimeout = 5 * time.Second // for a claim to become durable
)

// Report records how the work of an agent has ended, and returns when that is durable. If the agent has
// claimed a task, the attempt at that ends. A later report of the same incarnation replaces it.
var Report = api.Route[Request, Receipt]{
	// Twice the bound, since JSON may contain more white space and escapes than needed.
	Method: "POST", Path: "/outcome", For: api.Agents, MaxBody: 2 * outcome.MaxBytes,
	ID: "claimOutcome", Summary: "Report how the calling agent's work has ended",
	Doc: "It is recorded as a claim of the incarnation and replaces its previous one. If the agent has claimed a " +
		"task, the attempt at that ends, and the outcome decides what becomes of the task. " +
		"No agent is started, stopped or restarted because of it.",
	Returns: "It is durable.",
}

// Request is an outcome, and the task that it is about.
type Request struct {
	_ struct{} `schema:"OutcomeClaim" open:"true" doc:"How the work of an agent has ended."`

	outcome.Report
	// Task is the id of a task that the agent has claimed. Empty means the only one; none if there
	// is none.
	Task string `json:"task,omitempty" doc:"The task, of those that the agent has claimed. Default: the only one, if there is one."`
}

// Receipt says what has become of the task of an outcome.
type Receipt struct {
	_ struct{} `schema:"OutcomeReceipt" open:"true" doc:"What has become of the task of an outcome."`

	Task *task.Task `json:"task,omitempty" doc:"The task as it is now; missing if the agent had claimed none."`
}

// Options configure a Service.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	// End ends the attempt of an agent at a task, and returns that. It returns nil if the agent has
	// claimed none.
	End func(ctx context.Context, who token.Caller, id string, o outcome.Outcome) (*task.Task, error)
}

// Service stores claims, and handles the reports of agents.
type Service struct {
	o  Options
	mu sync.Mutex // held while a claim is recorded
	// lives identifies the incarnation of each path, since numbers repeat when the tree is started
	// again.
	lives sync.Map // path -> string
}

// New returns a Service for the claims in a store.
func New(o Options) *Service { return &Service{o: o} }

// Register adds the handler of reports to a server.
func (s *Service) Register(server *api.Server) {
	Report.Handle(server, func(ctx context.Context, who token.Caller, r Request) (done Receipt, err error) {
		o, err := outcome.New(r.Report)
		if err != nil {
			return done, fmt.Errorf("%w: %w", api.ErrInvalid, err)
		}
		if done.Task, err = s.o.End(ctx, who, r.Task, o); err != nil {
			return done, err
		}
		return done, s.Record(ctx, who, o)
	})
}

// Begin sets the current incarnation of an agent, by its token.
func (s *Service) Begin(path, secret string) { s.lives.Store(path, token.ID(secret)[:16]) }

// record is a stored claim. Each one has a number.
type record struct {
	Path string `json:"path"`
	Life string `json:"life,omitempty"`
	api.Claim
	number uint64
}

const prefix = "claims"

// key returns the key prefix of an agent's claims.
func key(path string) string { return prefix + "/" + store.PathKey(path) }

// Record stores a claim of an incarnation.
func (s *Service) Record(ctx context.Context, who token.Caller, o outcome.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims, err := s.of(ctx, who.Path)
	if err != nil {
		return err
	}
	life, _ := s.lives.Load(who.Path)
	r := record{
		Path: who.Path, number: 1,
		Claim: api.Claim{Incarnation: who.Incarnation, Time: time.Now(), Report: o.Report()},
	}
	r.Life, _ = life.(string)
	message := fmt.Sprintf("%s claims: %s", who.Path, o)
	if n := len(claims); n > 0 {
		last := claims[n-1]
		r.number = last.number + 1
		if last.Incarnation == who.Incarnation && last.Life == r.Life {
			switch {
			case same(last.Report, r.Report):
				return nil
			case last.Revisions >= maxRevisions:
				return fmt.Errorf("%w: incarnation %d of %s has revised its outcome %d times, the maximum",
					api.ErrConflict, who.Incarnation, who.Path, last.Revisions)
			}
			r.number, r.Revisions = last.number, last.Revisions+1
			message = fmt.Sprintf("%s claims now: %s", who.Path, o)
		}
	}
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("the claim of %s: %w", who.Path, err)
	}
	ops := []store.Op{{Kind: store.Put, Key: store.SequenceKey(key(who.Path), r.number), Value: value}}
	if len(claims) >= keep && r.Revisions == 0 {
		ops = append(ops, store.Op{Kind: store.Delete, Key: store.SequenceKey(key(who.Path), claims[0].number)})
	}
	data := map[string]any{"kind": o.Kind(), "summary": o.Report().Summary, "revision": r.Revisions}
	if evidence := r.Report.Evidence.Data(); evidence != nil {
		data["evidence"] = evidence
	}
	s.o.Log.Append(event.Event{
		Time: r.Time, Type: event.AgentClaimed, Path: who.Path, Incarnation: who.Incarnation, Actor: who.Path,
		Message: message,
	}.With(data), ops...)
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := s.o.Log.SyncTo(ctx, s.o.Log.Mark()); err != nil {
		return fmt.Errorf("%w: the outcome is not durable yet; repeat it later: %w", api.ErrConflict,
			cmp.Or(s.o.Log.Err(), err))
	}
	return nil
}

func same(a, b outcome.Report) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// of returns the claims of an agent, oldest first. Claims that cannot be read are empty.
func (s *Service) of(ctx context.Context, path string) ([]record, error) {
	stored, _, err := s.o.Store.Snapshot(ctx, key(path))
	if err != nil {
		return nil, fmt.Errorf("reading the claims of %s: %w", path, err)
	}
	var all []record
	for _, at := range stored {
		number, ok := store.ParseSequenceKey(key(path), at.Key)
		if !ok {
			continue // of an agent below a supervisor of this name
		}
		r := record{}
		if err := json.Unmarshal(at.Value, &r); err != nil {
			s.o.Logger.Warn("cannot read a claim", "key", at.Key, "error", err)
			r = record{} // not a partly decoded one
		}
		r.number = number
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// List returns the claims of an agent that can be read, oldest first.
func (s *Service) List(ctx context.Context, path string) []api.Claim {
	all, err := s.of(ctx, path)
	if err != nil {
		s.o.Logger.Warn("cannot read the claims of an agent", "path", path, "error", err)
	}
	claims := []api.Claim{}
	for _, r := range all {
		if r.Path == path { // it could be read
			claims = append(claims, r.Claim)
		}
	}
	return claims
}

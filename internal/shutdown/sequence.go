package shutdown

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// boundSlack is the time by which the stop timeout of supervisors exceeds the longest run.
const boundSlack = 5 * time.Second

// Process is an incarnation of an agent. Its supervisor calls its Stop, which waits for its turn by
// Sequence.Await.
type Process interface {
	Gone() <-chan struct{} // closed when it has ended
	Kill()
	// Overdue returns the time that the incarnation has taken to end so far, or in total. It returns
	// 0 if that is less than allowed, or was returned before.
	Overdue(allowed time.Duration) time.Duration
}

// Sequence tracks the parts of a tree that are being stopped. The zero value is ready to use.
type Sequence struct {
	mu   sync.Mutex
	runs []*Run // the oldest first
}

// Scope is a part of a tree to stop.
type Scope struct {
	Path     string // "": everything
	Order    *spec.StartOrder
	Living   map[string]Process         // by path
	Starting map[string]<-chan struct{} // closed when a start has finished
	// Allowed returns the grace period of an agent. Zero means that it is killed.
	Allowed func(path string) time.Duration
	// Of returns the last incarnation of an agent, or nil if there was none.
	Of func(path string) Process
	// Late is called when all supervisors must ask all of their children at once. A supervisor that
	// stops them one after the other would take longer than the plan.
	Late func()
	// Overdue is called when an agent did not end in time.
	Overdue func(path string, waited time.Duration)
}

// Run is one part of a tree while it is being stopped.
type Run struct {
	Scope
	sequence *Sequence
	bound    time.Duration
	changed  chan struct{} // holds a token when the plan may have something new
	over     chan struct{} // closed when Do returns

	mu     sync.Mutex
	plan   *Plan
	turns  map[string]chan struct{} // closed when an agent may begin to end
	killed map[string]bool
}

// Begin plans to stop a part of the tree. The caller must stop its supervisors, too.
func (s *Sequence) Begin(scope Scope) *Run {
	r := &Run{
		Scope: scope, sequence: s, changed: make(chan struct{}, 1), over: make(chan struct{}),
		turns: make(map[string]chan struct{}), killed: make(map[string]bool),
	}
	allowed := make(map[string]time.Duration)
	for path := range scope.Living {
		allowed[path] = scope.Allowed(path)
	}
	for path := range scope.Starting {
		allowed[path] = scope.Allowed(path)
	}
	r.plan = New(scope.Order, allowed, time.Now())
	r.bound = r.plan.Bound() + boundSlack
	for path := range allowed {
		r.turns[path] = make(chan struct{})
	}
	for path, p := range scope.Living {
		go r.watch(path, p.Gone())
	}
	for path, decided := range scope.Starting {
		go r.watch(path, decided)
	}
	s.mu.Lock()
	s.runs = append(s.runs, r)
	s.mu.Unlock()
	return r
}

// End removes the run. An agent that is asked to stop from now on does not wait.
func (r *Run) End() {
	r.sequence.mu.Lock()
	defer r.sequence.mu.Unlock()
	r.sequence.runs = slices.DeleteFunc(r.sequence.runs, func(other *Run) bool { return other == r })
}

// covering returns the run that stops a path, or nil if there is none.
func (s *Sequence) covering(path string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.Path == "" || path == r.Path || strings.HasPrefix(path, r.Path+"/") {
			return r
		}
	}
	return nil
}

// Covers reports whether a run stops a path.
func (s *Sequence) Covers(path string) bool { return s.covering(path) != nil }

// Bound returns the longest time between the request of a supervisor to stop an agent and its end, or
// 0 if no run stops it.
func (s *Sequence) Bound(path string) time.Duration {
	if r := s.covering(path); r != nil {
		return r.bound
	}
	return 0
}

// Await waits until it is the turn of an agent to end, or ctx ends. It returns the grace period of the
// agent from now on. If no run stops the agent, it reports false at once.
func (s *Sequence) Await(ctx context.Context, path string) (within time.Duration, ordered bool) {
	r := s.covering(path)
	if r == nil {
		return 0, false
	}
	select {
	case <-r.turn(path):
	case <-r.over:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed[path] {
		return 0, true
	}
	return r.Allowed(path), true
}

// turn returns a channel that is closed when it is the turn of an agent. An agent that the plan does
// not know, or that was started again, joins the plan.
func (r *Run) turn(path string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.turns[path]; t != nil && !r.plan.Left(path) {
		return t
	}
	t := make(chan struct{})
	r.turns[path] = t
	delete(r.killed, path)
	r.plan.Join(path, r.Allowed(path))
	if p := r.Of(path); p != nil {
		go r.watch(path, p.Gone())
	}
	r.wake()
	return t
}

package shutdown

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// boundSlack is how much longer supervisors wait than a run can take.
const boundSlack = 5 * time.Second

// Process is an incarnation of an agent. Its Stop, which its supervisor calls, asks
// Sequence.Await when it may begin to end.
type Process interface {
	Gone() <-chan struct{} // closed when it has ended
	Kill()
	// Overdue returns the time since it began to end, or which it took for that, if
	// that is not less than what it was allowed and was not returned before; else 0.
	Overdue(allowed time.Duration) time.Duration
}

// Sequence knows which parts of a tree are being stopped. The zero value is ready.
type Sequence struct {
	mu   sync.Mutex
	runs []*Run // the oldest first
}

// Scope is a part of a tree that is to be stopped.
type Scope struct {
	Path     string // "": everything
	Order    *spec.StartOrder
	Living   map[string]Process         // by path
	Starting map[string]<-chan struct{} // closed when it is known what has come of a start
	// Allowed is how long an agent may take to end once it was asked. Zero: it is killed.
	Allowed func(path string) time.Duration
	// Of returns the last incarnation of an agent; nil if there was none.
	Of func(path string) Process
	// Late is called when all supervisors are to ask what they have at once: one that
	// asks its children one after the other would take longer than the plan.
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
	over     chan struct{} // closed when the plan is carried out no longer

	mu     sync.Mutex
	plan   *Plan
	turns  map[string]chan struct{} // closed when an agent may begin to end
	killed map[string]bool
}

// Begin plans to stop a part of the tree. The caller has its supervisors stop, too.
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

// End forgets the run: what is asked to stop from now on does not wait.
func (r *Run) End() {
	r.sequence.mu.Lock()
	defer r.sequence.mu.Unlock()
	r.sequence.runs = slices.DeleteFunc(r.sequence.runs, func(other *Run) bool { return other == r })
}

// covering returns the run that stops a path; nil if there is none.
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

// Bound returns how long it may take to stop an agent, from when its supervisor asks
// for it; 0 if no run stops it.
func (s *Sequence) Bound(path string) time.Duration {
	if r := s.covering(path); r != nil {
		return r.bound
	}
	return 0
}

// Await waits until it is an agent's turn to end, or ctx ends. It returns how long
// the agent may take to end from now on. It reports false, at once, if no run stops it.
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

// turn is closed when an agent may begin to end. One that the plan does not know, or
// that has ended and lives again, joins it.
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

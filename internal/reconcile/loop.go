package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// LoopOptions are the parts of a daemon that a Loop uses.
type LoopOptions struct {
	// Desired returns the desired state in start order, Observe the observed state by path.
	// No other desired state takes effect between the two calls: see Freeze.
	Desired func() []Desired
	Observe func() map[string]*Observed
	// RemoveFirst returns InFlight.Before.
	RemoveFirst func(observed map[string]*Observed) map[string][]string
	Do          func(context.Context, Action) // carries out an action
	Held        func(Delay)                   // is called once when a limit begins to delay a restart
	BeforePass  func()
	AfterPlan   func()
	Interval    func() time.Duration        // the longest time between two passes
	Starts      int                         // the number of starts at the same time
	Go          func(func(context.Context)) // runs something in the background
	Stopping    <-chan struct{}             // closed when no more passes are made
	Ended       <-chan struct{}             // closed when the tree has ended
}

// Loop makes a pass at an interval and whenever something happens: it compares the observed
// with the desired state and begins what Plan returns. It waits for no action, and leaves
// alone the paths of actions in progress.
type Loop struct {
	o        LoopOptions
	queue    chan struct{} // has a token while a pass is requested
	starts   chan struct{} // has a token for each start in progress
	applying sync.Mutex    // held while the desired state changes, and while a pass is planned

	mu       sync.Mutex
	busy     map[string]bool    // paths of actions in progress, except starts
	starting map[string]bool    // paths of starts in progress, which may be ended meanwhile
	delays   map[string]Delay   // of the last pass
	changed  bool               // something has happened since the last pass
	attempts attempts           // of the actions of the passes before
	idle     chan struct{}      // closed when a pass has nothing to do; nil if the last one had nothing to do
	due      time.Time          // of the next pass, if nothing happens before
	restarts map[string]Restart // of agents that have drifted, since ResetRestarts
}

// The pause after a pass is pauseFactor times as long as the pass took, within bounds: passes
// then take at most a fifth of one processor while a large fleet starts or keeps crashing.
const (
	pauseFactor   = 4
	shortestPause = time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// NewLoop returns a Loop that makes no passes before Run.
func NewLoop(o LoopOptions) *Loop {
	return &Loop{
		o: o, queue: make(chan struct{}, 1), starts: make(chan struct{}, max(1, o.Starts)),
		busy: make(map[string]bool), starting: make(map[string]bool), delays: make(map[string]Delay),
		attempts: make(attempts), idle: make(chan struct{}), restarts: make(map[string]Restart),
	}
}

// Enqueue requests a pass because something has happened: actions without effect are
// repeated at once.
func (l *Loop) Enqueue() {
	l.mu.Lock()
	l.changed = true
	l.mu.Unlock()
	l.Requeue()
}

// Requeue requests a pass.
func (l *Loop) Requeue() {
	l.mu.Lock()
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	l.mu.Unlock()
	select {
	case l.queue <- struct{}{}:
	default:
	}
}

// AwaitIdle waits until a pass has found nothing to do while no action is in progress.
func (l *Loop) AwaitIdle(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.o.Ended:
		return supervisor.ErrStopping
	}
}

// Freeze prevents planning until release is called. The desired state changes only in between, so
// that a plan never mixes the states before and after a change.
func (l *Loop) Freeze() (release func()) {
	l.applying.Lock()
	return l.applying.Unlock
}

// Run makes passes until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	for {
		begun := time.Now()
		next := l.pass(ctx)
		took := time.Since(begun)
		select {
		case <-time.After(max(shortestPause, min(pauseFactor*took, longestPause))):
		case <-ctx.Done():
			return
		}
		wait := l.o.Interval()
		if !next.IsZero() {
			wait = min(wait, max(0, time.Until(next)))
		}
		l.mu.Lock()
		l.due = time.Now().Add(wait)
		l.mu.Unlock()
		t := time.NewTimer(wait)
		select {
		case <-l.queue:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
	}
}

// Plan returns what there is to do now.
func (l *Loop) Plan() Result {
	defer l.Freeze()()
	l.mu.Lock()
	// before anything is observed: the next pass sees what ends now
	busy, starting := maps.Clone(l.busy), maps.Clone(l.starting)
	l.mu.Unlock()
	observed := l.o.Observe()
	return Plan(l.o.Desired(), observed,
		InFlight{Busy: busy, Starting: starting, Before: l.o.RemoveFirst(observed)}, time.Now())
}

// pass plans and begins the actions. It returns the time at which there may be more to do.
func (l *Loop) pass(context.Context) time.Time {
	select {
	case <-l.o.Stopping:
		return time.Time{}
	default:
	}
	l.o.BeforePass()
	l.mu.Lock()
	changed := l.changed
	l.changed = false
	l.mu.Unlock()
	res := l.Plan()
	l.o.AfterPlan()
	l.mu.Lock()
	before := l.delays
	l.delays = make(map[string]Delay, len(res.Delays))
	for _, d := range res.Delays {
		l.delays[d.Path] = d
	}
	l.attempts.filter(&res, time.Now(), l.o.Interval(), changed, l.isBusy)
	for _, a := range res.Actions {
		l.inFlight(a)[a.Path] = true
	}
	if len(l.busy) == 0 && len(l.starting) == 0 && l.idle != nil && len(l.queue) == 0 {
		close(l.idle)
		l.idle = nil
	}
	l.mu.Unlock()
	for _, d := range res.Delays {
		if was, ok := before[d.Path]; !d.Until.IsZero() && (!ok || was.Until.IsZero()) {
			l.o.Held(d)
		}
	}
	for _, a := range res.Actions {
		l.o.Go(func(ctx context.Context) {
			defer l.finish(a.Path, l.inFlight(a))
			l.do(ctx, a)
		})
	}
	return res.Next
}

// do carries out an action. A start waits until fewer than LoopOptions.Starts are in progress.
func (l *Loop) do(ctx context.Context, a Action) {
	if a.Kind == Start {
		select {
		case l.starts <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-l.starts }()
	}
	l.o.Do(ctx, a)
}

// inFlight returns the set of paths that an action in progress belongs to.
func (l *Loop) inFlight(a Action) map[string]bool {
	if a.Kind == Start {
		return l.starting
	}
	return l.busy
}

// finish notes that the action at a path is over.
func (l *Loop) finish(path string, inFlight map[string]bool) {
	l.mu.Lock()
	delete(inFlight, path)
	l.attempts.end(path, time.Now())
	l.mu.Unlock()
	l.Requeue()
}

// isBusy is IsBusy. Needs mu.
func (l *Loop) isBusy(path string) bool { return l.busy[path] || l.starting[path] }

// IsBusy reports whether an action is in progress at a path.
func (l *Loop) IsBusy(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isBusy(path)
}

// Claim keeps passes away from paths until release is called. The desired state must be frozen.
func (l *Loop) Claim(paths []string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, path := range paths {
		l.busy[path] = true
	}
	return func() {
		for _, path := range paths {
			l.finish(path, l.busy)
		}
	}
}

// Waits returns what a node waits for since the last pass.
func (l *Loop) Waits(path string) (Delay, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.delays[path]
	return d, ok
}

// Outlook is the view of a pass on a node, and its plan for it.
type Outlook struct {
	Desired  Desired
	Observed *Observed // nil if nothing is known of it
	Unready  []string  // of the paths that it needs
	Result   Result    // of the whole fleet
	NextPass time.Time // if nothing happens before
}

// Outlook returns what a pass would do about a node; nil if the node is not desired.
func (l *Loop) Outlook(path string, now time.Time) *Outlook {
	defer l.Freeze()()
	desired := l.o.Desired()
	at := slices.IndexFunc(desired, func(d Desired) bool { return d.Path == path })
	if at < 0 {
		return nil
	}
	observed := l.o.Observe()
	x := &Outlook{Desired: desired[at], Observed: observed[path]}
	for _, need := range x.Desired.Needs {
		if o := observed[need]; o == nil || !o.Ready {
			x.Unready = append(x.Unready, need)
		}
	}
	l.mu.Lock()
	x.NextPass = l.due
	l.mu.Unlock()
	x.Result = Plan(desired, observed, InFlight{}, now)
	return x
}

// Restart is the time at which a drifted agent restarts.
type Restart uint8

const (
	NotRestarted Restart = iota
	Restarted
	RestartsLater // when it has finished its work, or when its limit has room
)

// ResetRestarts forgets the restarts of agents that have drifted: another file is in force.
func (l *Loop) ResetRestarts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarts = make(map[string]Restart)
}

// NoteRestart notes when an agent that has drifted restarts.
func (l *Loop) NoteRestart(path string, when Restart) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restarts[path] = when
}

// Restarts returns, by path, the restarts of agents that have drifted since ResetRestarts.
func (l *Loop) Restarts() map[string]Restart {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(l.restarts)
	for path, d := range l.delays {
		if d.Cause == Drifted && all[path] == NotRestarted {
			all[path] = RestartsLater
		}
	}
	return all
}

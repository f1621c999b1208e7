package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
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
	AfterPass   func(took time.Duration)
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
	events   chan struct{} // has a token if an event has been reported since the last pass
	starts   chan struct{} // has a token for each start in progress
	applying sync.Mutex    // held while the desired state changes, and while a pass is planned

	passed atomic.Int64 // when the last pass has ended, in nanoseconds since 1970; 0 before

	mu       sync.Mutex
	busy     map[string]bool    // paths of actions in progress, except starts
	starting map[string]bool    // paths of starts in progress, which may be ended meanwhile
	delays   map[string]Delay   // of the last pass
	waits    bool               // one of them is for another node
	changed  bool               // something has happened since the last pass
	attempts attempts           // of the actions of the passes before
	idle     chan struct{}      // closed when a pass has nothing to do; nil if the last one had nothing to do
	awaiting int                // calls of AwaitIdle that wait
	due      time.Time          // of the next pass, if nothing happens before
	restarts map[string]Restart // of agents that have drifted, since ResetRestarts
}

// LastPass returns when the last pass has ended; the zero time before the first.
func (l *Loop) LastPass() time.Time {
	if at := l.passed.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// The pause after a pass is pauseFactor times as long as the pass took, within bounds: passes
// then take at most a fifth of one processor. Events alone lead to a pass only after
// eventFactor times as long, unless it is urgent: passes then take a thirtieth of a processor
// while a large fleet starts or keeps crashing.
const (
	pauseFactor   = 4
	shortestPause = time.Millisecond
	longestPause  = 250 * time.Millisecond

	eventFactor       = 29
	longestEventPause = time.Second
)

// NewLoop returns a Loop that makes no passes before Run.
func NewLoop(o LoopOptions) *Loop {
	return &Loop{
		o: o, queue: make(chan struct{}, 1), events: make(chan struct{}, 1),
		starts: make(chan struct{}, max(1, o.Starts)), busy: make(map[string]bool),
		starting: make(map[string]bool), delays: make(map[string]Delay),
		attempts: make(attempts), idle: make(chan struct{}), restarts: make(map[string]Restart),
	}
}

// Enqueue requests a pass because something has happened: actions without effect are
// repeated at once.
func (l *Loop) Enqueue() {
	l.request(l.queue, true)
}

// EnqueueEvent is Enqueue for events, of which there may be very many: they share a pass, which
// is not made soon unless a node waits for another.
func (l *Loop) EnqueueEvent() {
	l.request(l.events, true)
}

// Requeue requests a pass.
func (l *Loop) Requeue() {
	l.request(l.queue, false)
}

func (l *Loop) request(by chan struct{}, changed bool) {
	l.mu.Lock()
	l.changed = l.changed || changed
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	l.mu.Unlock()
	select {
	case by <- struct{}{}:
	default:
	}
}

// AwaitIdle waits until a pass has found nothing to do while no action is in progress.
func (l *Loop) AwaitIdle(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	if idle == nil {
		l.mu.Unlock()
		return nil
	}
	l.awaiting++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.awaiting--
		l.mu.Unlock()
	}()
	l.Requeue() // a pass may wait for more events
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

// minPassAge is the age that the last pass may have in any case: a pass pauses after itself.
const minPassAge = 3 * time.Second

// Stalled returns an error if no pass has ended within three intervals.
func (l *Loop) Stalled() error {
	at := l.LastPass()
	if at.IsZero() {
		return errors.New("no pass has ended yet")
	}
	most := max(3*l.o.Interval(), minPassAge)
	if age := time.Since(at); age > most {
		return fmt.Errorf("the last pass has ended %s ago, more than %s", age.Round(time.Second), most)
	}
	return nil
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
		if !l.await(ctx, wait, begun.Add(took+min(eventFactor*took, longestEventPause))) {
			return
		}
	}
}

// await waits for a reason to make a pass, at most for a time. An event is a reason from a time
// on, or at once if it is urgent. It returns false if ctx ends.
func (l *Loop) await(ctx context.Context, wait time.Duration, eventsFrom time.Time) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	events := l.events
	if !l.isUrgent() {
		events = nil
	}
	calm := time.NewTimer(time.Until(eventsFrom))
	defer calm.Stop()
	for {
		select {
		case <-calm.C:
			events = l.events
			continue
		case <-l.queue:
		case <-events:
		case <-t.C:
		case <-ctx.Done():
			return false
		}
		return true
	}
}

// isUrgent reports whether the next event may be what a node, or a caller of AwaitIdle, waits for.
func (l *Loop) isUrgent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits || l.awaiting > 0 && l.nothingInFlight()
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
	begun := time.Now()
	l.o.BeforePass()
	select {
	case <-l.events: // this pass sees what it was
	default:
	}
	l.mu.Lock()
	changed := l.changed
	l.changed = false
	l.mu.Unlock()
	res := l.Plan()
	l.o.AfterPlan()
	l.mu.Lock()
	before := l.delays
	l.delays = make(map[string]Delay, len(res.Delays))
	l.waits = false
	for _, d := range res.Delays {
		l.delays[d.Path] = d
		l.waits = l.waits || d.For != ""
	}
	l.attempts.filter(&res, time.Now(), l.o.Interval(), changed, l.isBusy)
	for _, a := range res.Actions {
		l.inFlight(a)[a.Path] = true
	}
	if l.nothingInFlight() && l.idle != nil && len(l.queue) == 0 && len(l.events) == 0 {
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
	l.passed.Store(time.Now().UnixNano())
	l.o.AfterPass(time.Since(begun))
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
	last := l.nothingInFlight()
	l.mu.Unlock()
	if last {
		l.Requeue()
	} else {
		l.request(l.events, false)
	}
}

// nothingInFlight reports whether no action is in progress. Needs mu.
func (l *Loop) nothingInFlight() bool { return len(l.busy) == 0 && len(l.starting) == 0 }

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

package health

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/token"
)

// Incarnation tracks the health of one incarnation of an agent, from Monitor.Add to Monitor.End.
type Incarnation struct {
	m     *Monitor
	who   token.Caller
	since time.Time
	ended context.Context // done when the incarnation has ended
	end   context.CancelFunc

	requests   sync.WaitGroup // calls of Await
	wrapper    *wrapperProbe  // used only by RunWrapperProbes
	seesDrains atomic.Bool
	failed     atomic.Bool

	mu           sync.Mutex
	agent        Agent     // nil before Start
	ready        time.Time // when Start was called
	watch        liveness.Watch
	waits        int                               // calls of Await
	waited       time.Time                         // when it last waited for an answer
	untilDrained map[*context.CancelCauseFunc]bool // see UntilDrained
	timer        *time.Timer                       // until the next check
	checking     bool                              // a check is under way
	over         bool

	idle        time.Duration // see Idle
	idleTimeout time.Duration // in force when idle was set
	stopIdle    func()        // stops runIdle; nil if it does not run
}

// Since returns when the incarnation was added.
func (i *Incarnation) Since() time.Time { return i.since }

// Ended is closed when the incarnation has ended.
func (i *Incarnation) Ended() <-chan struct{} { return i.ended.Done() }

// Ready reports whether the incarnation became ready.
func (i *Incarnation) Ready() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.agent != nil
}

// SetFailed records that the incarnation has ended as a failure, or could not start.
func (i *Incarnation) SetFailed() {
	if i != nil {
		i.failed.Store(true)
	}
}

// Failed reports whether SetFailed was called.
func (i *Incarnation) Failed() bool { return i != nil && i.failed.Load() }

// SetSeesDrains records that the incarnation asks whether it is drained, so that draining it has an effect.
func (i *Incarnation) SetSeesDrains() {
	if i != nil {
		i.seesDrains.Store(true)
	}
}

// SeesDrains reports whether SetSeesDrains was called.
func (i *Incarnation) SeesDrains() bool { return i != nil && i.seesDrains.Load() }

// arm sets the timer to the next check. Needs mu.
func (i *Incarnation) arm() {
	if i.timer != nil {
		i.timer.Stop()
	}
	if due := i.watch.Due(); !due.IsZero() && !i.over && !i.checking && i.agent != nil {
		i.timer = time.AfterFunc(time.Until(due), func() { i.m.opts.Go(i.check) })
	}
}

// heartbeat records a sign of life of an incarnation, and logs if that ends a suspicion.
func (m *Monitor) heartbeat(who token.Caller, record func(*liveness.Watch, time.Time) (recovered bool)) {
	i := m.Incarnation(who)
	if i == nil {
		return
	}
	i.mu.Lock()
	recovered := record(&i.watch, time.Now())
	i.mu.Unlock()
	if recovered {
		i.logRecovery()
	}
}

// Request records a request of an incarnation, which is a sign of life.
func (m *Monitor) Request(who token.Caller) {
	m.heartbeat(who, func(w *liveness.Watch, now time.Time) bool { return w.Sign(now) })
}

func (i *Incarnation) logRecovery() {
	e := i.m.event(event.AgentResponsive, i.who, i.who.Path+" is responsive again")
	e.Actor = i.who.Path
	i.m.opts.Append(e)
}

package reconcile

import (
	"maps"
	"slices"
	"time"
)

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

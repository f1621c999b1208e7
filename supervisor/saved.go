package supervisor

import "time"

// Saved is the state of a child to store. In ChildSpec.Saved of a later
// supervisor, the child continues from there. Times are wall clock times.
type Saved struct {
	// At is the time of saving. If it lies in the future, the clock was set back
	// since, and all times are corrected by the difference: a delay of a
	// minute does not become an hour. Zero: not known.
	At time.Time
	// State is the state of the child. Stopped and Suspended children stay
	// down, Restarting ones are started at NextAt, held ones stay held. In
	// any other state the child is started with the others.
	State       State
	Incarnation uint64 // the last one
	Restarts    int
	Attempt     int // restarts since the last success
	// Counted has the times in the window of its limit, oldest first. Without a window only
	// their number matters.
	Counted  []time.Time
	NextAt   time.Time // of a Restarting or Quarantined child
	LastExit Exit
	Reason   Reason

	// Adopt means that the last incarnation still runs, or that its end has not
	// been handled: the first Start of the child adopts it instead of starting
	// another one. It keeps its number and its start time, and is not counted.
	Adopt     bool
	StartedAt time.Time // of the incarnation to adopt; zero if unknown
	// EndedAt is the time at which the incarnation to adopt ended. Zero: it runs, or the
	// time is not known.
	EndedAt time.Time
}

// SavedSelf is the state of a supervisor to store, for Spec.Saved.
type SavedSelf struct {
	// Counted has the times in the window of its limit. Times in the future, after
	// the clock was set back, count as now.
	Counted []time.Time
	Paused  bool
	Probing bool // resumed, and the probe has yet to succeed
}

// Snapshot is the state to store after an event: a program that stores both in one
// transaction can continue from there after a crash.
type Snapshot struct {
	// Child is the state of the child; zero where Listed is false.
	Child Saved
	// Self is the state of the supervisor.
	Self SavedSelf
	// Listed reports whether the supervisor lists the child. It does not list a
	// temporary child that has ended, or a child whose first start has failed. Listed
	// is false in events of the supervisor itself.
	Listed bool
}

// Save returns the states to store of a child and of the supervisor itself.
func (s *Supervisor) Save(id string) (Saved, SavedSelf, error) {
	var saved Saved
	var self SavedSelf
	err := s.with(id, func(c *child) error {
		saved, self = s.core.save(c), s.core.saveSelf()
		return nil
	})
	return saved, self, err
}

// SaveSelf returns the state to store of the supervisor.
func (s *Supervisor) SaveSelf() (self SavedSelf, err error) {
	err = s.do(func() { self = s.core.saveSelf() })
	return self, err
}

// pendingSnapshot is a snapshot in events of this step that is not filled in yet.
type pendingSnapshot struct {
	c    *child // nil for the supervisor itself
	snap *Snapshot
}

// after returns the snapshot for an event about c.
func (k *core) after(c *child) *Snapshot {
	if n := len(k.pending); n > 0 && k.pending[n-1].c == c {
		return k.pending[n-1].snap
	}
	s := new(Snapshot)
	k.pending = append(k.pending, pendingSnapshot{c, s})
	return s
}

// fillSnapshots fills in the snapshots of the events of a step.
func (k *core) fillSnapshots() {
	if len(k.pending) == 0 {
		return
	}
	self := k.saveSelf()
	for _, p := range k.pending {
		p.snap.Self = self
		if p.c == nil {
			continue
		}
		if c := k.byID[p.c.id]; c != nil {
			p.snap.Child, p.snap.Listed = k.save(c), true
		}
	}
	clear(k.pending)
	if k.pending = k.pending[:0]; cap(k.pending) > 1<<12 {
		k.pending = nil
	}
}

func (k *core) saveSelf() SavedSelf {
	return SavedSelf{Counted: k.times(&k.win, k.limit), Paused: k.paused, Probing: k.probing}
}

func (k *core) save(c *child) Saved {
	s := Saved{
		At: k.epoch.Add(k.now).Round(0), State: c.state, Incarnation: c.gen, Restarts: int(c.restarts),
		Attempt: int(c.attempt), Reason: c.reason,
	}
	if c.state.alive() {
		s.StartedAt = k.epoch.Add(c.began)
	}
	if m := c.more; m != nil {
		l, w := k.governs(c)
		s.LastExit = m.exit
		if w == &m.win {
			s.Counted = k.times(w, l)
		}
		if m.nextAt != 0 && c.state != Running {
			s.NextAt = k.epoch.Add(m.nextAt)
		}
	}
	return s
}

// times returns the times of a window as wall clock times.
func (k *core) times(w *window, l Limit) []time.Time {
	n := w.count(k.now, l)
	if n == 0 {
		return nil
	}
	all := make([]time.Time, n)
	for i := range all {
		at := k.now
		if len(w.times) > 0 {
			at = w.times[(w.head+i)%len(w.times)]
		}
		all[i] = k.epoch.Add(at).Round(0)
	}
	return all
}

// since converts a wall clock time to a time of the core, within bounds that do not overflow.
func (k *core) since(t time.Time) time.Duration { return max(-maxTime, min(t.Sub(k.epoch), k.now)) }

func (k *core) restoreWindow(w *window, l Limit, times []time.Time, setBack time.Duration) {
	for _, t := range times {
		w.add(k.since(t.Add(-setBack)), l)
	}
}

// restore restores the saved state of a child that has not been started.
func (k *core) restore(c *child, s *Saved) {
	setBack := max(0, s.At.Sub(k.epoch.Add(k.now))) // of the clock
	c.gen, c.restarts, c.attempt = s.Incarnation, uint32(s.Restarts), uint32(s.Attempt)
	l, w := k.governs(c)
	if w != &k.win {
		k.restoreWindow(w, l, s.Counted, setBack)
	}
	m := c.rest()
	m.exit = s.LastExit
	switch s.State {
	case Stopped, Suspended, GivenUp, Paused:
		k.set(c, s.State, s.Reason)
	case Restarting, Quarantined:
		k.set(c, s.State, s.Reason)
		wait := max(0, s.NextAt.Add(-setBack).Sub(k.epoch)-k.now)
		if s.State == Quarantined && (l.Max < 0 || w.count(k.now, l) < l.Max) {
			wait = 0 // its limit is another one now
		}
		k.timer(c, wait)
	default:
		if s.Adopt && c.gen > 0 {
			c.gen--
			m.adopt, c.counted, c.began = true, true, k.now
			if !s.StartedAt.IsZero() {
				c.began = k.since(s.StartedAt.Add(-setBack))
				if !s.EndedAt.IsZero() {
					m.lived = max(1, s.EndedAt.Sub(s.StartedAt))
				}
			}
		}
	}
}

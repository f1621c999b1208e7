package task

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/task/pools"
)

// State holds the tasks of a project and decides what may happen to them. It does no I/O: a Step
// collects what has to be written. A State is not safe for concurrent use.
type State struct {
	index  *Index
	ids    ids
	agents incarnations
	pools  map[string]pools.Pool // that are not open, or of which tasks have failed lately
	config Config
}

// Config configures a State. All fields are required.
type Config struct {
	// Project is the name with which the ids of new tasks begin.
	Project string
	// MaxClaims returns how many claims may fail before a task is parked that has no number of its
	// own; 0 means no limit.
	MaxClaims func() int
	// Pause returns how long a task waits after its nth attempt in a row without a result. Pause
	// is meant for it.
	Pause func(n int) time.Duration
	// PoolLimit returns when the tasks of a pool are paused.
	PoolLimit func() pools.Limit
	// Ready is called when a task becomes ready at a place.
	Ready func(Place)
	// HasCheck reports whether a command tells if a service works. Without one a person is asked.
	HasCheck func(service string) bool
}

// NewState returns a State without tasks.
func NewState(c Config) *State {
	return &State{
		index: NewIndex(), ids: ids{prefix: idPrefix(c.Project)}, config: c,
		agents: incarnations{running: make(map[string]Life), ended: make(map[string]end)},
		pools:  make(map[string]pools.Pool),
	}
}

// Replace sets the tasks of the State to those of an index, and the pools. number is at least the
// highest number of a task.
func (s *State) Replace(x *Index, known []pools.Pool, number uint64) {
	s.index, s.ids.number = x, max(number, s.ids.number)
	x.onReady = s.config.Ready
	clear(s.pools)
	for _, p := range known {
		s.setPool(p)
	}
}

// Step starts a decision.
func (s *State) Step() *Step { return &Step{Changeset: Changeset{state: s}} }

// Advance sets the time. Tasks whose time has come become ready.
func (s *State) Advance(now time.Time) {
	s.index.advance(now)
	for name, p := range s.pools {
		s.index.pausePool(name, !s.claimable(p))
	}
}

// NextTime returns the earliest time that a task or a paused pool waits for; false if there is none.
func (s *State) NextTime() (at time.Time, ok bool) {
	if len(s.index.deferred.entries) > 0 {
		at, ok = s.index.deferred.entries[0].NotBefore, true
	}
	for name, p := range s.pools {
		if s.index.paused[name] && !p.ProbeAt.IsZero() && (!ok || p.ProbeAt.Before(at)) {
			at, ok = p.ProbeAt, true
		}
	}
	return at, ok
}

// ReadyAt returns the number of tasks that are ready at a place.
func (s *State) ReadyAt(at Place) int {
	if l := s.index.ready[at]; l != nil {
		return len(l.entries)
	}
	return 0
}

// Number returns the last number that was given to a task.
func (s *State) Number() uint64 { return s.ids.number }

// Begin records that an incarnation has started. From now on it can claim tasks, and earlier
// incarnations of the agent can do nothing. Their claims are orphans.
func (s *State) Begin(path string, life Life) { s.agents.running[path] = life }

// End records that an incarnation has ended, and reports whether it was the current one.
func (s *State) End(path string, incarnation uint64, exit Exit) bool {
	return s.agents.end(path, incarnation, exit)
}

// Record returns the record of a task, nil if there is none.
func (s *State) Record(id string) *Record { return s.index.get(id) }

// Find returns a task by its id. The prefix of the id may be left out.
func (s *State) Find(id string) (*Record, error) {
	for _, full := range []string{id, s.ids.full(id)} {
		if r := s.Record(full); r != nil {
			return r, nil
		}
	}
	if err := CheckID(id); err != nil {
		return nil, fmt.Errorf("%w: %.100q", ErrNotFound, id)
	}
	return nil, fmt.Errorf("%w: %s; it never existed or was removed", ErrNotFound, id)
}

// Show returns a task as it is shown, with the derived fields.
func (s *State) Show(r *Record) Task { return s.index.view(r) }

// Children returns the first children of a task, sorted by id.
func (s *State) Children(r *Record, most int) []string {
	all := slices.Sorted(maps.Keys(s.index.children[r.ID]))
	return all[:min(len(all), most)]
}

// List returns tasks by priority, then by age, starting after a task. The error is ErrConflict if
// that task no longer exists.
func (s *State) List(f Filter, limit int, afterID string) (all []Task, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var after *Record
	if afterID != "" {
		if after, err = s.Find(afterID); err != nil {
			return nil, fmt.Errorf("%w: %.100q no longer exists, nor its place in the list; begin again", ErrConflict,
				afterID)
		}
	}
	for e := range s.index.selected(f, after) {
		all = append(all, s.Show(e.Record))
		if len(all) == limit {
			break
		}
	}
	return all, nil
}

// Count returns the number of tasks that a filter selects. Filters by status and pool alone use
// the counts of the index.
func (s *State) Count(f Filter) (n int, err error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if statuses := f.countedStatuses(); statuses != nil {
		for _, status := range statuses {
			n += s.index.counts[countKey{status: status, pool: f.Pool, all: f.Pool == ""}]
		}
		return n, nil
	}
	for range s.index.selected(f, nil) {
		n++
	}
	return n, nil
}

// Counts returns the number of tasks by status.
func (s *State) Counts() map[Status]int {
	counts := map[Status]int{}
	for _, status := range Statuses() {
		counts[status] = s.index.counts[countKey{status: status, all: true}]
	}
	return counts
}

// Parked returns the number of parked tasks.
func (s *State) Parked() int { return s.index.counts[countKey{status: Parked, all: true}] }

// Questions returns the tasks that people are asked about, sorted by id.
func (s *State) Questions() (all []Task) {
	for _, id := range slices.Sorted(maps.Keys(s.index.asked)) {
		all = append(all, s.Show(s.Record(id)))
	}
	return all
}

// Hook is the work there is for an agent.
type Hook struct {
	Mine  []Task // claimed by this incarnation
	Ready []Task // assigned to the agent
	Pool  []Task // the first ones of its pools
	More  int    // ready tasks that are not listed
}

// Hook returns the work there is for an incarnation.
func (s *State) Hook(actor Actor, pools []string) (h Hook) {
	var mine []*Record
	for id := range s.index.claimed[actor.String()] {
		if r := s.Record(id); holdsClaim(actor, r) {
			mine = append(mine, r)
		}
	}
	slices.SortFunc(mine, (*Record).compare)
	for _, r := range mine {
		h.Mine = append(h.Mine, s.Show(r))
	}
	h.Ready = s.index.firstReady(Place{assignee: actor.String()}, &h.More)
	for _, pool := range pools {
		if pool != "" {
			h.Pool = append(h.Pool, s.index.firstReady(Place{pool: pool}, &h.More)...)
		}
	}
	return h
}

// resolveAll returns the full ids of tasks that must exist.
func (s *State) resolveAll(ids []string) ([]string, error) {
	var all []string
	for _, id := range ids {
		r, err := s.Find(id)
		if err != nil {
			return nil, err
		}
		all = append(all, r.ID)
	}
	return Sorted(all), nil
}

// resolveParent returns the full id of a task that can have children.
func (s *State) resolveParent(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	r, err := s.Find(id)
	if err != nil {
		return "", err
	}
	if r.closed() {
		return "", fmt.Errorf("%w: %s is closed and cannot get children; reopen it with: "+
			"coppice task reopen %[2]s", ErrConflict, r.ID)
	}
	return r.ID, nil
}

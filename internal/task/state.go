package task

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// State holds the tasks of a project and decides what may happen to them. It knows no
// store: a Step collects what has to be written. A State is for one goroutine at a time.
type State struct {
	index     *Index
	prefix    string          // of ids
	number    uint64          // the last that a task was given
	lives     map[string]Life // of agents
	ends      map[string]end  // of their last incarnations that have ended
	maxClaims func() int
	ready     func(Place)
}

// NewState makes a State without tasks. The ids of new tasks begin with the name of
// the project. maxClaims returns how many claims of a task that states no number of its
// own may fail before the task is parked; 0 is no limit. ready is called when a task has
// become ready at a place.
func NewState(project string, maxClaims func() int, ready func(Place)) *State {
	return &State{
		index: NewIndex(), prefix: idPrefix(project), maxClaims: maxClaims, ready: ready,
		lives: make(map[string]Life), ends: make(map[string]end),
	}
}

// Replace makes the tasks of an index those of the State. number is at least the
// highest that was given to a task.
func (s *State) Replace(x *Index, number uint64) {
	s.index, s.number = x, max(number, s.number)
	x.onReady = s.ready
}

// Step begins a decision.
func (s *State) Step() *Step { return &Step{state: s} }

// Advance sets the time: tasks that have waited for it are ready.
func (s *State) Advance(now time.Time) { s.index.advance(now) }

// NextTime is the first time that a task waits for; false if none waits for its time.
func (s *State) NextTime() (time.Time, bool) {
	if len(s.index.deferred.entries) == 0 {
		return time.Time{}, false
	}
	return s.index.deferred.entries[0].NotBefore, true
}

// ReadyAt returns the number of tasks that are ready at a place.
func (s *State) ReadyAt(at Place) int {
	if l := s.index.ready[at]; l != nil {
		return len(l.entries)
	}
	return 0
}

// Number is the last that a task was given.
func (s *State) Number() uint64 { return s.number }

// Begin says that an incarnation lives: it can claim from now on, and no other
// one of that agent can do anything. Its Orphans are those of the others.
func (s *State) Begin(path string, life Life) { s.lives[path] = life }

// End says that an incarnation has ended: it can no longer do anything. failure
// says how, if the agent has failed, and is empty if it was asked to end or
// nothing is known: only failures count against the tasks that it had claimed.
// It reports whether the incarnation was alive.
func (s *State) End(path string, incarnation uint64, failure string) bool {
	life := s.lives[path]
	if life.Incarnation != incarnation {
		return false
	}
	s.ends[path] = end{life, failure}
	delete(s.lives, path)
	return true
}

// checkAlive reports ErrStale unless a person asks, or the incarnation that lives.
func (s *State) checkAlive(actor Actor) error {
	if life := s.lives[actor.Path]; !actor.Person() && (life.Incarnation != actor.Incarnation || actor.Incarnation == 0) {
		return fmt.Errorf("%w: incarnation %d of %s", ErrStale, actor.Incarnation, actor.Path)
	}
	return nil
}

// Record is the record of a task, nil if there is none.
func (s *State) Record(id string) *Record { return s.index.get(id) }

// Find is the task that an id means, whose beginning may be left out.
func (s *State) Find(id string) (*Record, error) {
	for _, checkCapacity := range []string{id, s.prefix + "-" + id} {
		if r := s.Record(checkCapacity); r != nil {
			return r, nil
		}
	}
	if err := CheckID(id); err != nil {
		return nil, fmt.Errorf("%w: %.100q", ErrNotFound, id)
	}
	return nil, fmt.Errorf("%w: %s; it never existed or was removed", ErrNotFound, id)
}

// Show is a task as others see it.
func (s *State) Show(r *Record) Task { return s.index.view(r) }

// Children are some of the children of a task, in the order of their ids.
func (s *State) Children(r *Record, most int) []string {
	all := slices.Sorted(maps.Keys(s.index.children[r.ID]))
	return all[:min(len(all), most)]
}

// List returns tasks by priority, then by age. The error is ErrConflict if the task
// that it is to begin after is gone.
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

// Count returns how many tasks a filter selects.
// What selects by status and pool alone is not looked for: it is counted already.
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

// Parked returns the number of parked tasks.
func (s *State) Parked() int { return s.index.counts[countKey{status: Parked, all: true}] }

// Hook is what there is for an agent to do.
type Hook struct {
	Mine  []Task // in progress, by this incarnation
	Ready []Task // assigned to it
	Pool  []Task // the first of its pools
	More  int    // that are ready, and not named
}

// Hook says what there is for an incarnation to do.
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

// OrphanHolders are the agents of which a claim is an orphan.
func (s *State) OrphanHolders() (all []string) {
	for by := range s.index.claimed {
		if len(s.orphans(by)) > 0 {
			all = append(all, by)
		}
	}
	slices.Sort(all)
	return all
}

// HasOrphans reports whether an agent has tasks that no incarnation of it that lives
// has claimed.
func (s *State) HasOrphans(path string) bool { return len(s.orphans(path)) > 0 }

func (s *State) orphans(path string) (all []*Record) {
	for id := range s.index.claimed[path] {
		if r := s.Record(id); s.isOrphan(r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// isOrphan reports whether a task was claimed by an incarnation that does not live.
func (s *State) isOrphan(r *Record) bool {
	if r.Claim == nil || r.Claim.Incarnation == 0 {
		return false
	}
	life := s.lives[r.Claim.By]
	return life.Incarnation != r.Claim.Incarnation || life.ID != r.Claim.Life
}

// all are the tasks that ids mean.
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

// parent is a task that can have children.
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

// named are those that ids mean, which may be gone, of those that are there.
func (s *State) resolveAmong(ids, there []string) ([]string, error) {
	var all []string
	for _, id := range ids {
		checkCapacity := s.prefix + "-" + id
		switch {
		case slices.Contains(there, id):
			all = append(all, id)
		case slices.Contains(there, checkCapacity):
			all = append(all, checkCapacity)
		default:
			return nil, fmt.Errorf("%w: it does not depend on %.100q", ErrInvalid, id)
		}
	}
	return all, nil
}

// next is the id and the number of a new task.
func (s *State) nextID() (string, uint64) {
	for {
		s.number++
		id := s.prefix + "-" + idSuffix(s.number-1)
		if s.Record(id) == nil { // an import may have brought it
			return id, s.number
		}
	}
}

// checkCapacity refuses one task more than are kept.
func (s *State) checkCapacity() error {
	if n := len(s.index.entries); n >= MaxTasks {
		return fmt.Errorf("%w: there are %d, the maximum", ErrFull, n)
	}
	return nil
}

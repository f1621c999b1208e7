package task

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// waits reports whether a task waits for another one.
func (x *Index) waits(r *Record) bool {
	return x.openCount[r.ID] > 0 || len(x.stoppedBy(r)) > 0 ||
		slices.ContainsFunc(r.DependsOn, func(id string) bool { return x.blocks(id, r) })
}

// blocks reports whether a dependency prevents that a task begins.
func (x *Index) blocks(dependency string, r *Record) bool {
	return x.isOpen(dependency) || x.failed(dependency) && r.IfDependencyFails != GoOnWithout
}

// failed reports whether a task was closed without being completed.
func (x *Index) failed(id string) bool { return ended(x.get(id)) == Cancelled }

func (x *Index) isOpen(id string) bool {
	r := x.get(id)
	return r != nil && !r.closed()
}

// maxShown bounds the tasks that waitsFor and openChildren return.
const maxShown = 20

// waitsFor returns tasks that a task waits for.
func (x *Index) waitsFor(r *Record) (all []string) {
	for _, id := range r.DependsOn {
		if x.blocks(id, r) {
			all = append(all, id)
		}
	}
	all = slices.Concat(all, x.openChildren(r.ID), x.stoppedBy(r))
	return all[:min(len(all), maxShown)]
}

// openChildren returns the first children of a task that are not closed, sorted.
func (x *Index) openChildren(id string) (all []string) {
	if x.openCount[id] == 0 {
		return nil
	}
	for _, child := range slices.Sorted(maps.Keys(x.children[id])) {
		if x.isOpen(child) && len(all) < maxShown {
			all = append(all, child)
		}
	}
	return all
}

// checkCycle returns an ErrInvalid if a task is part of a dependency cycle.
func (x *Index) checkCycle(id string) error {
	if path := x.cycle(id); path != nil {
		return CycleError(path)
	}
	return nil
}

// cycle returns a path from a task back to itself along its waiters, nil if there is none. It
// follows waiters and not dependencies: few tasks wait for a new one, which may wait for many.
func (x *Index) cycle(id string) []string {
	waitsFor := map[string]string{} // the task from which each one was reached
	queue := []string{id}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for waiter := range x.waitersOf(at) {
			if waiter == id {
				path := []string{id}
				for ; at != id; at = waitsFor[at] {
					path = append(path, at)
				}
				return append(path, id)
			}
			if _, seen := waitsFor[waiter]; !seen {
				waitsFor[waiter] = at
				queue = append(queue, waiter)
			}
		}
	}
	return nil
}

// waitersOf yields the tasks that wait for a task, closed or not.
func (x *Index) waitersOf(id string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for waiter := range x.waiters[id] {
			if !yield(waiter) {
				return
			}
		}
		if r := x.get(id); r != nil && r.Parent != "" {
			yield(r.Parent)
		}
	}
}

// CycleError returns an ErrInvalid for a path of tasks that each wait for the next one. The last
// one is the first.
func CycleError(path []string) error {
	const most = 20
	if len(path) > most {
		path = slices.Concat(path[:most-2], []string{"..."}, path[len(path)-1:])
	}
	return fmt.Errorf("%w: dependency cycle: %s (a task waits for its dependencies and for its children)",
		ErrInvalid, strings.Join(path, " -> "))
}

// addDependency makes a task wait until another one is completed. If it need not exist, an unknown one is ignored.
func (s *State) addDependency(r *Record, id string, must bool) error {
	other, err := s.Find(id)
	switch {
	case err != nil && must:
		return fmt.Errorf("it cannot wait for %.100q: %w", id, err)
	case err != nil:
		return nil
	case other.ID == r.ID:
		return fmt.Errorf("%w: %s cannot wait for itself", ErrInvalid, r.ID)
	}
	r.DependsOn = Sorted(append(r.DependsOn[:len(r.DependsOn):len(r.DependsOn)], other.ID))
	return nil
}

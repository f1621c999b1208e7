package task

import (
	"maps"
	"slices"
	"strings"
)

// HasDoomed reports whether tasks are to be cancelled with one that they depend on.
func (s *State) HasDoomed() bool { return len(s.index.doomed) > 0 }

// CancelDoomed cancels some of the tasks that are to be cancelled with one that they depend on. It
// may doom others.
func (s *Step) CancelDoomed() error {
	const most = 6 // each may end several decomposed tasks
	x := s.state.index
	all := slices.Sorted(maps.Keys(x.doomed))
	for _, id := range all[:min(len(all), most)] {
		if !x.doomed[id] { // it has ended with the one before
			continue
		}
		r := *x.get(id)
		failed := slices.DeleteFunc(slices.Clone(r.DependsOn), func(id string) bool { return !x.failed(id) })
		reason := "it depends on what was not completed: " + strings.Join(failed[:min(len(failed), maxShown)], ", ")
		if err := s.close(&r, Actor{Name: controller}, Cancelled, reason); err != nil {
			return err
		}
	}
	return nil
}

// Package waitlist has the agents that wait for something outside of them, such as a quota, and starts them when it is
// there. Their supervisors know them as children that have said when to try again (supervisor.RetryError).
package waitlist

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// List is a list of agents that wait.
type List struct {
	// Locate returns the supervisor of an agent and its ID there.
	Locate func(path string) (*supervisor.Supervisor, string, error)
	// Go runs a function in the background.
	Go func(func(context.Context))

	mu     sync.Mutex
	byPath map[string][]string
}

// Add notes that an agent waits for any of some things, in place of what it has waited for.
func (l *List) Add(path string, things ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPath == nil {
		l.byPath = map[string][]string{}
	}
	l.byPath[path] = things
}

// Remove notes that an agent does not wait any longer.
func (l *List) Remove(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byPath, path)
}

// Paths returns the agents that wait, sorted.
func (l *List) Paths() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.byPath))
}

// For returns the agents that wait for a thing, sorted.
func (l *List) For(thing string) []string {
	return slices.DeleteFunc(l.Paths(), func(path string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.Contains(l.byPath[path], thing)
	})
}

// again is the pause before an agent is tried a second time that is not known to wait: its supervisor may not have
// heard of it yet.
const again = time.Second

// Start starts agents that wait in the background: all of them, or the first that does. They ask again whether they
// may. Those that do not wait any longer, because they were stopped or removed, are taken off the list.
func (l *List) Start(paths []string, all bool) {
	if len(paths) == 0 {
		return
	}
	l.Go(func(ctx context.Context) {
		rest, started := l.start(paths, all)
		if len(rest) == 0 || started && !all {
			return
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
		if rest, started = l.start(rest, all); all || !started {
			for _, path := range rest {
				l.Remove(path)
			}
		}
	})
}

// start starts agents, and returns those that do not wait. Those that are gone are taken off the list.
func (l *List) start(paths []string, all bool) (rest []string, started bool) {
	for _, path := range paths {
		sup, id, err := l.Locate(path)
		if err == nil {
			err = sup.Retry(id)
		}
		switch {
		case errors.Is(err, supervisor.ErrNotWaiting):
			rest = append(rest, path)
		case err != nil:
			l.Remove(path)
		case !all:
			return rest, true
		default:
			started = true
		}
	}
	return rest, started
}

package agent

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/supervisor"
)

// registry has the last incarnation of each agent, and the starts that are under way.
type registry struct {
	mu       sync.Mutex
	last     map[string]*Process                   // by path
	starting map[string]map[chan struct{}]struct{} // closed when the start is decided; last has its result then
}

func newRegistry() *registry {
	return &registry{last: make(map[string]*Process), starting: make(map[string]map[chan struct{}]struct{})}
}

// start calls a Start function and keeps the process that it returns.
func (r *registry) start(
	ctx context.Context, path string, start func(context.Context) (supervisor.Process, error),
) (supervisor.Process, error) {
	decided := make(chan struct{})
	r.mu.Lock()
	if r.starting[path] == nil {
		r.starting[path] = make(map[chan struct{}]struct{})
	}
	r.starting[path][decided] = struct{}{}
	r.mu.Unlock()
	started, err := start(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := started.(*Process); ok && err == nil {
		r.last[path] = p
	}
	delete(r.starting[path], decided)
	if len(r.starting[path]) == 0 {
		delete(r.starting, path)
	}
	close(decided)
	return started, err
}

// of returns the last incarnation of an agent that has been started; nil if there is none.
func (r *registry) of(path string) *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[path]
}

// forget forgets an agent.
func (r *registry) forget(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, path)
}

// below returns the running incarnations at and below a path, and the starts there.
func (r *registry) below(path string) (running map[string]shutdown.Process, starting map[string]<-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	running, starting = make(map[string]shutdown.Process), make(map[string]<-chan struct{})
	for at, p := range r.last {
		if isBelow(at, path) && !isClosed(p.finished) {
			running[at] = p
		}
	}
	for at, starts := range r.starting {
		for decided := range starts {
			if isBelow(at, path) {
				starting[at] = decided
			}
		}
	}
	return running, starting
}

// awaitStarts waits until the starts that are under way are decided, at most for some time.
func (r *registry) awaitStarts(atMost time.Duration) {
	r.mu.Lock()
	var all []chan struct{}
	for _, starts := range r.starting {
		for decided := range starts {
			all = append(all, decided)
		}
	}
	r.mu.Unlock()
	timeout := time.After(atMost)
	for _, decided := range all {
		select {
		case <-decided:
		case <-timeout:
			return
		}
	}
}

// empty reports whether no agent runs.
func (r *registry) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.last {
		if !isClosed(p.finished) {
			return false
		}
	}
	return true
}

// isBelow reports whether a path is that of a node, or of something in it.
func isBelow(path, node string) bool { return path == node || strings.HasPrefix(path, node+"/") }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

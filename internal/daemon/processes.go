package daemon

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/supervisor"
)

// processes are the incarnations that live, and the starts that are under way.
type processes struct {
	mu       sync.Mutex
	last     map[string]*process                   // of each agent
	starting map[string]map[chan struct{}]struct{} // closed when it is decided; what came of it is in last then
}

func newProcesses() *processes {
	return &processes{last: make(map[string]*process), starting: make(map[string]map[chan struct{}]struct{})}
}

// below reports whether a path is that of a node, or of something in it.
func below(path, node string) bool { return path == node || strings.HasPrefix(path, node+"/") }

// start calls a Start function, and keeps what comes of it.
func (a *processes) start(ctx context.Context, path string,
	start func(context.Context) (supervisor.Process, error)) (supervisor.Process, error) {
	decided := make(chan struct{})
	a.mu.Lock()
	if a.starting[path] == nil {
		a.starting[path] = make(map[chan struct{}]struct{})
	}
	a.starting[path][decided] = struct{}{}
	a.mu.Unlock()
	started, err := start(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := started.(*process); ok && err == nil {
		a.last[path] = p
	}
	delete(a.starting[path], decided)
	if len(a.starting[path]) == 0 {
		delete(a.starting, path)
	}
	close(decided)
	return started, err
}

// of returns the last incarnation of an agent that has been started; nil if there is none.
func (a *processes) of(path string) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[path]
}

// forget forgets an agent that is not wanted any more.
func (a *processes) forget(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, path)
}

// below returns what lives at and below a path, and the starts there.
func (a *processes) below(path string) (living map[string]shutdown.Process, starting map[string]<-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	living, starting = make(map[string]shutdown.Process), make(map[string]<-chan struct{})
	for at, p := range a.last {
		if below(at, path) && !isClosed(p.gone) {
			living[at] = p
		}
	}
	for at, starts := range a.starting {
		for decided := range starts {
			if below(at, path) {
				starting[at] = decided
			}
		}
	}
	return living, starting
}

// settle waits until the starts that are under way are decided, or for some time.
func (a *processes) settle(atMost time.Duration) {
	a.mu.Lock()
	var all []chan struct{}
	for _, starts := range a.starting {
		for decided := range starts {
			all = append(all, decided)
		}
	}
	a.mu.Unlock()
	enough := time.After(atMost)
	for _, decided := range all {
		select {
		case <-decided:
		case <-enough:
			return
		}
	}
}

// empty reports whether no agent lives.
func (a *processes) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.last {
		if !isClosed(p.gone) {
			return false
		}
	}
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

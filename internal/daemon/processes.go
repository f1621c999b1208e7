package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// arrivals are the incarnations that live, those that are being started, and the
// parts of the tree in which nothing may be started at the moment.
type arrivals struct {
	mu      sync.Mutex
	gates   map[*gate]struct{}
	coming  map[*arrival]struct{}
	present map[string]*process // the last one of each agent
}

// gate closes a part of the tree to everything that is started: it waits there.
type gate struct {
	path    string
	open    chan struct{}
	arrived func(path string, p *process) // somebody who was on the way; called with the lock held
}

// arrival is a start that is under way.
type arrival struct {
	path   string
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when it is decided; what came of it is in present then
}

var errGateClosed = errors.New("it is being stopped")

func newArrivals() *arrivals {
	return &arrivals{gates: make(map[*gate]struct{}), coming: make(map[*arrival]struct{}), present: make(map[string]*process)}
}

// below reports whether a path is that of a node, or of something in it.
func below(path, node string) bool { return path == node || strings.HasPrefix(path, node+"/") }

// gate returns one that a path lies behind; nil if there is none. Needs mu.
func (a *arrivals) gate(path string) *gate {
	for g := range a.gates {
		if below(path, g.path) {
			return g
		}
	}
	return nil
}

// enter waits until nothing that the path lies behind is closed. What its
// supervisor does not want any more does not wait.
func (a *arrivals) enter(ctx context.Context, path string) (context.Context, *arrival, error) {
	for {
		a.mu.Lock()
		g := a.gate(path)
		if g == nil {
			defer a.mu.Unlock()
			ctx, cancel := context.WithCancelCause(ctx)
			way := &arrival{path: path, cancel: cancel, over: make(chan struct{})}
			a.coming[way] = struct{}{}
			return ctx, way, nil
		}
		a.mu.Unlock()
		select {
		case <-g.open:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// arrive takes note of what has come of a start. One that came through although
// its gate was closed meanwhile is told to leave.
func (a *arrivals) arrive(way *arrival, p supervisor.Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.coming, way)
	if p, ok := p.(*process); ok {
		a.present[way.path] = p
		if g := a.gate(way.path); g != nil {
			g.arrived(way.path, p)
		}
	}
	close(way.over)
}

// start is a Start function that heeds the gates. A start that a gate has cut
// short has not failed: nobody hears of it before it can be repeated, or is not
// wanted any more.
func (a *arrivals) start(ctx context.Context, path string, start func(context.Context) (supervisor.Process, error)) (supervisor.Process, error) {
	inner, way, err := a.enter(ctx, path)
	if err != nil {
		return nil, err
	}
	p, err := start(inner)
	cut := context.Cause(inner) == errGateClosed
	way.cancel(nil)
	if err != nil {
		p = nil
	}
	a.arrive(way, p)
	if err == nil || !cut {
		return p, err
	}
	_, again, late := a.enter(ctx, path)
	if late != nil {
		return nil, late
	}
	a.arrive(again, nil)
	return nil, err
}

// of is the last incarnation of an agent that has been started; nil if there is none.
func (a *arrivals) of(path string) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.present[path]
}

// forget forgets an agent that is not wanted any more.
func (a *arrivals) forget(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.present, path)
}

// close closes a part of the tree. Starts that are under way in it are given up.
// It returns what lives there, and who is still on the way.
func (a *arrivals) close(path string, arrived func(string, *process)) (g *gate, living map[string]*process, coming []*arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g = &gate{path: path, open: make(chan struct{}), arrived: arrived}
	a.gates[g] = struct{}{}
	living = make(map[string]*process)
	for at, p := range a.present {
		if below(at, path) && !isClosed(p.gone) {
			living[at] = p
		}
	}
	for way := range a.coming {
		if below(way.path, path) {
			way.cancel(errGateClosed)
			coming = append(coming, way)
		}
	}
	return g, living, coming
}

// closed reports whether nothing can be started at a path.
func (a *arrivals) closed(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gate(path) != nil
}

// settle waits until no start is under way any more, or for some time.
func (a *arrivals) settle(atMost time.Duration) {
	a.mu.Lock()
	coming := slices.Collect(maps.Keys(a.coming))
	a.mu.Unlock()
	enough := time.After(atMost)
	for _, way := range coming {
		select {
		case <-way.over:
		case <-enough:
			return
		}
	}
}

// empty reports whether nobody lives.
func (a *arrivals) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.present {
		if !isClosed(p.gone) {
			return false
		}
	}
	return true
}

// reopen lets in who waits.
func (a *arrivals) reopen(g *gate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.gates, g)
	close(g.open)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

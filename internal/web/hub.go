package web

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/status"
)

const (
	minInterval = 250 * time.Millisecond // between two changes of a page
	maxInterval = 5 * time.Second        // since some things change without an event
	retryTime   = time.Second            // to a daemon that does not answer
)

// hub tells viewers when something may have changed, at most every minInterval. It follows the event log, but only
// while somebody looks.
type hub struct {
	client *api.Client
	ctx    context.Context
	dirty  chan struct{} // holds a token when something has changed

	mu      sync.Mutex
	viewers int
	stop    context.CancelFunc // of what runs for the viewers; nil if nothing does
	now     moment
	changed chan struct{} // closed and replaced with each moment
	running sync.WaitGroup
	begun   uint64            // how often the events were followed anew
	lastOf  map[string]uint64 // numbers of the last events by path, since then

	reading sync.Mutex // held while nodes are read, which is done once for all viewers
	nodes   []status.Node
	nodesOf uint64 // the moment of the nodes
}

// moment is what is known at a time.
type moment struct {
	number uint64 // of the moment, from 1
	last   uint64 // number of the last event
	down   error  // why events cannot be followed
}

func newHub(ctx context.Context, c *api.Client) *hub {
	return &hub{client: c, ctx: ctx, dirty: make(chan struct{}, 1), changed: make(chan struct{})}
}

// watch follows the events until the returned function is called.
func (h *hub) watch() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers++; h.stop == nil {
		ctx, stop := context.WithCancel(h.ctx)
		h.stop = stop
		h.running.Go(func() { h.follow(ctx) })
		h.running.Go(func() { h.tell(ctx) })
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.viewers--; h.viewers == 0 {
			h.stop()
			h.stop = nil
		}
	})
}

// close waits until nothing is followed any more. The context of the hub must have ended.
func (h *hub) close() { h.running.Wait() }

// state returns the present moment, and what is closed when the next one comes.
func (h *hub) state() (moment, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, h.changed
}

// follow follows the events until ctx ends.
func (h *hub) follow(ctx context.Context) {
	for ctx.Err() == nil {
		last, err := lastEvent(ctx, h.client)
		if err == nil {
			h.begin(last)
			for e, followErr := range feed.Events(ctx, h.client, event.Query{After: last, Follow: true}) {
				if err = followErr; err != nil {
					break
				}
				h.see(e)
			}
		}
		if ctx.Err() != nil {
			return
		}
		h.note(0, err)
		select {
		case <-time.After(retryTime):
		case <-ctx.Done():
		}
	}
}

// lastEvent returns the number of the last event of the log.
func lastEvent(ctx context.Context, c *api.Client) (last uint64, err error) {
	for e, err := range feed.Events(ctx, c, event.Query{Last: 1}) {
		if err != nil {
			return 0, err
		}
		last = e.Seq
	}
	return last, nil
}

// begin notes that the events after one are followed.
func (h *hub) begin(last uint64) {
	h.mu.Lock()
	h.begun++
	h.lastOf = make(map[string]uint64)
	h.mu.Unlock()
	h.note(last, nil)
}

// see notes an event.
func (h *hub) see(e event.Event) {
	h.mu.Lock()
	h.lastOf[e.Path] = e.Seq
	h.mu.Unlock()
	h.note(e.Seq, nil)
}

// version is another one after each event about a node.
type version struct{ begun, last uint64 }

// version returns the version of what events tell of a node. It is true only while events are followed.
func (h *hub) version(path string) version {
	h.mu.Lock()
	defer h.mu.Unlock()
	return version{h.begun, h.lastOf[path]}
}

// note notes what is known for the next moment.
func (h *hub) note(last uint64, down error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last > 0 {
		h.now.last = last
	}
	h.now.down = down
	select {
	case h.dirty <- struct{}{}:
	default:
	}
}

// tell begins moments until ctx ends.
func (h *hub) tell(ctx context.Context) {
	tick := time.NewTicker(maxInterval)
	defer tick.Stop()
	for {
		select {
		case <-h.dirty:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		h.now.number++
		close(h.changed)
		h.changed = make(chan struct{})
		h.mu.Unlock()
		select {
		case <-time.After(minInterval):
		case <-ctx.Done():
			return
		}
	}
}

// allNodes returns the nodes of the tree as they were at a moment or later; with 0, as they are now.
func (h *hub) allNodes(ctx context.Context, at uint64) ([]status.Node, error) {
	if at == 0 {
		return status.List.Call(ctx, h.client, status.ListRequest{})
	}
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.nodesOf >= at {
		return h.nodes, nil
	}
	now, _ := h.state()
	nodes, err := status.List.Call(ctx, h.client, status.ListRequest{})
	if err != nil {
		return nil, err
	}
	h.nodes, h.nodesOf = nodes, now.number
	return nodes, nil
}

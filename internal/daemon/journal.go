package daemon

import (
	"context"
	"slices"
	"sync"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// journal knows what the event log has been told of each node, for callers that
// wait until it has been told of something.
type journal struct {
	log    *event.Log
	mu     sync.Mutex
	nodes  map[string]noted
	starts map[string][]mark // the last starts of each node, oldest first
	moved  chan struct{}     // closed and replaced when something is noted
}

// noted is what the log was told of a node last.
type noted struct {
	state       string
	incarnation uint64
	mark        uint64 // of the log, behind it
	record      *agent.Record
}

// mark is a start in the log.
type mark struct {
	incarnation uint64
	at          uint64
}

func newJournal(log *event.Log) *journal {
	return &journal{log: log, nodes: make(map[string]noted), starts: make(map[string][]mark),
		moved: make(chan struct{})}
}

// note remembers what an event has written. It is called right after the event
// was given to the log.
func (j *journal) note(path string, r *agent.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nodes[path] = noted{r.State, r.Incarnation, j.log.Mark(), r}
	j.broadcast()
}

// started remembers a start, and the most before it that are needed.
func (j *journal) started(path string, incarnation uint64, most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	starts := append(j.starts[path], mark{incarnation, j.log.Mark()})
	j.starts[path] = starts[max(0, len(starts)-most):]
	j.broadcast()
}

// broadcast wakes those who wait. The mutex is held.
func (j *journal) broadcast() {
	close(j.moved)
	j.moved = make(chan struct{})
}

// recall takes over the last start that an earlier controller has written.
func (j *journal) recall(path string, incarnation uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.starts[path] = []mark{{incarnation: incarnation}}
}

// forgetStarts forgets the starts of a node: its numbers begin again.
func (j *journal) forgetStarts(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.starts, path)
}

// of is what was noted of a node last; false if nothing was.
func (j *journal) of(path string) (noted, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, ok := j.nodes[path]
	return n, ok
}

// lastStart is the incarnation of the last start; 0 if none is known.
func (j *journal) lastStart(path string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if starts := j.starts[path]; len(starts) > 0 {
		return starts[len(starts)-1].incarnation
	}
	return 0
}

// written waits until what was noted of a node is as done says, and is on the disk.
func (j *journal) written(ctx context.Context, path string, done func(noted) bool) {
	var at uint64
	if j.await(ctx, func() bool {
		n, ok := j.nodes[path]
		at = n.mark
		return ok && done(n)
	}) {
		j.log.SyncTo(ctx, at)
	}
}

// startWritten waits until a start not before an incarnation is on the disk, if
// any start of the node is known.
func (j *journal) startWritten(ctx context.Context, path string, incarnation uint64) {
	var at uint64
	if j.await(ctx, func() bool {
		starts := j.starts[path]
		i := slices.IndexFunc(starts, func(m mark) bool { return m.incarnation >= incarnation })
		if i >= 0 {
			at = starts[i].at
		}
		return i >= 0 || len(starts) == 0
	}) && at > 0 {
		j.log.SyncTo(ctx, at)
	}
}

// running waits until the log has been told of all nodes that run, of which the
// incarnations are given; 0 for a supervisor.
func (j *journal) running(ctx context.Context, nodes map[string]uint64) {
	j.await(ctx, func() bool {
		for path, incarnation := range nodes {
			n := j.nodes[path]
			if n.state != supervisor.Running.String() && (incarnation == 0 || n.incarnation < incarnation) {
				return false
			}
			delete(nodes, path)
		}
		return true
	})
}

// await waits until done, which is called with the mutex held, says so. It reports
// false if ctx ends before.
func (j *journal) await(ctx context.Context, done func() bool) bool {
	for {
		j.mu.Lock()
		ok, moved := done(), j.moved
		j.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

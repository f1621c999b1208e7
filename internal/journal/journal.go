// Package journal writes what supervisors do into the event log, with the records of nodes that
// follow from it, and knows how far the log is behind the supervisors.
//
// Each event of a supervisor has one entry in the log; see Translate. The record of its node follows
// from the event alone and is written with it, so that the next daemon goes on where this one was.
package journal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options are the parts of a daemon that a Journal uses.
type Options struct {
	Log *event.Log
	// Wanted reports whether the desired state has a node.
	Wanted func(path string) bool
	// Removed returns the record of a node that has ended and is no longer wanted.
	Removed func(path string, incarnation uint64) *agent.Record
	// Hash returns the hash with which an incarnation was started; nil if it is not known.
	Hash func(path string, incarnation uint64) *agent.SavedHash
	// Features returns what features write with an event of a child.
	Features func(supervisor.Event) []store.Op
	// Remembers returns how many exits the slot of an agent remembers, at least 1.
	Remembers func(path string) int
}

// Journal writes the events of the supervisors of a daemon. It knows the last record of each node
// that was given to the log, for callers that wait for one. New makes it.
type Journal struct {
	Options
	mu     sync.Mutex
	nodes  map[string]noted
	starts map[string][]mark // the last starts of each node, oldest first
	moved  chan struct{}     // closed and replaced when something is noted
}

// noted is the last record of a node that was given to the log.
type noted struct {
	record *agent.Record
	mark   uint64 // of the log, behind it
}

// mark is a start in the log.
type mark struct {
	incarnation uint64
	at          uint64
}

// New returns a Journal that knows of no node.
func New(o Options) *Journal {
	return &Journal{
		Options: o, nodes: make(map[string]noted), starts: make(map[string][]mark), moved: make(chan struct{}),
	}
}

// writeTime bounds the wait of Write for the store.
const writeTime = 5 * time.Second

// Write writes an event with what follows from it, and returns when the store has both.
func (j *Journal) Write(e event.Event, ops ...store.Op) error {
	j.Log.Append(e, ops...)
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return j.Log.Sync(ctx)
}

// Note notes the record that an event has written. It is called right after the event
// was given to the log.
func (j *Journal) Note(path string, r *agent.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nodes[path] = noted{r, j.Log.Mark()}
	j.broadcast()
}

// Logged implements agent.StartLog: it notes that a start was given to the log.
func (j *Journal) Logged(path string, incarnation uint64) { j.started(path, incarnation, 1) }

// started notes a start, and keeps at most so many.
func (j *Journal) started(path string, incarnation uint64, most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	starts := append(j.starts[path], mark{incarnation, j.Log.Mark()})
	j.starts[path] = starts[max(0, len(starts)-most):]
	j.broadcast()
}

// broadcast wakes all waiting callers. It needs mu.
func (j *Journal) broadcast() {
	close(j.moved)
	j.moved = make(chan struct{})
}

// Restore notes the last start that an earlier daemon has written.
func (j *Journal) Restore(path string, incarnation uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.starts[path] = []mark{{incarnation: incarnation}}
}

// Forget implements agent.StartLog: the incarnations of an agent are numbered from 1 again.
func (j *Journal) Forget(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.starts, path)
}

// Has reports whether the log was given a record of a node since the daemon started.
func (j *Journal) Has(path string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.nodes[path]
	return ok
}

// LastStart returns the incarnation of the last start; 0 if none is known.
func (j *Journal) LastStart(path string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if starts := j.starts[path]; len(starts) > 0 {
		return starts[len(starts)-1].incarnation
	}
	return 0
}

// maxWait bounds the wait of callers for the log, so that they continue while the disk is full.
const maxWait = time.Second

// AwaitRecord waits until done accepts the record of a node, and until the record is on disk. It waits
// at most for maxWait.
func (j *Journal) AwaitRecord(ctx context.Context, path string, done func(*agent.Record) bool) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	var at uint64
	if j.await(ctx, func() bool {
		n, ok := j.nodes[path]
		at = n.mark
		return ok && done(n.record)
	}) {
		j.Log.SyncTo(ctx, at)
	}
}

// AwaitEarlier implements agent.StartLog: it waits, at most for maxWait, until the log has the start
// of incarnation n-k, where n is about to start and k is the number of exits that the slot remembers.
// If the daemon is killed, the next one writes the exits that are missing in the log, n-k to n-1, from
// the slot. An agent that exits faster than the disk writes must not get further ahead than that.
func (j *Journal) AwaitEarlier(ctx context.Context, path string, incarnation uint64) {
	ahead := uint64(j.Remembers(path))
	if incarnation <= ahead {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	var at uint64
	if j.await(ctx, func() bool {
		starts := j.starts[path]
		i := slices.IndexFunc(starts, func(m mark) bool { return m.incarnation >= incarnation-ahead })
		if i >= 0 {
			at = starts[i].at
		}
		return i >= 0 || len(starts) == 0
	}) && at > 0 {
		j.Log.SyncTo(ctx, at)
	}
}

// AwaitRunning waits, at most for maxWait, until the log was given the starts of all nodes in a map of
// incarnations, 0 for a supervisor. It consumes the map.
func (j *Journal) AwaitRunning(ctx context.Context, nodes map[string]uint64) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	j.await(ctx, func() bool {
		for path, incarnation := range nodes {
			r := j.nodes[path].record
			if r == nil || r.State != supervisor.Running.String() &&
				(incarnation == 0 || r.Incarnation < incarnation) {
				return false
			}
			delete(nodes, path)
		}
		return true
	})
}

// await waits until done, which is called with mu held, returns true. It returns false if ctx ends
// before.
func (j *Journal) await(ctx context.Context, done func() bool) bool {
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

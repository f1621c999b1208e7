package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/local"
)

// Bounds on one transaction: large enough that no write waits for two fsyncs, small enough that
// the first write of a flood does not wait long for the last.
const (
	maxGroup      = 512
	maxGroupBytes = 8 << 20
)

// request is one call that is queued for the writer.
type request struct {
	fence    store.Fence
	conds    []store.Cond
	ops      []store.Op
	newEpoch bool // instead of the above

	rev   store.Rev
	epoch uint64
	err   error
	done  chan struct{} // closed when the results are set
}

func (r *request) size() int {
	n := 0
	for _, op := range r.ops {
		n += len(op.Key) + len(op.Value)
	}
	return n
}

// writer owns the only connection that writes.
type writer struct {
	path        string
	busy        sync.Mutex // held while conn is in use, since Maintain may replace it
	db          *sql.DB
	conn        *conn // nil if the file was lost and cannot be opened again
	history     *local.History
	leases      *local.Leases
	ended       chan struct{}
	ensureFiles func() (restored bool) // called before each write
	// Counters for tests: groups taken, and transactions committed.
	taken, commits atomic.Int64
	committed      atomic.Pointer[func(took time.Duration)] // see Store.OnCommit

	mu      sync.Mutex
	queue   []*request
	closing bool
	wake    chan struct{} // holds a token when there is something to do

	// The rest needs busy.
	refused   error // the reason why the file is not open yet
	id        string
	mark      *mark
	rev       store.Rev
	epoch     uint64
	sequences map[string]uint64 // a cache
	stale     bool              // memory may differ from the file
	behind    bool              // the log has changes that are not in the main file
}

// do queues a request and waits for its result.
func (w *writer) do(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	w.signal()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if w.withdraw(r) {
		return ctx.Err()
	}
	<-r.done
	return r.err
}

// withdraw removes a request from the queue, unless the writer has already taken it.
func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, r)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end rejects new requests, finishes the queued ones, and stops the goroutine.
func (w *writer) end() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.signal()
	<-w.ended
}

func (w *writer) loop() {
	defer close(w.ended)
	for {
		group, closing := w.next()
		if len(group) > 0 {
			w.taken.Add(1)
			w.ensureFiles()
			w.busy.Lock()
			began, before := time.Now(), w.commits.Load()
			w.commit(group)
			if f := w.committed.Load(); f != nil && w.commits.Load() > before {
				(*f)(time.Since(began))
			}
			w.busy.Unlock()
			for _, r := range group {
				close(r.done)
			}
			w.waitForMore()
			continue
		}
		if closing {
			return
		}
		<-w.wake
		w.waitForMore()
	}
}

// waitForMore yields the processor for as long as that brings in more requests. The first request
// is seldom alone, and callers that have just got a result are about to write again. Without it,
// writers fall into two halves that wait for each other.
func (w *writer) waitForMore() {
	for before := -1; ; {
		w.mu.Lock()
		n := len(w.queue)
		w.mu.Unlock()
		if n == before || n >= maxGroup {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// next takes the queued requests, within the bounds of a transaction.
func (w *writer) next() (group []*request, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for n < len(w.queue) && n < maxGroup {
		if bytes += w.queue[n].size(); n > 0 && bytes > maxGroupBytes {
			break
		}
		n++
	}
	group = w.queue[:n:n]
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil
	}
	return group, w.closing
}

// commit performs a group of requests in one transaction and sets their results.
func (w *writer) commit(group []*request) {
	err := w.tryCommit(group)
	if len(group) > 1 && errors.Is(err, store.ErrFull) {
		// There is no room for the whole group, but perhaps for some of it.
		for i := range group {
			w.commit(group[i : i+1])
		}
		return
	}
	for _, r := range group {
		if r.err == nil {
			r.err = err
		}
	}
}

// tryCommit commits a group. A returned error applies to each request that has no error of its
// own.
func (w *writer) tryCommit(group []*request) error {
	if err := w.begin(); err != nil {
		return err
	}
	b := local.NewBatch(base{w}, w.rev)
	epoch := w.epoch
	for _, r := range group {
		if r.newEpoch {
			epoch++
			r.epoch = epoch
		} else if r.err = w.leases.Check(r.fence); r.err == nil {
			r.rev, r.err = b.Apply(r.conds, r.ops)
		}
	}
	if len(b.Changes) == 0 && epoch == w.epoch {
		w.conn.rollback()
		return nil
	}
	err := w.conn.write(b)
	if err == nil && epoch != w.epoch {
		err = w.conn.set("epoch", epoch)
	}
	if err := w.finish(err); err != nil {
		return err
	}
	w.commits.Add(1)
	w.reached(b.Rev(), epoch)
	if len(w.sequences) > 4096 {
		clear(w.sequences)
	}
	maps.Copy(w.sequences, b.Sequences)
	w.history.Publish(b.Changes)
	return nil
}

func (w *writer) diagnose(doing string, err error) error { return diagnose(w.path, doing, err) }

// base is the file as the open transaction sees it, without the batch.
type base struct{ *writer }

func (b base) Rev(key string) (store.Rev, error) {
	rev, err := b.conn.recordRev(key)
	if err != nil {
		return 0, b.diagnose("reading "+key, err)
	}
	return store.Rev(rev), nil
}

func (b base) Sequence(prefix string) (uint64, error) {
	if seq, ok := b.sequences[prefix]; ok {
		return seq, nil
	}
	seq, err := b.conn.sequence(prefix)
	if err != nil {
		return 0, b.diagnose("reading the sequence of "+prefix, err)
	}
	b.sequences[prefix] = seq
	return seq, nil
}

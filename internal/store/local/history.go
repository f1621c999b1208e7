package local

import (
	"context"
	"iter"
	"slices"
	"sort"
	"sync"

	"github.com/coppice-dev/coppice/internal/store"
)

// Bounds on the changes that a History keeps for slow watches.
const (
	maxChanges = 16384
	maxBytes   = 8 << 20
)

// History holds the latest changes and wakes watches that wait for more. It is bounded: a watch
// that falls behind gets ErrCompacted, so a reader that hangs costs no memory.
type History struct {
	mu      sync.Mutex
	changes []store.Change // in the order of revisions
	bytes   int
	oldest  store.Rev // all changes after this revision are held
	last    store.Rev
	more    chan struct{} // closed and replaced when last moves; closed for good at the end
	closed  bool
}

// NewHistory returns a history that starts at revision rev; earlier changes count as compacted.
func NewHistory(rev store.Rev) *History {
	return &History{oldest: rev, last: rev, more: make(chan struct{})}
}

// Publish adds changes that have been committed.
func (h *History) Publish(changes []store.Change) {
	if len(changes) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, c := range changes {
		h.bytes += size(c)
	}
	h.changes = append(h.changes, changes...)
	h.last = changes[len(changes)-1].Rev
	drop := 0
	for drop < len(h.changes)-1 && (len(h.changes)-drop > maxChanges || h.bytes > maxBytes) {
		h.bytes -= size(h.changes[drop])
		h.oldest = h.changes[drop].Rev
		drop++
	}
	clear(h.changes[:drop]) // watches hold copies of the headers, so the values may go
	h.changes = h.changes[drop:]
	close(h.more)
	h.more = make(chan struct{})
}

// Close ends all watches with store.ErrClosed.
func (h *History) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.more)
	}
}

// Await returns when everything up to rev has been published, or the history is closed.
func (h *History) Await(rev store.Rev) {
	for {
		h.mu.Lock()
		done, more := h.last >= rev || h.closed, h.more
		h.mu.Unlock()
		if done {
			return
		}
		<-more
	}
}

// Watch implements store.Store.
func (h *History) Watch(ctx context.Context, prefix string, from store.Rev) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if err := store.CheckPrefix(prefix); err != nil {
			yield(store.Change{}, err)
			return
		}
		for {
			changes, more, err := h.after(from)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(store.Change{}, err)
				return
			}
			for _, c := range changes {
				from = c.Rev
				if c, ok := restrict(c, prefix); ok && !yield(c, nil) {
					return
				}
			}
			if len(changes) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
			}
		}
	}
}

// watchStep is the maximum number of changes that a watch copies at a time.
const watchStep = 256

// after returns a copy of the next changes after from, and a channel that is closed when there
// are more.
func (h *History) after(from store.Rev) ([]store.Change, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, store.ErrClosed
	}
	if from < h.oldest || from > h.last {
		return nil, nil, store.ErrCompacted
	}
	i := sort.Search(len(h.changes), func(i int) bool { return h.changes[i].Rev > from })
	return slices.Clone(h.changes[i:min(i+watchStep, len(h.changes))]), h.more, nil
}

// restrict returns the part of c at and below prefix, and whether there is any.
func restrict(c store.Change, prefix string) (store.Change, bool) {
	if prefix == "" {
		return c, true
	}
	r := store.Change{Rev: c.Rev}
	for _, p := range c.Put {
		if store.Under(prefix, p.Key) {
			r.Put = append(r.Put, p)
		}
	}
	for _, key := range c.Deleted {
		if store.Under(prefix, key) {
			r.Deleted = append(r.Deleted, key)
		}
	}
	return r, len(r.Put) > 0 || len(r.Deleted) > 0
}

// size returns roughly how many bytes a change occupies.
func size(c store.Change) int {
	n := 64
	for _, p := range c.Put {
		n += 64 + len(p.Key) + len(p.Value)
	}
	for _, key := range c.Deleted {
		n += 16 + len(key)
	}
	return n
}

// Forget drops all changes and sets the history to rev: all watches get ErrCompacted.
func (h *History) Forget(rev store.Rev) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.changes, h.bytes, h.oldest, h.last = nil, 0, rev, rev
	close(h.more)
	h.more = make(chan struct{})
}

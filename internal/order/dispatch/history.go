package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// history keeps the runs of all orders in the store.
type history struct {
	store  store.Store
	logger *slog.Logger
	runs   *ledger.Ledger[order.Run]

	mu      sync.Mutex          // a leaf: nothing else is locked while it is held
	byOrder map[string][]uint64 // numbers of runs, oldest first
	changes chan struct{}       // closed and replaced when a run has changed
}

// openHistory reads the runs in the store.
func openHistory(ctx context.Context, s store.Store, logger *slog.Logger) (*history, error) {
	h := &history{store: s, logger: logger, byOrder: make(map[string][]uint64), changes: make(chan struct{})}
	var err error
	h.runs, err = ledger.Open(ctx, ledger.Options[order.Run]{
		Store: s, Prefix: runPrefix, Index: h.index, Logger: logger,
		Check: func(_ uint64, r *order.Run) error {
			if r.Order == "" || r.Status == "" {
				return errors.New("it has no order, or no status")
			}
			return nil
		},
	})
	return h, err
}

// index groups the runs by order. The ledger calls it for each change.
func (h *history) index(n uint64, before, now *order.Run) {
	h.mu.Lock()
	switch {
	case before == nil:
		all := h.byOrder[now.Order]
		i, _ := slices.BinarySearch(all, n)
		h.byOrder[now.Order] = slices.Insert(all, i, n)
	case now == nil:
		all := h.byOrder[before.Order]
		if i, found := slices.BinarySearch(all, n); found {
			h.byOrder[before.Order] = slices.Delete(all, i, i+1)
		}
	}
	h.mu.Unlock()
	h.changed()
}

// changed wakes those that wait for a change.
func (h *history) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changes)
	h.changes = make(chan struct{})
}

// next returns a channel that is closed at the next change of a run.
func (h *history) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// numbers returns the numbers of the runs of an order, oldest first.
func (h *history) numbers(name string) []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.byOrder[name])
}

// get returns a run.
func (h *history) get(n uint64) (r *order.Run, ok bool) {
	h.runs.View(func() {
		if found := h.runs.Get(n); found != nil {
			r = new(*found)
		}
	})
	return r, r != nil
}

// last returns the last run of an order; nil if it has none.
func (h *history) last(name string) *order.Run {
	all := h.numbers(name)
	if len(all) == 0 {
		return nil
	}
	r, _ := h.get(all[len(all)-1])
	return r
}

// all returns all runs, those of each order in their order.
func (h *history) all() (all []order.Run) {
	h.runs.View(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, numbers := range h.byOrder {
			for _, n := range numbers {
				if r := h.runs.Get(n); r != nil {
					all = append(all, *r)
				}
			}
		}
	})
	return all
}

// isOver reports whether a run has ended or is unknown.
func (h *history) isOver(n uint64) bool {
	r, ok := h.get(n)
	return !ok || r.Status.Over()
}

// output is the stored part of the output of a run.
type output struct {
	Attempt int      `json:"attempt"`
	Lines   []string `json:"lines"`
}

func outputKey(n uint64) string { return store.SequenceKey(outputPrefix, n) }

// outputOp returns the operation that stores the output of a run.
func outputOp(r *order.Run, lines []string) store.Op {
	value, err := json.Marshal(output{r.Attempt, lines})
	if err != nil {
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: outputKey(r.Number), Value: value}
}

// output returns the output of the last attempt of a run.
func (h *history) output(ctx context.Context, r *order.Run) []string {
	records, _, err := h.store.Snapshot(ctx, outputKey(r.Number))
	if err != nil || len(records) == 0 {
		return nil
	}
	var out output
	if json.Unmarshal(records[0].Value, &out) != nil || out.Attempt != r.Attempt && r.Status.Over() {
		return nil
	}
	return out.Lines
}

// record makes a change, and retries until it is stored. It reports false if ctx ends before.
func (h *history) record(ctx context.Context, change func(*ledger.Change[order.Run])) bool {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		writing, cancel := context.WithTimeout(ctx, writeTimeout)
		err := h.runs.Update(writing, func(c *ledger.Change[order.Run]) error {
			change(c)
			return nil
		})
		cancel()
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		}
		h.logger.Error("cannot record the run of an order; trying again", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

// erase deletes runs with their output.
func (h *history) erase(c *ledger.Change[order.Run], numbers []uint64) {
	for _, n := range numbers {
		if h.runs.Get(n) != nil {
			c.Delete(n)
			c.Also(store.Op{Kind: store.Delete, Key: outputKey(n)})
		}
	}
}

// excess returns the oldest runs of an order beyond the number that is kept, at most ten
// and none that are active.
func (h *history) excess(name string, keep int, active func(uint64) bool) (old []uint64) {
	all := h.numbers(name)
	left := len(all)
	for _, n := range all {
		if left <= keep || len(old) >= 10 {
			break
		}
		if !active(n) {
			old = append(old, n)
			left--
		}
	}
	return old
}

package cost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// How long records are kept.
const (
	keptDays   = 400
	totalTime  = 90 * 24 * time.Hour // of sessions, tasks and attempts
	mostTotals = 10_000              // of each
	// pruneEvery is the time between looks for what is too old.
	pruneEvery = time.Hour
)

// dateOf returns the local date of a time.
func dateOf(t time.Time) string { return t.Local().Format(time.DateOnly) }

// oldest returns the first date that is kept.
func oldest(now time.Time) string { return dateOf(now.Local().AddDate(0, 0, -keptDays)) }

// Run removes what is too old until the context ends.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		if err := l.prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			l.Logger.Warn("cannot remove old records of the ledger", "error", err)
		}
		select {
		case <-tick.C:
		case <-l.crowded:
		case <-ctx.Done():
			return
		}
	}
}

// prune removes what is too old.
func (l *Ledger) prune(ctx context.Context, now time.Time) error {
	sessions, err := l.pruneTotals(ctx, sessionPrefix, now)
	l.sessions.Store(int64(sessions))
	_, tasks := l.pruneTotals(ctx, taskPrefix, now)
	_, attempts := l.pruneTotals(ctx, attemptPrefix, now)
	return errors.Join(l.pruneDays(ctx, now), err, tasks, attempts, l.pruneMarks(ctx, now))
}

// pruneDays removes the days that are too old. Keys sort by date, so it reads little more than those.
func (l *Ledger) pruneDays(ctx context.Context, now time.Time) error {
	end, after := dayPrefix+"/"+oldest(now), ""
	for {
		page, _, err := l.Store.Scan(ctx, dayPrefix, after, store.MaxOps)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].Key
		old := slices.DeleteFunc(page, func(r store.Record) bool { return r.Key >= end })
		if err := l.remove(ctx, old); err != nil || after >= end {
			return err
		}
	}
}

// pruneTotals removes the totals of sessions, tasks or attempts that are too old, and the oldest if there are too many.
// It returns how many are left.
func (l *Ledger) pruneTotals(ctx context.Context, prefix string, now time.Time) (left int, err error) {
	type aged struct {
		store.Record
		at time.Time
	}
	var all []aged
	for r, err := range store.All(ctx, l.Store, prefix) {
		if err != nil {
			return 0, err
		}
		var t struct {
			At time.Time `json:"at"`
		}
		if json.Unmarshal(r.Value, &t) != nil {
			t.At = time.Time{}
		}
		r.Value = nil
		all = append(all, aged{r, t.At})
	}
	slices.SortStableFunc(all, func(a, b aged) int { return b.at.Compare(a.at) })
	var old []store.Record
	for i, s := range all {
		if i >= mostTotals || now.Sub(s.at) > totalTime {
			old = append(old, s.Record)
		}
	}
	return len(all) - len(old), l.remove(ctx, old)
}

// pruneMarks removes the marks of agents that have made no call for so long that no call of theirs would be counted.
func (l *Ledger) pruneMarks(ctx context.Context, now time.Time) error {
	var old []store.Record
	for r, err := range store.All(ctx, l.Store, runPrefix) {
		if err != nil {
			return err
		}
		var m mark
		if json.Unmarshal(r.Value, &m) == nil && dateOf(m.At) < oldest(now) {
			old = append(old, r)
		}
	}
	return l.remove(ctx, old)
}

// remove removes records, unless they have changed.
func (l *Ledger) remove(ctx context.Context, old []store.Record) error {
	for some := range slices.Chunk(old, store.MaxOps) {
		var w write
		for _, r := range some {
			w.conds = append(w.conds, store.Cond{Key: r.Key, Rev: r.Rev})
			w.ops = append(w.ops, store.Op{Kind: store.Delete, Key: r.Key})
		}
		_, err := l.Store.Apply(ctx, store.Fence{}, w.conds, w.ops)
		if err != nil && !errors.Is(err, store.ErrConflict) { // the next look finds what has not changed
			return err
		}
	}
	return nil
}

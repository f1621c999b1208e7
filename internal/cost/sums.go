package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/store"
)

// Session is a session of a command line, with what it has used.
type Session struct {
	CLI   agentcli.CLI
	ID    string
	Usage agentcli.Models
}

// Chain returns the tokens that the runs of a chain of an agent have used, as far as they are known, and the sessions
// that the agent has used last, the latest first.
func (l *Ledger) Chain(ctx context.Context, path string, began time.Time) (spent int64, all []Session, err error) {
	var w write
	m := read[mark](ctx, l, &w, runKey(path))
	if m.Chain.Equal(began) {
		spent = m.Spent
	}
	for _, s := range m.Sessions {
		if t := read[total](ctx, l, &w, s.key()); t.ID != "" { // not forgotten
			all = append(all, Session{t.CLI, t.ID, t.Usage})
		}
	}
	if w.err != nil {
		return 0, nil, fmt.Errorf("reading what %s has used: %w", path, w.err)
	}
	return spent, all, nil
}

// sums returns what an agent has used on a day, by account.
func (d day) sums() map[string]Sum {
	all := map[string]Sum{}
	for _, r := range d.Rows {
		all[r.Account] = all[r.Account].Plus(r.sum())
	}
	return all
}

// Days returns what each agent has used on a day, by path and account.
func (l *Ledger) Days(ctx context.Context, at time.Time) (map[string]map[string]Sum, error) {
	all := map[string]map[string]Sum{}
	for r, err := range store.All(ctx, l.Store, dayPrefix+"/"+dateOf(at)) {
		if err != nil {
			return nil, fmt.Errorf("reading the ledger: %w", err)
		}
		if d, ok := l.day(r); ok {
			all[d.Agent] = d.sums()
		}
	}
	return all, nil
}

// Day returns what an agent has used on a day, by account.
func (l *Ledger) Day(ctx context.Context, path string, at time.Time) (map[string]Sum, error) {
	var w write
	d := read[day](ctx, l, &w, dayKey(dateOf(at), path))
	if w.err != nil {
		return nil, fmt.Errorf("reading what %s has used: %w", path, w.err)
	}
	return d.sums(), nil
}

// OfTask returns what all runs that have worked at a task have used.
func (l *Ledger) OfTask(ctx context.Context, id string) (Sum, error) {
	var w write
	t := read[taskSum](ctx, l, &w, taskKey(id))
	if w.err != nil {
		return Sum{}, fmt.Errorf("reading what task %s has used: %w", id, w.err)
	}
	return t.Sum, nil
}

// OfAttempts returns what the attempts at a task have used, by their numbers. Those of which nothing is counted are
// missing.
func (l *Ledger) OfAttempts(ctx context.Context, id string) (map[int]Sum, error) {
	all := map[int]Sum{}
	for r, err := range store.All(ctx, l.Store, attemptsKey(id)) {
		if err != nil {
			return nil, fmt.Errorf("reading what the attempts at task %s have used: %w", id, err)
		}
		var a attemptSum
		switch err := json.Unmarshal(r.Value, &a); {
		case err != nil:
			l.Logger.Warn("cannot read a record of the ledger", "key", r.Key, "error", err)
		case a.Task == id:
			all[a.Attempt] = a.Sum
		}
	}
	return all, nil
}

package cost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
)

// Options connect a Ledger with the rest of the daemon.
type Options struct {
	Store  store.Store
	Logger *slog.Logger
	// Owner returns the pool that an agent is an instance of, and the name of its account.
	Owner func(path string) (pool, account string)
	// Task returns the ID of the task of an incarnation; empty if it has none, or several. attempt is the number of
	// its only attempt at that; 0 if there are several.
	Task func(path string, incarnation uint64) (id string, attempt int)
	// Counted is called after calls or runs of an agent were counted; it may be nil.
	Counted func(ctx context.Context, path string, incarnation uint64)
	// Added is called once for each call that was written, and for each run that has ended. It must not block, and
	// may be nil. What was written although the store could not say so is missing.
	Added func(Used)
	// Event returns the operation that writes an event: a CostCounted for each call. It may be nil.
	Event func(event.Event) store.Op
	// Go runs a function in the background, with a context that ends with the daemon.
	Go func(func(context.Context))
}

// Ledger counts the calls of language models in a store. New makes it.
type Ledger struct {
	Options
	sessions atomic.Int64  // in the store, about
	crowded  chan struct{} // has a token if there are too many sessions
	progress progress
}

// New returns a Ledger. It reads the store when it needs it.
func New(o Options) *Ledger {
	return &Ledger{
		Options: o, crowded: make(chan struct{}, 1), progress: progress{runs: map[string]running{}},
	}
}

// Prefixes of the records.
const (
	dayPrefix     = "cost/day"
	sessionPrefix = "cost/session"
	taskPrefix    = "cost/task"
	attemptPrefix = "cost/attempt"
	runPrefix     = "cost/run"
)

// maxSegment bounds what a key has after its prefix, in bytes.
const maxSegment = store.MaxKey - 100

func dayKey(date, path string) string { return key(dayPrefix+"/"+date, store.PathKey(path)) }
func runKey(path string) string       { return key(runPrefix, store.PathKey(path)) }
func taskKey(id string) string        { return key(taskPrefix, url.PathEscape(id)) }
func attemptsKey(id string) string    { return key(attemptPrefix, url.PathEscape(id)) }
func attemptKey(id string, n int) string {
	return fmt.Sprintf("%s/%09d", attemptsKey(id), n)
}
func (s session) key() string {
	return key(sessionPrefix, url.PathEscape(string(s.CLI))+"/"+url.PathEscape(s.ID))
}

// key returns the key of a record. A name that is too long is replaced with its hash; nothing is read from a key.
func key(prefix, name string) string {
	if len(name) > maxSegment {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return prefix + "/" + name
}

// total is what a session has used.
type total struct {
	session
	At    time.Time       `json:"at"`
	Usage agentcli.Models `json:"usage"`
}

// taskSum adds up all runs that have worked at a task.
type taskSum struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
	Sum
}

// attemptSum adds up the runs of an attempt at a task.
type attemptSum struct {
	Task    string    `json:"task"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Sum
}

// Pauses between tries to write.
const (
	minPause = time.Millisecond
	maxPause = 100 * time.Millisecond
)

// Count counts those calls of a run that are not counted yet, and the run itself when it has ended. After an error it
// can be called again: each call is counted once.
func (l *Ledger) Count(ctx context.Context, r Run) (err error) {
	counted := false // perhaps
	pause := minPause
	defer func() {
		if !counted {
			return
		}
		l.progress.count(r.Agent, r.Incarnation)
		if l.Counted != nil {
			l.Counted(ctx, r.Agent, r.Incarnation)
		}
	}()
	for {
		more, err := l.countNext(ctx, r)
		counted = counted || more
		switch {
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrUnknown):
			// It may have been written, or be written yet. The next try reads what is there, and its conditions
			// exclude that both are.
			select {
			case <-time.After(pause):
				pause = min(2*pause, maxPause)
				continue
			case <-ctx.Done():
			}
			fallthrough
		case err != nil:
			return fmt.Errorf("counting the calls of %s: %w", r.Agent, err)
		case !more:
			return nil
		}
		pause = minPause
	}
}

// countNext counts the next call of a run that is not counted, and reports whether there was one. The run itself is
// counted with its last call.
func (l *Ledger) countNext(ctx context.Context, r Run) (more bool, err error) {
	var w write
	m := read[mark](ctx, l, &w, runKey(r.Agent))
	number, now := m.counted(r.ID), time.Now()
	if w.err != nil || number >= r.items() {
		return false, w.err
	}
	var e Entry
	var a amount
	var s session
	switch gone := int64(max(0, r.Dropped)); {
	case number < gone:
		e, a, number = r.entry(agentcli.Record{}, now), dropped(gone-number), gone
	case number < r.calls():
		e = r.entry(r.Calls[number-gone], now)
		a, number = l.settle(ctx, &w, &s, e, now), number+1
	default:
		e = r.entry(agentcli.Record{Ended: r.Ended}, now)
	}
	if number == r.calls() && r.items() > number {
		a, number = a.plus(r.itself()), number+1
	}
	e.Pool, e.Account = l.Owner(r.Agent)
	attempt := r.Attempt
	if e.Task == "" && r.Incarnation > 0 {
		e.Task, attempt = l.Task(r.Agent, r.Incarnation)
	}
	if date := dateOf(e.At); date >= oldest(now) {
		key := dayKey(date, r.Agent)
		d := read[day](ctx, l, &w, key)
		d.Agent = r.Agent
		w.put(key, d.add(e, a))
	}
	if e.Task != "" {
		key := taskKey(e.Task)
		t := read[taskSum](ctx, l, &w, key)
		w.put(key, taskSum{e.Task, now, t.Plus(a.sum())})
	}
	if e.Task != "" && attempt > 0 {
		key := attemptKey(e.Task, attempt)
		t := read[attemptSum](ctx, l, &w, key)
		w.put(key, attemptSum{e.Task, attempt, now, t.Plus(a.sum())})
	}
	w.put(runKey(r.Agent), m.next(r, number, a, s, now))
	if l.Event != nil && a.Calls > 0 {
		w.ops = append(w.ops, l.Event(e.event(a, r.Incarnation, attempt)))
	}
	if w.err == nil {
		_, w.err = l.Store.Apply(ctx, store.Fence{}, w.conds, w.ops)
	}
	if w.err == nil && l.Added != nil {
		l.Added(e.used(a))
	}
	return true, w.err
}

// settle returns what a call counts, and stores the total of its session, if it has one.
func (l *Ledger) settle(ctx context.Context, w *write, s *session, e Entry, now time.Time) amount {
	if e.Session == "" || e.CLI == "" || e.Tokens == nil {
		a, _ := e.amount(nil)
		return a
	}
	*s = session{e.CLI, e.Session}
	before := len(w.conds)
	t := read[total](ctx, l, w, s.key())
	if w.conds[before].Rev == 0 && l.sessions.Add(1) > mostTotals {
		select {
		case l.crowded <- struct{}{}:
		default:
		}
	}
	a, usage := e.amount(t.Usage)
	w.put(s.key(), total{*s, now, usage})
	return a
}

// write is a step that changes records on the condition that they are as they were read.
type write struct {
	conds []store.Cond
	ops   []store.Op
	err   error // the first one
}

// read reads a record for a write. One that cannot be decoded is replaced.
func read[T any](ctx context.Context, l *Ledger, w *write, key string) (v T) {
	r, err := store.Get(ctx, l.Store, key)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.conds = append(w.conds, store.Cond{Key: key, Rev: r.Rev})
	if r.Key != "" {
		if err := json.Unmarshal(r.Value, &v); err != nil {
			l.Logger.Warn("cannot read a record of the ledger", "key", key, "error", err)
			return *new(T)
		}
	}
	return v
}

func (w *write) put(key string, v any) {
	value, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.ops = append(w.ops, store.Op{Kind: store.Put, Key: key, Value: value})
}

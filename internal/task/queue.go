package task

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// Options are what a Queue is made of.
type Options struct {
	Store store.Store
	// Prefix is where the tasks are in the store; "work" if empty.
	Prefix string
	// Name is what the ids of new tasks begin with: that of the project.
	Name string
	// MaxClaims is how many claims of a task that states no number of its own
	// may fail before the task is parked; 0 is no limit. spec.DefaultMaxClaims if nil.
	MaxClaims func() int
	// Also returns what is to be written in one step with something that has
	// happened; it may be nil. It must be quick, and not call the queue.
	Also   func(Event) []store.Op
	Logger *slog.Logger // slog.Default() if nil
}

// Event is something that has happened to a task.
type Event struct {
	Kind Kind
	Task Task // afterwards
	By   Who
	Held *Holder // who had claimed it, before
	// Of is how many tasks it happened to, where it is more than one.
	Of   int
	Note string // in words; may be empty
}

// Kind is what has happened.
type Kind string

// All of them.
const (
	Created   Kind = "created"
	Edited    Kind = "edited"
	Commented Kind = "commented"
	Claimed   Kind = "claimed"
	Released  Kind = "released"
	Ended     Kind = "closed"
	Withheld  Kind = "parked"
	Reopened  Kind = "reopened"
	Imported  Kind = "imported" // Of tasks at once
	Purged    Kind = "purged"   // Of tasks at once
)

// Queue is all tasks of a project. Its methods may be called by many goroutines
// at once. Those that change something return when that is durable, with the
// errors of this package or those of the store; after store.ErrUnknown it may
// have been done.
type Queue struct {
	o      Options
	prefix string // of ids
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // holds a token while there is something to write
	ended  chan struct{}
	// importing holds a token while beads are imported.
	importing chan struct{}

	mu      sync.Mutex
	index   index
	lives   map[string]Life // of agents
	ends    map[string]end  // of their last incarnations that have ended
	number  uint64          // the last that was given
	waiting map[place]*waitingLine
	alarm   *time.Timer   // set while somebody waits and tasks wait for their time
	alarmAt time.Time     // the first such time
	pending []*step       // decided, and not durable yet
	loaded  chan struct{} // nil; or closed when what is held is what is stored again
	closed  bool
	bad     map[string]bool // keys of records that cannot be read

	// The writer's own.
	nonce     string
	writes    uint64
	markerRev store.Rev
}

// OpenQueue reads what there is to do. No incarnation lives until Begin says so: call
// Sweep once all that live are known.
func OpenQueue(ctx context.Context, o Options) (*Queue, error) {
	o.Prefix = cmp.Or(o.Prefix, "work")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxClaims == nil {
		o.MaxClaims = func() int { return spec.DefaultMaxClaims }
	}
	if o.Also == nil {
		o.Also = func(Event) []store.Op { return nil }
	}
	q := &Queue{
		o: o, prefix: idPrefix(o.Name), wake: make(chan struct{}, 1), ended: make(chan struct{}),
		importing: make(chan struct{}, 1),
		index:     *newIndex(), lives: make(map[string]Life), ends: make(map[string]end),
		waiting: make(map[place]*waitingLine), bad: make(map[string]bool), nonce: rand.Text(),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	if err := q.load(ctx); err != nil {
		q.cancel()
		return nil, fmt.Errorf("opening the tasks: %w", err)
	}
	go q.write()
	return q, nil
}

// Close ends the queue. What is not durable by then is refused.
func (q *Queue) Close() {
	q.cancel()
	<-q.ended
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.alarm != nil {
		q.alarm.Stop()
	}
}

func (q *Queue) markerKey() string           { return q.o.Prefix + "/marker" }
func (q *Queue) recordKey(id string) string  { return q.o.Prefix + "/tasks/" + id }
func (q *Queue) textKey(id string) string    { return q.o.Prefix + "/texts/" + id }
func (q *Queue) broughtKey(id string) string { return q.o.Prefix + "/brought/" + id }
func (q *Queue) commentsKey(id string) string {
	return q.o.Prefix + "/comments/" + id
}
func (q *Queue) commentKey(id string, n int) string {
	return fmt.Sprintf("%s/%04d", q.commentsKey(id), n)
}

// load makes what is held what is stored. Nothing is pending meanwhile.
func (q *Queue) load(ctx context.Context) error {
	// The marker comes first: what is written after it was read makes the next
	// write of this queue conflict.
	m, err := q.readMarker(ctx)
	if err != nil {
		return err
	}
	x := newIndex()
	x.advance(time.Now())
	number := m.number
	for after := ""; ; {
		records, _, err := q.o.Store.Scan(ctx, q.o.Prefix+"/tasks", after, 0)
		if err != nil {
			return fmt.Errorf("reading %s/tasks: %w", q.o.Prefix, err)
		}
		if len(records) == 0 {
			break
		}
		for _, stored := range records {
			r, err := q.decode(stored)
			if err != nil {
				q.complain(stored.Key, err)
				continue
			}
			number = max(number, r.Number)
			x.set(r.ID, r)
		}
		after = records[len(records)-1].Key
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.markerRev, q.number, q.index = m.rev, max(number, q.number), *x
	q.index.lined = q.stir
	q.stirAll()
	if q.loaded != nil {
		close(q.loaded)
		q.loaded = nil
	}
	return nil
}

// decode reads a record. One that cannot be read costs itself alone: it stays
// where it is, and the logger hears of it.
func (q *Queue) decode(stored store.Record) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(stored.Value, r); err != nil {
		return nil, err
	}
	if q.recordKey(r.ID) != stored.Key {
		return nil, fmt.Errorf("it says that it is task %q", r.ID)
	}
	r.Ready, r.WaitsFor = false, nil
	switch r.Status {
	case Open, InProgress, Blocked, Deferred, Parked, Closed:
	default: // of a later version: nobody can do anything about it before that
		q.complain(stored.Key, fmt.Errorf("its status is %q", r.Status))
		r.Status = Blocked
	}
	return r, nil
}

// complain tells of a bad record, once.
func (q *Queue) complain(key string, err error) {
	q.mu.Lock()
	told := q.bad[key]
	q.bad[key] = true
	q.mu.Unlock()
	if !told {
		q.o.Logger.Warn("the record of a task cannot be read and is left alone", "key", key, "error", err)
	}
}

// find is the task that an id means, whose beginning may be left out.
func (q *Queue) find(id string) (*record, error) {
	for _, full := range []string{id, q.prefix + "-" + id} {
		if r := q.index.get(full); r != nil {
			return r, nil
		}
	}
	if err := CheckID(id); err != nil {
		return nil, fmt.Errorf("%w: %.100q", ErrNotFound, id)
	}
	return nil, fmt.Errorf("%w: %s; it never existed or was removed", ErrNotFound, id)
}

// alive reports ErrStale unless a person asks, or the incarnation that lives.
func (q *Queue) alive(who Who) error {
	if life := q.lives[who.Path]; !who.Person() && (life.Incarnation != who.Incarnation || who.Incarnation == 0) {
		return fmt.Errorf("%w: it is %d of %s", ErrStale, who.Incarnation, who.Path)
	}
	return nil
}

// event adds what is to be told of a change to its step.
func (s *step) event(kind Kind, before, r *record, by Who, note string) {
	e := Event{Kind: kind, Task: s.q.index.shown(r), By: by, Note: note}
	if before != nil {
		e.Held = before.Claim
	}
	s.also(s.q.o.Also(e)...)
}

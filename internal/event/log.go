package event

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Config configures a Log. Only Store is required.
type Config struct {
	Store store.Store
	// Prefix is where the events are in the store; "events" if empty.
	Prefix string
	// Writer names this log among all that write to the same prefix, such as
	// the node; "local" if empty. No two may be open with one name.
	Writer string
	// Epoch names the history of the store, so that readers notice when it is another one.
	// It is asked at each query, since the store may be repaired meanwhile; "" if nil.
	Epoch func() string
	// MaxAge and MaxBytes bound what is kept; 0 is no bound. Only one of several
	// writers should set them.
	MaxAge   time.Duration
	MaxBytes int64
	// MaxBuffer is how many bytes of events are held in memory while the store
	// takes none; 8 MiB if 0. The oldest are dropped first.
	MaxBuffer int
	// Logger hears of trouble with the store; slog.Default() if nil.
	Logger *slog.Logger
}

// Pace of the log.
const (
	minRetry      = 50 * time.Millisecond // after a refusal of the store, doubled each time
	maxRetry      = 5 * time.Second
	degradedAfter = 3 * time.Second  // a pause so long is more than a moment
	pruneEvery    = time.Minute      // unless much was written
	minPause      = time.Millisecond // between two steps of pruning
	batchDelay    = 2 * time.Millisecond
)

// Log writes events to the store and reads them back. Open, Append, Close.
type Log struct {
	store  store.Store
	cfg    Config
	prefix string
	logger *slog.Logger

	ctx    context.Context // ends when Close gives up
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	buffer   []pending
	bytes    int    // of buffer
	writing  int    // events that the writer has taken and not yet written
	total    uint64 // events ever appended
	dropped  Dropped
	closing  bool
	err      error         // why the store takes no writes, nil if it does
	moved    chan struct{} // closed and replaced when something was written or dropped
	wake     chan struct{} // holds a token when there is something to do
	flushNow chan struct{} // holds a token when somebody waits for what is in the buffer

	// The rest belongs to the writer goroutine.
	marker    store.Record // the last batch of this writer, see write.go
	nonce     string
	batches   uint64
	degraded  time.Time // since when the store takes no writes
	reason    error     // and why
	retention *retention
}

// pending is an event on its way to the store.
type pending struct {
	value []byte
	time  time.Time
	with  []store.Op
}

// Open starts a log. It reads nothing yet, so it succeeds whatever state the store is in.
func Open(cfg Config) (*Log, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "events"
	}
	if cfg.Writer == "" {
		cfg.Writer = "local"
	}
	if cfg.MaxBuffer == 0 {
		cfg.MaxBuffer = 8 << 20
	}
	if cfg.Epoch == nil {
		cfg.Epoch = func() string { return "" }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	l := &Log{
		store: cfg.Store, cfg: cfg, prefix: cfg.Prefix, logger: cfg.Logger,
		ended: make(chan struct{}), batches: 1, moved: make(chan struct{}), wake: make(chan struct{}, 1),
		flushNow: make(chan struct{}, 1),
		nonce:    rand.Text(),
	}
	for _, key := range []string{l.prefix, l.markerKey(), l.prunedKey()} {
		if err := store.CheckKey(key); err != nil {
			return nil, fmt.Errorf("event log: %w", err)
		}
	}
	if len(cfg.Prefix) > maxPrefix {
		return nil, fmt.Errorf("event log: %w prefix: %d bytes, at most %d are allowed", store.ErrInvalid,
			len(cfg.Prefix), maxPrefix)
	}
	l.retention = &retention{log: l}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.loop()
	return l, nil
}

// Append puts an event into the log. It never waits for the disk, and it never
// fails: what the store does not take is kept in memory until it does, and what
// does not fit there is counted and reported by an EventsDropped. Call Sync to
// know that it is durable. After Close events go to the logger only.
//
// What comes with an event is written in the same step, so that what the
// store says of a thing and what the log says of it never differ. It is given
// up with the event. At most maxWith ops may come with one.
func (l *Log) Append(e Event, with ...store.Op) {
	e = e.normalise(time.Now())
	p := pending{e.record(), e.Time, with}
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		l.logger.Warn("event after the end of the log", "type", e.Type, "path", e.Path, "message", e.Message)
		return
	}
	l.total++
	l.buffer = append(l.buffer, p)
	l.bytes += size(p)
	n := 0
	for l.bytes > l.cfg.MaxBuffer && n < len(l.buffer)-1 {
		l.bytes -= size(l.buffer[n])
		l.drop(l.buffer[n])
		n++
	}
	l.buffer = l.buffer[n:]
	if n > 0 {
		l.broadcast()
	}
	full := l.bytes > batchBytes
	l.mu.Unlock()
	signal(l.wake)
	if full {
		signal(l.flushNow)
	}
}

// Op returns the op that appends an event to the log, for a caller that writes to the same
// store something that the event tells of: either both are there or none. What
// Append promises of a store that takes no writes does not hold for it.
func (l *Log) Op(e Event) store.Op {
	return store.Op{Kind: store.Append, Key: l.prefix, Value: e.normalise(time.Now()).record()}
}

// size returns the bytes of values that an event brings into the store.
func size(p pending) int {
	n := len(p.value)
	for _, op := range p.with {
		n += len(op.Key) + len(op.Value)
	}
	return n
}

// drop counts an event that is given up. The mutex is held.
func (l *Log) drop(p pending) {
	if l.dropped.Count == 0 {
		l.dropped.First = p.time
	}
	l.dropped.Count++
	l.dropped.Last = p.time
}

// Err is why the store takes no events at present, nil if it does.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Sync waits until all events appended before are durable, or dropped. It returns
// the store's error if ctx ends first.
func (l *Log) Sync(ctx context.Context) error {
	err := l.await(ctx, l.Mark(), false)
	if cause := l.Err(); err != nil && cause != nil && ctx.Err() != nil {
		return fmt.Errorf("events are not written: %w", cause)
	}
	return err
}

// Mark is a position in what has been appended, for SyncTo.
func (l *Log) Mark() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// SyncTo waits until the events appended before a Mark are durable, or
// dropped, as Sync does. It does not wait while the store takes no writes.
func (l *Log) SyncTo(ctx context.Context, mark uint64) error { return l.await(ctx, mark, true) }

// await waits until the events before a mark are written or dropped, or, if it is to
// fail fast, the store takes none.
func (l *Log) await(ctx context.Context, mark uint64, failFast bool) error {
	for {
		l.mu.Lock()
		done, moved, err := l.total-uint64(len(l.buffer)+l.writing) >= mark, l.moved, l.err
		l.mu.Unlock()
		if failFast && err != nil {
			return err
		}
		if done {
			return nil
		}
		signal(l.flushNow)
		select {
		case <-moved:
		case <-l.ended:
			return store.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Retain sets how long and how much is kept, instead of MaxAge and MaxBytes.
func (l *Log) Retain(maxAge time.Duration, maxBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.MaxAge, l.cfg.MaxBytes = maxAge, maxBytes
}

func (l *Log) bounds() (maxAge time.Duration, maxBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.MaxAge, l.cfg.MaxBytes
}

// Close writes what is left, for as long as ctx allows, and ends the log. It
// returns an error if events were lost by that. The store stays open.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	signal(l.wake)
	signal(l.flushNow)
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.cancel()
		<-l.ended
	}
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := len(l.buffer) + l.writing; left > 0 {
		return fmt.Errorf("%d events were not written: %w", left, l.err)
	}
	return nil
}

func (l *Log) markerKey() string { return l.prefix + "-writer/" + l.cfg.Writer }
func (l *Log) prunedKey() string { return l.prefix + "-pruned" }

// signal puts a token into a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// broadcast wakes those who wait in Sync and SyncTo. The mutex is held.
func (l *Log) broadcast() {
	close(l.moved)
	l.moved = make(chan struct{})
}

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
	// Prefix is the key of the events in the store; "events" if empty.
	Prefix string
	// Writer names this log among all logs that write to the same prefix, such as the name of the
	// node; "local" if empty. Two open logs must not have the same name.
	Writer string
	// Epoch returns the ID of the history of the store, so readers notice when it is replaced. It
	// is called for each query, since the store may be repaired meanwhile. The epoch is "" if
	// nil.
	Epoch func() string
	// MaxAge and MaxBytes limit the events that are kept; 0 is no limit. If several logs write to
	// the same prefix, only one should set them.
	MaxAge   time.Duration
	MaxBytes int64
	// MaxBuffer is the number of bytes of events that are held in memory while the store accepts
	// no writes; 8 MiB if 0. The oldest events are dropped first.
	MaxBuffer int
	// Logger gets problems with the store; slog.Default() if nil.
	Logger *slog.Logger
}

// Timing of the log.
const (
	minRetry      = 50 * time.Millisecond // after a failed write, doubled each time
	maxRetry      = 5 * time.Second
	degradedAfter = 3 * time.Second      // the retry delay from which a passing error counts as an outage
	pruneEvery    = time.Minute          // unless much was written
	minPause      = time.Millisecond     // between two steps of pruning
	batchDelay    = 2 * time.Millisecond // see waitForBatch

	burstDelay   = 10 * time.Millisecond
	burstBatches = 4
)

// Log writes events to the store and reads them back.
type Log struct {
	store  store.Store
	cfg    Config
	prefix string
	logger *slog.Logger

	ctx    context.Context // ends when Close stops waiting
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	buffer   []pending
	bytes    int    // of buffer
	writing  int    // events that the writer has taken and not written yet
	total    uint64 // events ever appended
	dropped  Dropped
	closing  bool
	err      error         // the reason why the store accepts no writes, or nil
	moved    chan struct{} // closed and replaced when events were written or dropped
	wake     chan struct{} // holds a token when there is something to do
	flushNow chan struct{} // holds a token when a caller waits for the buffer to be written

	batchOps, batchBytes int // see bounds

	// The rest is used only by the writer goroutine.
	marker    store.Record // the last batch of this writer, see write.go
	nonce     string
	batches   uint64
	written   time.Time // end of the last batch
	inRow     int       // batches in a row that began less than 2*batchDelay after the one before
	degraded  time.Time // start of the outage of the store; zero if there is none
	reason    error     // and its cause
	retention *retention
}

// pending is an event that is not written yet.
type pending struct {
	value []byte
	time  time.Time
	with  []store.Op
}

// Open starts a log. It does not read the store, so it succeeds whatever state the store is in.
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
	l.batchOps, l.batchBytes = bounds(cfg.Store)
	l.retention = &retention{log: l}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.loop()
	return l, nil
}

// Append adds an event to the log. It never waits for the disk, and it never fails. Events that
// the store does not accept are kept in memory until it does. Events that do not fit there are
// counted and reported by an EventsDropped. Call Sync to know that an event is durable. After
// Close, events go only to the logger.
//
// The ops in with are written in the same step, so the store and the log never differ. They are
// dropped with the event. Each must fit into a batch with its event.
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
	full := l.bytes > l.batchBytes
	l.mu.Unlock()
	signal(l.wake)
	if full {
		signal(l.flushNow)
	}
}

// Op returns the op that appends an event to the log, for a caller that writes related records in
// the same step. Unlike Append, it does not keep the event while the store accepts no writes.
func (l *Log) Op(e Event) store.Op {
	return store.Op{Kind: store.Append, Key: l.prefix, Value: e.normalise(time.Now()).record()}
}

// size returns the number of bytes that an event adds to the store, with its ops.
func size(p pending) int {
	n := len(p.value)
	for _, op := range p.with {
		n += len(op.Key) + len(op.Value)
	}
	return n
}

// drop counts an event as dropped. Needs mu.
func (l *Log) drop(p pending) {
	if l.dropped.Count == 0 {
		l.dropped.First = p.time
	}
	l.dropped.Count++
	l.dropped.Last = p.time
}

// Err returns the reason why the store accepts no events at present, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Sync waits until all events appended before it are durable or dropped. It returns the error of
// the store if ctx ends first.
func (l *Log) Sync(ctx context.Context) error {
	err := l.await(ctx, l.Mark(), false)
	if cause := l.Err(); err != nil && cause != nil && ctx.Err() != nil {
		return fmt.Errorf("events are not written: %w", cause)
	}
	return err
}

// Mark returns the current position in the appended events, for SyncTo.
func (l *Log) Mark() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Moved returns a channel that is closed when appended events were written or dropped, or when the store no longer
// accepts any.
func (l *Log) Moved() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// SyncTo waits until the events appended before a Mark are durable or dropped. Unlike Sync, it
// returns immediately while the store accepts no writes.
func (l *Log) SyncTo(ctx context.Context, mark uint64) error { return l.await(ctx, mark, true) }

// await waits until the events before a mark are written or dropped. With failFast it also
// returns if the store accepts no writes.
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

// Retain replaces MaxAge and MaxBytes of the Config.
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

// Close writes the remaining events, for as long as ctx allows, and stops the log. It returns an
// error if events were lost. The store stays open.
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

// broadcast wakes the callers that wait in Sync and SyncTo. Needs mu.
func (l *Log) broadcast() {
	close(l.moved)
	l.moved = make(chan struct{})
}

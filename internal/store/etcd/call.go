package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

const (
	minPause = 20 * time.Millisecond // before the next attempt, doubled each time
	maxPause = 500 * time.Millisecond
)

// conn makes calls to etcd, bounded in time, until it is stopped.
type conn struct {
	keys
	client *rpc.Client
	where  string // for people
	user   string // likewise

	closing chan struct{}   // closed when stop begins
	ctx     context.Context // of calls; ends when stop no longer waits for them
	cancel  context.CancelFunc
	mu      sync.Mutex // guards the start of calls
	closed  bool
	calls   sync.WaitGroup // calls and goroutines
}

func newConn(k keys, where, user string) *conn {
	c := &conn{keys: k, where: where, user: user, closing: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// enter begins a call of a method, unless the store is closed; the caller ends it with calls.Done.
func (c *conn) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return store.ErrClosed
	}
	c.calls.Add(1)
	return nil
}

// stop ends all calls, after farewell if etcd does not answer, and reports whether this is the first time.
func (c *conn) stop() (first bool) {
	c.mu.Lock()
	first = !c.closed
	if c.closed = true; first {
		close(c.closing)
	}
	c.mu.Unlock()
	if !first {
		c.calls.Wait()
		return false
	}
	late := time.AfterFunc(farewell, c.cancel)
	c.calls.Wait()
	late.Stop()
	c.cancel()
	return true
}

// retry makes a call that may be repeated until a member answers, patience is over, ctx ends or the store is closed.
// Only calls that are not streams are known to be sent.
func (c *conn) retry(ctx context.Context, call func(context.Context) error) error {
	begun := time.Now()
	var noted sent
	noting := rpc.NoteSent(ctx, &noted.Bool)
	var why error // what says most of the errors so far
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := c.attempt(noting, call)
		if err == nil || !passing(err) {
			return err
		}
		if why == nil || !rpc.IsVague(err) {
			why = err
		}
		if noted.isOver(begun, pause) {
			return unavailable(why)
		}
		if err := c.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// attempt makes a call once, bounded in time. It ends at once when ctx or the store does.
func (c *conn) attempt(ctx context.Context, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	err := call(bounded)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case c.ctx.Err() != nil:
		return store.ErrClosed
	}
	return err
}

// pause waits between two attempts. It fails if ctx ends or the store is closed meanwhile.
func (c *conn) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return store.ErrClosed
	}
}

// current returns the current revision.
func (c *conn) current(ctx context.Context) (rev int64, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		resp, err := c.client.Get(ctx, rpc.Get{Key: c.prefix + "format", KeysOnly: true})
		if err == nil {
			rev = resp.Revision
		}
		return err
	})
	return rev, err
}

// revoke gives a lease of etcd back in the background. Without an answer it expires.
func (c *conn) revoke(id rpc.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.calls.Go(func() {
		_ = c.retry(c.ctx, func(ctx context.Context) error { return c.client.Revoke(ctx, id) })
	})
}

// sent tells whether a request has been given to a connection, so that a member may have got it.
type sent struct{ atomic.Bool }

// isOver reports whether a call that began then gives up before another pause.
func (s *sent) isOver(begun time.Time, pause time.Duration) bool {
	limit := patience
	if !s.Load() {
		limit = unreachable
	}
	return time.Since(begun)+pause > limit
}

// passing reports whether a call failed in a way that another attempt, with another member, may not.
func passing(err error) bool {
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted:
		return true
	case codes.ResourceExhausted:
		return errors.Is(err, rpc.ErrTooManyRequests)
	case codes.Internal, codes.Unknown:
		return true // connections that break in the middle of an answer, and members that are stopping
	}
	return false // also for all errors of this program
}

// errMissing is the error for an answer without a key that must be there. Another attempt may help.
var errMissing = rpc.Error{Code: codes.Internal, Text: "malformed answer of etcd: a key is missing"}

// code returns that of a call, or codes.OK for an error of this program.
func code(err error) codes.Code {
	var e rpc.Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return codes.OK
}

// unavailable returns the error for a call to which no member has given an answer.
func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// unknown returns store.ErrUnknown with a reason. It wraps no other error of package store, such as ErrUnavailable,
// which would say that nothing was done.
func unknown(err error) error { return fmt.Errorf("%w: %s", store.ErrUnknown, err.Error()) }

// told is an error with a text for people in place of its own.
type told struct {
	text string
	err  error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.err }

// forbidden returns the error for a user who may not do what a fleet needs.
func (c *conn) forbidden(err error) error {
	return told{fmt.Sprintf("etcd forbids it: %s needs a role that may read and write all keys that begin with %s; "+
		"etcdctl role grant-permission --prefix=true ROLE readwrite %s", c.user, c.prefix, c.prefix), err}
}

// translate returns the error of a store for one of etcd.
func (c *conn) translate(doing string, err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFenced),
		errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrHeld):
		return err
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknown):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, rpc.ErrNoSpace):
		err = fmt.Errorf("%w: etcd has reached its quota: compact and defragment it, raise --quota-backend-bytes, and "+
			"clear its alarm with etcdctl alarm disarm", store.ErrFull)
	case errors.Is(err, rpc.ErrTooManyOps):
		err = fmt.Errorf("%w: start etcd without --max-txn-ops, or with at least %d", err, needOps)
	case errors.Is(err, rpc.ErrRequestTooLarge):
		err = fmt.Errorf("%w: start etcd without --max-request-bytes, or with at least its default, 1.5 MiB", err)
	case errors.Is(err, rpc.ErrAuthFailed):
		err = told{fmt.Sprintf("etcd has no %s with this password; correct the file of the password, and on a node "+
			"of a fleet run coppice cluster init --store URL again", c.user), err}
	case errors.Is(err, rpc.ErrUserEmpty):
		err = told{"etcd wants a user; write its name and @ before the members, and add ?password_file=FILE", err}
	case code(err) == codes.PermissionDenied, code(err) == codes.Unauthenticated:
		err = c.forbidden(err)
	}
	return fmt.Errorf("%s %s: %w", doing, c.where, err)
}

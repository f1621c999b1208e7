package etcd

import (
	"context"
	"errors"
	"fmt"
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

// retry makes a call that may be repeated until a member answers, patience is over, ctx ends or the store is closed.
// Only calls that are not streams are known to be sent.
func (s *Store) retry(ctx context.Context, call func(context.Context) error) error {
	begun := time.Now()
	var noted sent
	noting := rpc.NoteSent(ctx, &noted.Bool)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := s.attempt(noting, call)
		if err == nil || !passing(err) {
			return err
		}
		if noted.isOver(begun, pause) {
			return unavailable(err)
		}
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// attempt makes a call once, bounded in time. It ends at once when ctx or the store does.
func (s *Store) attempt(ctx context.Context, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := call(bounded)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.ctx.Err() != nil:
		return store.ErrClosed
	}
	return err
}

// pause waits between two attempts. It fails if ctx ends or the store is closed meanwhile.
func (s *Store) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return store.ErrClosed
	}
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

// translate returns the error of a store for one of etcd.
func (s *Store) translate(doing string, err error) error {
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
	case code(err) == codes.PermissionDenied, code(err) == codes.Unauthenticated,
		errors.Is(err, rpc.ErrAuthFailed), errors.Is(err, rpc.ErrUserEmpty):
		err = fmt.Errorf("%w: the user needs a role that may read and write all keys that begin with %s", err, s.prefix)
	}
	return fmt.Errorf("%s %s: %w", doing, s.where, err)
}

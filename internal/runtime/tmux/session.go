package tmux

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

// session is one incarnation.
type session struct {
	slot   *slot
	notify *ready.NotifySocket // nil if it has none
	news   chan struct{}       // gets a value when a report must be saved
	ready  chan struct{}       // closed when it is ready or has ended
	done   chan struct{}       // closed when its end is certain
	killed context.Context     // done when Kill was called, or the runtime is closed
	cancel context.CancelFunc

	mu        sync.Mutex
	rec       *record // only Ready and Asked change
	end       *wire.End
	unknown   string // why it is unknown how it ended
	failure   error  // why it was ended before it was ready
	kin       []proc.Identity
	stopped   bool        // Stop was called
	killTimer *time.Timer // from Stop to Kill
	input     time.Time   // of the last Write
}

var _ runtime.Session = (*session)(nil)

func newSession(s *slot, rec *record) *session {
	ses := &session{slot: s, rec: rec, ready: make(chan struct{}), done: make(chan struct{}),
		news: make(chan struct{}, 1)}
	ses.killed, ses.cancel = context.WithCancel(s.r.Ctx)
	return ses
}

// live watches a running incarnation for its readiness and its end.
func (ses *session) live(condition *readiness) {
	ses.mu.Lock()
	isReady := ses.rec.Ready
	if isReady {
		close(ses.ready)
	}
	ses.mu.Unlock()
	ses.slot.r.addSession(ses)
	if ses.notify != nil {
		ses.notify.Listen(ses.rec.Agent.PID)
		if !ses.slot.r.Background(ses.saveNotices) {
			ses.notify.Leave()
		}
	}
	ses.slot.r.Background(ses.watch)
	if !isReady {
		ses.slot.r.Background(func() { ses.awaitCondition(condition) })
	}
}

// Pauses between tries to find out how an incarnation ended.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// watch waits for the end of the agent's process and determines how it ended.
func (ses *session) watch() {
	r := ses.slot.r
	for {
		err := ses.rec.Agent.AwaitDeath(r.Ctx)
		if r.Ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		// No pidfd, for lack of descriptors or on an old kernel.
		if !r.pause(lastRetry) {
			return
		}
	}
	seen := time.Now()
	if ses.notify != nil {
		ses.notify.Leave() // receives its last messages
	}
	ses.awaitRest()
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		end, err := ses.findEnd(seen)
		if err == nil {
			ses.finish(end)
			return
		}
		ses.mu.Lock()
		ses.unknown = err.Error()
		ses.mu.Unlock()
		if !r.pause(pause) {
			return
		}
	}
}

// pause waits for some time and reports whether the runtime is still open then.
func (r *Runtime) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.Ctx.Done():
		return false
	}
}

// findEnd determines how the incarnation ended.
func (ses *session) findEnd(seen time.Time) (*wire.End, error) {
	ctx := ses.slot.r.Ctx
	ses.mu.Lock()
	asked, kin := ses.rec.Asked, ses.kin
	ses.mu.Unlock()
	for _, id := range kin {
		id.Signal(syscall.SIGKILL)
	}
	unlock, err := ses.slot.lock(ctx)
	if wire.IsMissing(err) { // the slot was removed, so nothing runs in it
		return wire.NewLost(err, seen), nil
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := ses.slot.inspect(ctx, seen, asked)
	switch {
	case err != nil:
		return nil, err
	case f.rec == nil || f.rec.Incarnation != ses.rec.Incarnation:
		return wire.NewLost(errSuperseded, seen), nil
	case f.end == nil:
		return nil, errors.New("its process has ended, but another process is in its place")
	}
	return f.end, nil
}

// finish closes done.
func (ses *session) finish(end *wire.End) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if slots.IsClosed(ses.done) {
		return
	}
	if ses.failure != nil && !ses.rec.Asked.Stop {
		exit := end.Exit()
		if exit.Clean() || exit.Kind == supervisor.Killed {
			exit.Kind = supervisor.Failure
		}
		exit.Err = ses.failure
		end = wire.NewEnd(exit, end.At)
	}
	ses.end = end
	ses.cancel()
	if ses.killTimer != nil {
		ses.killTimer.Stop()
	}
	if !slots.IsClosed(ses.ready) {
		close(ses.ready)
	}
	close(ses.done)
	ses.slot.r.removeSession(ses)
}

// Done is part of runtime.Session.
func (ses *session) Done() <-chan struct{} { return ses.done }

func (ses *session) hasEnded() bool { return slots.IsClosed(ses.done) }

// Exit is part of runtime.Session.
func (ses *session) Exit() supervisor.Exit {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.end == nil {
		return supervisor.Exit{}
	}
	return ses.end.Exit()
}

// Observe returns what is known now, without asking tmux.
func (ses *session) Observe() runtime.Observation {
	r := ses.slot.r
	r.mu.Lock()
	serverError := r.serverError
	r.mu.Unlock()
	ses.mu.Lock()
	defer ses.mu.Unlock()
	o := ses.rec.observation()
	if ses.notify != nil {
		o.Said = ses.notify.Said()
	}
	switch {
	case ses.end != nil:
		o.Life, o.Exit, o.ExitedAt = runtime.Dead, ses.end.Exit(), ses.end.At
	case ses.unknown != "":
		o.Detail = ses.unknown
	case serverError != "":
		o.Detail = serverError
	default:
		o.Life, o.Ready, o.PID = runtime.Alive, ses.rec.Ready, ses.rec.Agent.PID
	}
	return *o
}

// AwaitReady is part of runtime.Session.
func (ses *session) AwaitReady(ctx context.Context) error {
	if err := ses.slot.r.Await(ctx, ses.ready); err != nil {
		return err
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.rec.Ready {
		return nil
	}
	return slots.NotReady(ses.end.Exit())
}

// StartReady is the second half of a start. A start that is given up is stopped and its end
// awaited.
func (ses *session) StartReady(ctx context.Context) error {
	err := ses.AwaitReady(ctx)
	if err == nil || ctx.Err() == nil {
		if errors.Is(err, slots.ErrClosed) {
			return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		}
		return err
	}
	ses.Stop()
	limit := ses.rec.grace()
	if limit < 0 {
		ses.Kill() // the caller does not wait any longer
		limit = 0
	}
	select {
	case <-ses.done:
		return fmt.Errorf("not ready: %w", err)
	case <-time.After(limit + supervisor.KillGrace):
	case <-ses.slot.r.Ctx.Done():
	}
	return fmt.Errorf("%w: start was given up (%w); unknown whether it has ended", runtime.ErrUnknown, err)
}

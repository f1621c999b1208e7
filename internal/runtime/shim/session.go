package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

// session is one incarnation. It keeps a connection to the shim while both run.
type session struct {
	slot   *slot
	number uint64
	grace  time.Duration // of a start that is given up
	ready  chan struct{} // closed when it is ready or has ended
	done   chan struct{} // closed when its end is certain

	mu         sync.Mutex
	state      wire.State
	said       sdnotify.Notice // reported by the agent
	link       *link
	changed    chan struct{} // closed and replaced when link changes
	unknown    string        // why its state is unknown now
	wanted     string        // Stop or Kill
	delivered  string
	delivers   bool               // a goroutine delivers
	stopGrace  time.Duration      // with a Stop, if it is longer than the grace period
	killing    time.Time          // time of the first Kill
	cancelStop context.CancelFunc // gives up waiting for the answer to a Stop; nil if no call waits
	dead       bool               // the agent was dead in the last probe
	asking     bool               // askShim runs
}

var _ runtime.Session = (*session)(nil)

func newSession(s *slot, number uint64) *session {
	return &session{
		slot: s, number: number, ready: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}),
		state: wire.State{Path: s.path, Incarnation: number},
	}
}

// connect gives the session a link.
func (ses *session) connect(l *link) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.hasEnded() {
		ses.slot.park(l)
		return
	}
	ses.link, ses.unknown = l, ""
	close(ses.changed)
	ses.changed = make(chan struct{})
	l.listen(ses.handle)
}

// watch handles the end of the link. If look is set, it first asks for the state of the shim.
func (ses *session) watch(l *link, look bool) {
	if look {
		ses.slot.r.Background(func() {
			if m, err := l.call(ses.slot.r.Ctx, wire.Message{Type: wire.Look}); err == nil && m.State != nil {
				ses.update(m.State)
			}
		})
	}
	l.onClose(func() {
		if !ses.hasEnded() {
			ses.recover(l)
		}
	})
}

// abandon detaches the session of a failed start from its link.
func (ses *session) abandon() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.link != nil {
		ses.link.listen(nil)
		ses.link = nil
	}
	ses.finish()
}

// finish forgets the process and closes done. Needs mu.
func (ses *session) finish() {
	if ses.hasEnded() {
		return
	}
	if !slots.IsClosed(ses.ready) {
		close(ses.ready)
	}
	ses.slot.r.owners.setAgent(ses.slot, ses.state.Agent, proc.Identity{})
	close(ses.done)
}

// handle processes a message of the shim about the state.
func (ses *session) handle(m *wire.Message) {
	switch {
	case m.Type == wire.Status && m.State != nil:
		ses.update(m.State)
	case m.Type == wire.Exited && m.End != nil:
		ses.mu.Lock()
		st := ses.state
		ses.mu.Unlock()
		st.Incarnation, st.End, st.Told, st.Said = m.Incarnation, m.End, m.Told, m.Said
		st.Ready = st.Ready || m.Ready
		ses.update(&st)
	case m.Type == wire.Said && m.Said != nil && m.Incarnation == ses.number:
		ses.mu.Lock()
		defer ses.mu.Unlock()
		ses.said = m.Said.Notice(time.Now())
	}
}

// update applies a state from the shim. It ignores a state after the end.
func (ses *session) update(st *wire.State) {
	ses.slot.awaitLines(st)
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.hasEnded() {
		return
	}
	if st.Incarnation != ses.number {
		if st.Incarnation > ses.number {
			ses.superseded()
		}
		return
	}
	ses.slot.setShim(st.Shim)
	ses.slot.setSession(ses)
	wasReady := ses.state.Ready
	ses.slot.r.owners.setAgent(ses.slot, ses.state.Agent, st.Agent)
	ses.state = *st
	if st.Said != nil {
		ses.said = st.Said.Notice(time.Now())
	}
	ses.state.Ready = st.Ready || wasReady
	switch {
	case st.End != nil:
		l := ses.link
		ses.link = nil
		if l != nil { // before the end is reported, because a successor starts immediately
			l.listen(nil)
			ses.slot.park(l)
		}
		ses.finish()
	case ses.state.Ready && !wasReady:
		close(ses.ready)
	}
}

// superseded ends a session whose end was missed, because another process has started the next
// incarnation. Needs mu.
func (ses *session) superseded() {
	if ses.hasEnded() {
		return
	}
	ses.state.End = wire.NewLost(errors.New("its slot was given to another incarnation"), time.Now())
	if l := ses.link; l != nil {
		ses.link = nil
		l.listen(nil)
		l.close(slots.ErrClosed)
	}
	ses.finish()
}

// recover finds out what happened to the incarnation after a link was lost.
func (ses *session) recover(old *link) {
	ses.mu.Lock()
	if ses.link == old {
		ses.link = nil
	}
	ses.unknown = old.cause().Error()
	ses.mu.Unlock()
	for {
		err := ses.slot.take(ses.slot.r.Ctx)
		if err == nil {
			err = ses.find()
			ses.slot.release()
		}
		if err == nil || ses.slot.r.Ctx.Err() != nil {
			return
		}
		ses.mu.Lock()
		ses.unknown = err.Error()
		ses.mu.Unlock()
		select {
		case <-time.After(time.Second):
		case <-ses.done:
			return
		case <-ses.slot.r.Ctx.Done():
			return
		}
	}
}

func (ses *session) find() error {
	if ses.hasEnded() {
		return nil
	}
	ctx := ses.slot.r.Ctx
	l, st, lock, err := ses.slot.find(ctx)
	if wire.IsMissing(err) { // the slot was removed, so nothing runs in it
		st, err = &wire.State{Incarnation: ses.number + 1}, ses.slot.killLeft(ctx)
	}
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.Close()
		if st, err = ses.slot.conclude(ctx); err != nil {
			return err
		}
		if st.Incarnation < ses.number { // the state could not be written, or is damaged
			st.Incarnation = ses.number
			st.End = wire.NewLost(wire.ErrShimEnded, time.Now())
		}
	}
	if st.Incarnation < ses.number { // another shim, which has not started anything yet
		ses.mu.Lock()
		ses.superseded()
		ses.mu.Unlock()
	}
	ses.update(st)
	if l != nil {
		if ses.hasEnded() {
			l.close(slots.ErrClosed)
			return nil
		}
		ses.connect(l)
		ses.watch(l, false)
	}
	return nil
}

// Done is part of runtime.Session.
func (ses *session) Done() <-chan struct{} { return ses.done }

func (ses *session) hasEnded() bool { return slots.IsClosed(ses.done) }

// Exit is part of runtime.Session.
func (ses *session) Exit() supervisor.Exit {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.state.End == nil {
		return supervisor.Exit{}
	}
	return ses.state.End.Exit()
}

// Observe returns what is known now, without asking the shim.
func (ses *session) Observe() runtime.Observation {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	o := observation(&ses.state)
	o.Said = ses.said
	if ses.state.End == nil && ses.unknown != "" {
		o.Life, o.Detail = runtime.Unknown, ses.unknown
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
	if ses.state.Ready {
		return nil
	}
	return slots.NotReady(ses.state.End.Exit())
}

// StartReady is the second half of a start. A start that is given up is stopped and its end
// awaited; the shim kills the agent after its grace period.
func (ses *session) StartReady(ctx context.Context) error {
	err := ses.AwaitReady(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	ses.Stop()
	select {
	case <-ses.done:
		return fmt.Errorf("not ready: %w", err)
	case <-time.After(ses.grace + killTimeout):
		ses.Kill()
	case <-ses.slot.r.Ctx.Done():
		return fmt.Errorf("%w: %w", runtime.ErrUnknown, slots.ErrClosed)
	}
	select {
	case <-ses.done:
		return fmt.Errorf("not ready: %w", err)
	case <-time.After(supervisor.KillGrace):
	case <-ses.slot.r.Ctx.Done():
	}
	return fmt.Errorf("%w: start was given up (%w); unknown whether it has ended", runtime.ErrUnknown, err)
}

// request sends the shim a request about this incarnation.
func (ses *session) request(ctx context.Context, m wire.Message) (*wire.Message, error) {
	ses.mu.Lock()
	l := ses.link
	ses.mu.Unlock()
	if ses.hasEnded() {
		return nil, runtime.ErrEnded
	}
	if l == nil {
		return nil, fmt.Errorf("%w: %w", runtime.ErrUnknown, errLinkLost)
	}
	m.Incarnation = ses.number
	a, err := l.call(ctx, m)
	switch {
	case errors.Is(err, errSilent):
		ses.mu.Lock()
		ses.unknown = err.Error()
		ses.mu.Unlock()
	case errors.Is(err, errLinkLost):
		err = fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	case err == nil:
		ses.mu.Lock()
		if ses.link == l {
			ses.unknown = ""
		}
		ses.mu.Unlock()
	}
	return a, err
}

// Signal sends a signal to the agent alone.
func (ses *session) Signal(ctx context.Context, sig syscall.Signal) error {
	_, err := ses.request(ctx, wire.Message{Type: wire.Signal, Signal: int(sig)})
	return err
}

// Write writes to the terminal or to stdin.
func (ses *session) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), wire.MaxData)
		if _, err := ses.request(ctx, wire.Message{Type: wire.Write, Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Resize changes the size of the terminal.
func (ses *session) Resize(ctx context.Context, rows, cols uint16) error {
	_, err := ses.request(ctx, wire.Message{Type: wire.Resize, Rows: rows, Cols: cols})
	return err
}

// LastActivity is part of runtime.Session.
func (ses *session) LastActivity(ctx context.Context) (time.Time, error) {
	a, err := ses.request(ctx, wire.Message{Type: wire.Look})
	if errors.Is(err, runtime.ErrEnded) {
		st, err := os.Stat(filepath.Join(ses.slot.dir, logfile.Name))
		if err != nil {
			return time.Time{}, nil
		}
		return st.ModTime(), nil
	}
	if err != nil {
		return time.Time{}, err
	}
	if a.State == nil {
		return time.Time{}, runtime.ErrUnknown
	}
	if a.State.Activity.Before(a.State.StartedAt) { // it belongs to an earlier incarnation, or there was none
		return a.State.StartedAt, nil
	}
	return a.State.Activity, nil
}

// killShim kills a shim that does not respond; the agent dies with it.
func (ses *session) killShim() {
	ses.mu.Lock()
	id := ses.state.Shim
	ses.mu.Unlock()
	if id != (proc.Identity{}) {
		ses.slot.r.log.Warn("shim does not respond; killing it with its agent", "path", ses.slot.path, "pid", id.PID)
		id.Signal(syscall.SIGKILL)
	}
}

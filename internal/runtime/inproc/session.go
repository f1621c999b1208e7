package inproc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/supervisor"
)

// session is one incarnation. Its end is set before done is closed.
type session struct {
	launch  runtime.Launch
	said    *said
	started time.Time
	cancel  context.CancelCauseFunc
	killed  atomic.Bool   // Kill was called
	ready   chan struct{} // closed by Runtime.Ready, which needs Runtime.mu
	done    chan struct{}
	exit    supervisor.Exit
	ended   time.Time
}

var _ runtime.Session = (*session)(nil)

// live runs the incarnation to its end.
func (s *session) live(ctx context.Context) {
	defer close(s.done)
	defer s.cancel(nil)
	s.exit = s.run(ctx)
	s.ended = time.Now()
	s.said.end(s.launch.Incarnation, s.exit)
}

var errStopped = errors.New("asked to stop")

func (s *session) run(ctx context.Context) (exit supervisor.Exit) {
	exit = supervisor.Exit{Kind: supervisor.Panicked, Err: supervisor.ErrGoexit} // stands unless Run returns
	defer func() {
		if v := recover(); v != nil {
			exit.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	switch err := s.launch.Run(ctx); {
	case err == nil:
		return supervisor.Exit{Kind: supervisor.Normal}
	case errors.Is(err, supervisor.ErrShutdown), ctx.Err() != nil && errors.Is(err, context.Canceled):
		return supervisor.Exit{Kind: supervisor.ShutDown}
	default:
		return supervisor.Exit{Kind: supervisor.Failure, Err: err}
	}
}

func (s *session) lives() bool { return !slots.IsClosed(s.done) }

func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Exit() supervisor.Exit {
	if s.lives() {
		return supervisor.Exit{}
	}
	return s.exit
}

func (s *session) Stop() { s.cancel(errStopped) }

// Kill asks once more, since a function cannot be forced to end.
func (s *session) Kill() {
	s.killed.Store(true)
	s.cancel(supervisor.ErrKilled)
}

func (s *session) Observe() runtime.Observation {
	o := runtime.Observation{
		Path: s.launch.Path, Incarnation: s.launch.Incarnation, SpecHash: s.launch.SpecHash, Token: s.launch.Token,
		StartedAt: s.started, Life: runtime.Alive, Ready: slots.IsClosed(s.ready),
	}
	if !s.lives() {
		o.Life, o.Ready, o.Exit, o.ExitedAt = runtime.Dead, false, s.exit, s.ended
	}
	return o
}

// AwaitReady is part of runtime.Session.
func (s *session) AwaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
	}
	switch {
	case slots.IsClosed(s.ready):
		return nil
	case s.exit.Err == nil:
		return slots.NotReady(s.exit)
	}
	return s.exit.Err
}

// unsupported returns an error that names the agent and what it lacks.
func (s *session) unsupported(what string) error {
	return fmt.Errorf("%s runs inside the daemon and has no %s: %w", s.launch.Path, what, runtime.ErrUnsupported)
}

// Signal is part of runtime.Session. TERM, INT and QUIT stop, KILL kills.
func (s *session) Signal(_ context.Context, sig syscall.Signal) error {
	switch {
	case !s.lives():
		return runtime.ErrEnded
	case sig == syscall.SIGKILL:
		s.Kill()
	case sig == syscall.SIGTERM, sig == syscall.SIGINT, sig == syscall.SIGQUIT:
		s.Stop()
	default:
		return s.unsupported("process that could be sent " + sig.String())
	}
	return nil
}

func (s *session) Write(context.Context, []byte) error { return s.unsupported("terminal to type into") }

func (s *session) Resize(context.Context, uint16, uint16) error { return s.unsupported("terminal") }

func (s *session) Attach(context.Context, runtime.Attachment) error {
	return s.unsupported("terminal; see what it says with: coppice logs -f " + s.launch.Path)
}

func (s *session) Peek(_ context.Context, n int) ([]string, error) {
	return logfile.Peek(s.said.file, n)
}

func (s *session) LastActivity(context.Context) (time.Time, error) { return s.said.activity(), nil }

func (s *session) Follow(ctx context.Context, grew func()) error {
	s.said.follow(ctx, s.done, grew)
	return nil
}

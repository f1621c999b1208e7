package job

import (
	"context"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// failedStart is the session of a command that could not be started.
type failedStart struct {
	err error
	at  time.Time
}

func (s failedStart) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
func (s failedStart) Exit() supervisor.Exit {
	return supervisor.Exit{Kind: supervisor.Failure, Err: s.err}
}
func (failedStart) Stop() {}
func (failedStart) Kill() {}
func (s failedStart) Observe() runtime.Observation {
	return runtime.Observation{Life: runtime.Dead, StartedAt: s.at, ExitedAt: s.at, Exit: s.Exit()}
}
func (s failedStart) AwaitReady(context.Context) error                { return s.err }
func (failedStart) Signal(context.Context, syscall.Signal) error      { return runtime.ErrEnded }
func (failedStart) Write(context.Context, []byte) error               { return runtime.ErrEnded }
func (failedStart) Resize(context.Context, uint16, uint16) error      { return runtime.ErrEnded }
func (failedStart) Peek(context.Context, int) ([]string, error)       { return nil, nil }
func (s failedStart) LastActivity(context.Context) (time.Time, error) { return s.at, nil }
func (failedStart) Attach(context.Context, runtime.Attachment) error  { return runtime.ErrEnded }
func (failedStart) Follow(context.Context, func()) error              { return runtime.ErrEnded }

package errand

import (
	"context"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

func (s stillborn) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
func (s stillborn) Exit() supervisor.Exit {
	return supervisor.Exit{Kind: supervisor.Failure, Err: s.err}
}
func (stillborn) Stop() {}
func (stillborn) Kill() {}
func (s stillborn) Observe() runtime.Observation {
	return runtime.Observation{Life: runtime.Dead, StartedAt: s.at, ExitedAt: s.at, Exit: s.Exit()}
}
func (s stillborn) AwaitReady(context.Context) error                { return s.err }
func (stillborn) Signal(context.Context, syscall.Signal) error      { return runtime.ErrEnded }
func (stillborn) Write(context.Context, []byte) error               { return runtime.ErrEnded }
func (stillborn) Resize(context.Context, uint16, uint16) error      { return runtime.ErrEnded }
func (stillborn) Peek(context.Context, int) ([]string, error)       { return nil, nil }
func (s stillborn) LastActivity(context.Context) (time.Time, error) { return s.at, nil }
func (stillborn) Attach(context.Context, runtime.Attachment) error  { return runtime.ErrEnded }
func (stillborn) Follow(context.Context, func()) error              { return runtime.ErrEnded }

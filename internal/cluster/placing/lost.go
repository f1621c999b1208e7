package placing

import (
	"context"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// lost is the session of an incarnation that has ended with its node.
type lost struct {
	o    runtime.Observation
	done chan struct{}
}

func newLost(o runtime.Observation) *lost {
	l := &lost{o, make(chan struct{})}
	close(l.done)
	return l
}

func (l *lost) Done() <-chan struct{}                        { return l.done }
func (l *lost) Exit() supervisor.Exit                        { return l.o.Exit }
func (l *lost) Stop()                                        {}
func (l *lost) Kill()                                        {}
func (l *lost) Observe() runtime.Observation                 { return l.o }
func (l *lost) AwaitReady(context.Context) error             { return runtime.ErrEnded }
func (l *lost) Signal(context.Context, syscall.Signal) error { return runtime.ErrEnded }
func (l *lost) Write(context.Context, []byte) error          { return runtime.ErrEnded }
func (l *lost) Resize(context.Context, uint16, uint16) error { return runtime.ErrEnded }
func (l *lost) Peek(context.Context, int) ([]string, error)  { return nil, runtime.ErrEnded }
func (l *lost) LastActivity(context.Context) (time.Time, error) {
	return time.Time{}, runtime.ErrUnsupported
}
func (l *lost) Attach(context.Context, runtime.Attachment) error { return runtime.ErrEnded }
func (l *lost) Follow(_ context.Context, grew func()) error      { grew(); return nil }

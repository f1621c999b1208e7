package eval

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/supervisor"
)

// Handle is an agent for others: an incarnation of one that was summoned, the
// place of one that is supervised, with all of its incarnations.
type Handle struct {
	path       string
	number     uint64
	box        *mailbox
	supervised bool
	cancel     context.CancelFunc // of one that was summoned

	done   chan struct{} // closed when it is over; the rest is set then
	result Value         // what it yielded
	err    *Error
	ended  bool // it was stopped before it came to an end
}

var handles atomic.Uint64

func newHandle(path string, box *mailbox) *Handle {
	return &Handle{path: path, number: handles.Add(1), box: box, done: make(chan struct{})}
}

// childPlace is the position of a child below a supervisor, for all its incarnations.
type childPlace struct {
	code     *agentCode
	init     beliefInit
	restart  supervisor.Restart
	handle   *Handle
	siblings map[*check.Object]*Handle
	levels   int // of supervisors above it; 0 of an agent that is run alone
}

// child is the specification of a child of a supervisor. One that has ended for
// good takes no messages, unless the restart of its group starts it again.
func (in *Instance) child(p childPlace) supervisor.ChildSpec {
	run := func(ctx context.Context) error {
		self, _ := supervisor.SelfOf(ctx)
		p.handle.box.open()
		a := &agent{
			path: self.Path, incarnation: max(self.Incarnation, 1), code: p.code, in: in,
			box: p.handle.box, handle: p.handle, siblings: p.siblings,
		}
		in.traceChildStart(a.path, p.levels, a.incarnation)
		err := a.runIncarnation(ctx, p.init)
		if p.restart == supervisor.Temporary || p.restart == supervisor.Transient && err == nil && ctx.Err() == nil {
			p.handle.box.close()
		}
		if !errors.Is(err, supervisor.ErrShutdown) {
			a.reportStart()
		}
		return err
	}
	return supervisor.ChildSpec{Run: run, Restart: p.restart, WaitReady: true, Shutdown: in.o.Shutdown}
}

// newChildHandle makes the handle of a child of a supervisor.
func (in *Instance) newChildHandle(path string) *Handle {
	h := newHandle(path, &mailbox{max: in.o.Limits.Messages})
	h.supervised = true
	return h
}

package eval

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// Handle refers to an agent. The handle of a summoned agent is for one incarnation, the handle of
// a supervised agent for all its incarnations.
type Handle struct {
	path       string
	number     uint64
	box        *mailbox
	supervised bool
	cancel     context.CancelFunc // of a summoned agent

	done   chan struct{} // closed at the end of a summoned agent; the fields below are set then
	result Value         // the value that it yielded
	err    *Error
	ended  bool // it was stopped
}

var handles atomic.Uint64

func newHandle(path string, box *mailbox) *Handle {
	return &Handle{path: path, number: handles.Add(1), box: box, done: make(chan struct{})}
}

// childPlace is the position of an agent below a supervisor, for all its incarnations.
type childPlace struct {
	code     *agentCode
	init     beliefInit
	restart  supervisor.Restart
	handle   *Handle
	siblings map[*check.Object]*Handle
	levels   int // number of supervisors above it; 0 for an agent that runs alone
}

// child returns the specification of an agent below a supervisor. An agent that will not be
// restarted takes no messages, unless the restart of its group starts it again.
func (in *Instance) child(p childPlace) supervisor.ChildSpec {
	run := func(ctx context.Context) error {
		self := host.AgentOf(ctx)
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

// newChildHandle makes the handle of an agent below a supervisor.
func (in *Instance) newChildHandle(path string) *Handle {
	h := newHandle(path, &mailbox{max: in.o.Limits.Messages})
	h.supervised = true
	return h
}

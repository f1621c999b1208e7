package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// place is the control group of an incarnation. Nil is none.
type agentGroup struct {
	*cgroup.Group
	enforced runtime.Limits
	killed   uint64 // processes that were out of memory before
}

// place is where the daemon wants the next incarnation. It has made that
// group; who else claims to have one is not believed.
func (s *server) openGroup(g *wire.Group) *agentGroup {
	if g == nil || filepath.Base(g.Dir) != wire.GroupName(s.dir) {
		return nil
	}
	group, err := cgroup.At(g.Dir)
	if err != nil {
		return nil
	}
	p := &agentGroup{Group: group, enforced: g.Enforced}
	if p.enforced.Memory > 0 {
		p.killed = group.OutOfMemory()
	}
	return p
}

func (p *agentGroup) name() string {
	if p == nil {
		return ""
	}
	return p.Dir()
}

// enter opens the group and strikes out what it enforces.
func (p *agentGroup) enter(l *runtime.Limits) (*os.File, error) {
	f, err := p.Open()
	if err != nil {
		return nil, err
	}
	if p.enforced.Memory > 0 {
		l.Memory = 0
	}
	if p.enforced.Processes > 0 {
		l.Processes = 0
	}
	return f, nil
}

// forkOutside tries again without the group. Whether that is what was wrong
// cannot be told from the errors: permissions, an old kernel, a group that
// was removed or divided by somebody.
func (s *server) forkOutside(l *runtime.Launch, run *incarnation, why error) (*proc.Process,
	func(context.Context) error, error) {
	group := run.group
	run.group = nil
	group.Remove() // the next one gets a fresh one
	process, await, err := s.fork(l, run)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Group = ""
	s.state.Detail = fmt.Sprintf("not in its control group %s: %v", group.Dir(), why)
	return process, await, nil
}

// explain gives the reason of a death for want of memory.
func (p *agentGroup) explainExit(e supervisor.Exit) supervisor.Exit {
	if p == nil || p.enforced.Memory <= 0 || p.OutOfMemory() <= p.killed {
		return e
	}
	return outOfMemory(e, p.enforced.Memory)
}

func outOfMemory(e supervisor.Exit, limit int64) supervisor.Exit {
	var exit *proc.ExitError
	if errors.As(e.Err, &exit) && exit.Signal == syscall.SIGKILL {
		e.Err = fmt.Errorf("out of memory, limit %s: %w", humanize.IBytes(uint64(limit)), e.Err)
	}
	return e
}

// leaveGroup removes the group with the shim, if it is empty.
func (s *server) leaveGroup() {
	s.mu.Lock()
	dir := s.state.Group
	s.mu.Unlock()
	if filepath.Base(dir) != wire.GroupName(s.dir) {
		return
	}
	if g, err := cgroup.At(dir); err == nil {
		g.Remove()
	}
}

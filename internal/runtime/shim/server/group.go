package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// agentGroup is the control group of an incarnation; nil means none.
type agentGroup struct {
	*cgroup.Group
	enforced runtime.Limits
	killed   uint64 // processes that were killed for lack of memory before
}

// openGroup returns the group for the next incarnation, which the daemon has created. It ignores
// a group that is not of this slot.
func (s *slot) openGroup(g *wire.Group) *agentGroup {
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

// has reports whether a process is in the group, or in one below it.
func (p *agentGroup) has(pid int) bool {
	if p == nil {
		return false
	}
	in := proc.GroupOf(pid)
	name := "/" + filepath.Base(p.Dir())
	return strings.HasSuffix(in, name) || strings.Contains(in, name+"/")
}

// enter opens the group and removes the limits that it enforces.
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

// forkOutside forks again without the group. The errors do not tell whether the group was the
// problem: missing permissions, an old kernel, or a group that was removed or divided.
func (run *incarnation) forkOutside(l *runtime.Launch, why error) (process,
	func(context.Context) error, error) {
	s := run.slot
	group := run.group
	run.group = nil
	group.Remove() // the next incarnation gets a new one
	process, await, err := run.fork(l)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Group = ""
	s.state.Detail = fmt.Sprintf("not in its control group %s: %v", group.Dir(), why)
	return process, await, nil
}

// explainExit adds the reason if the process was killed for lack of memory.
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

// leaveGroup removes the group when the shim leaves the slot, if it is empty.
func (s *slot) leaveGroup() {
	s.mu.Lock()
	dir := s.state.Group
	s.mu.Unlock()
	if filepath.Base(dir) != wire.GroupName(s.dir) {
		return
	}
	if g, err := cgroup.At(dir); err == nil {
		s.shim.leaving.Lock()
		defer s.shim.leaving.Unlock()
		g.Remove()
	}
}

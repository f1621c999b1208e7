package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// groups manages the control groups of the slots: one for each slot, created by the first start and
// removed when the shim leaves the slot. The agent is created in it. The shim stays outside, so
// killing the group never kills the shim.
type groups struct {
	tree    *cgroup.Tree // nil if there are none
	why     string       // why there are none
	enabled sync.Once
	warned  sync.Once
}

var errNoGroups = errors.New("control groups are disabled")

func (g *groups) find(r *Runtime, off bool) {
	err := errNoGroups
	if !off {
		g.tree, err = cgroup.Find(0)
	}
	if err != nil {
		g.tree, g.why = nil, err.Error()
		return
	}
	// Remove groups of slots that were deleted. Another process may be starting an agent in a
	// slot that exists.
	prefix := wire.GroupPrefix(r.Dir)
	g.tree.Clean(prefix, func(name string) bool {
		_, err := os.Lstat(filepath.Join(r.Dir, strings.TrimPrefix(name, prefix)))
		return !errors.Is(err, os.ErrNotExist)
	})
}

// enable enables the controllers. The first start does that, because a runtime that only
// observes must change nothing.
func (g *groups) enable() {
	if g.tree != nil {
		g.enabled.Do(g.tree.Enable)
	}
}

func (g *groups) of(dir string) *cgroup.Group {
	if g.tree == nil {
		return nil
	}
	group, err := g.tree.Group(wire.GroupName(dir))
	if err != nil {
		return nil
	}
	return group
}

// prepareGroup creates the control group for the next incarnation. Without one the agent runs
// with the limits that can be set for single processes.
func (s *slot) prepareGroup(l runtime.Limits) *wire.Group {
	var enforced runtime.Limits
	why := s.r.groups.why
	if s.group != nil {
		var err error
		if enforced, err = s.group.Prepare(l); err != nil {
			s.r.log.Warn("cannot prepare the control group of an agent", "path", s.path, "error", err)
			return nil
		}
		why = s.r.groups.tree.Missing()
	}
	s.r.warnUnenforced(l, enforced, why)
	if s.group == nil {
		return nil
	}
	return &wire.Group{Dir: s.group.Dir(), Enforced: enforced}
}

// warnUnenforced logs once that limits hold for less than expected.
func (r *Runtime) warnUnenforced(l, enforced runtime.Limits, why string) {
	cpu, memory, processes := l.CPU > 0 && enforced.CPU == 0, l.Memory > 0 && enforced.Memory == 0, l.Processes > 0 &&
		enforced.Processes == 0
	if !cpu && !memory && !processes {
		return
	}
	r.groups.warned.Do(func() {
		r.log.Warn("limits need control groups: without them cpu is not limited, memory is limited for each "+
			"process alone (its address space), "+
			"and processes are counted over the whole user", "why", why)
	})
}

// groupTimeout bounds the killing of a group, since a process that cannot die must not block the
// slot forever. It is tried again.
const groupTimeout = 3 * time.Second

// killGroups kills the processes in the control groups of the slot: the current one, and that of
// the last incarnation.
func (s *slot) killGroups(ctx context.Context, st *wire.State) error {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	for _, g := range s.groupsOf(st) {
		if err := g.Kill(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leaveGroups removes the control groups of the slot.
func (s *slot) leaveGroups(st *wire.State) {
	for _, g := range s.groupsOf(st) {
		g.Remove() // fails if a process runs there, which then is not of the slot
	}
}

// groupsOf returns the control groups of the slot. It ignores a state that names another
// slot's group.
func (s *slot) groupsOf(st *wire.State) (all []*cgroup.Group) {
	if s.group != nil {
		all = append(all, s.group)
	}
	if filepath.Base(st.Group) == wire.GroupName(s.dir) && (s.group == nil || s.group.Dir() != st.Group) {
		if g, err := cgroup.At(st.Group); err == nil {
			all = append(all, g)
		}
	}
	return all
}

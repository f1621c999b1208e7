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

// groups are the control groups of the slots: one for each slot, made by the
// first start and removed with the shim. The agent is born in it, and the
// shim stays outside, so that killing the group never takes the shim.
type groups struct {
	tree    *cgroup.Tree // nil: there are none
	why     string       // there are none
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
	// What was left by slots that were deleted. A slot that exists may be
	// starting now, by another process.
	prefix := wire.GroupPrefix(r.Dir)
	g.tree.Clean(prefix, func(name string) bool {
		_, err := os.Lstat(filepath.Join(r.Dir, strings.TrimPrefix(name, prefix)))
		return !errors.Is(err, os.ErrNotExist)
	})
}

// enable turns the controllers on. It is done by the first start and not
// before: who only looks changes nothing.
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

// place makes the control group for the next incarnation. Without one the
// agent runs all the same, with what limits can be set for single processes.
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

// tell says once that limits hold for less than people expect.
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

// groupTimeout bounds the killing of a group: a process that cannot die must not
// hold up the slot for ever. It is tried again.
const groupTimeout = 3 * time.Second

// killGroups kills what is in the control groups of the slot: where it would
// be made now, and where the last incarnation was.
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

// leaveGroups removes them.
func (s *slot) leaveGroups(st *wire.State) {
	for _, g := range s.groupsOf(st) {
		g.Remove() // fails if somebody lives there, who is not of the slot then
	}
}

// groupsOf does not believe a state file that names the group of somebody else.
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

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

var _ api.Service = (*Controller)(nil)

// Status is part of api.Service.
func (c *Controller) Status(ctx context.Context) (api.Status, error) {
	nodes, err := c.Nodes(ctx, "")
	if err != nil {
		return api.Status{}, err
	}
	s := api.Status{
		Project: c.opts.Tree.Root.Name,
		Controller: api.Controller{
			PID: os.Getpid(), Node: c.host, Version: c.opts.Version,
			StartedAt: c.started, Uptime: time.Since(c.started).Seconds(),
		},
		Summary: make(map[string]int),
		Store:   api.Store{Kind: "sqlite", OK: true},
		Config: api.Config{
			Path: c.opts.Config.Path, Revision: c.opts.Config.Revision, LoadedAt: c.opts.Config.LoadedAt,
		},
	}
	if p, ok := c.opts.Store.(interface{ Path() string }); ok {
		s.Store.Path = p.Path()
	} else {
		s.Store.Kind = "memory"
	}
	if err := c.log.Err(); err != nil {
		s.Store.OK, s.Store.Error = false, err.Error()
	}
	for st := supervisor.Stopped; st <= supervisor.Suspended; st++ {
		s.Summary[st.String()] = 0
	}
	for _, n := range nodes {
		if n.Kind == kindAgent {
			s.Summary[n.State]++
		}
	}
	return s, nil
}

const (
	kindAgent      = "agent"
	kindSupervisor = "supervisor"
)

// full is a path with its first segment, which callers may leave out.
func (c *Controller) full(path string) string {
	root := c.root.Path()
	path = strings.Trim(path, "/")
	switch {
	case path == "":
		return root
	case path == root, strings.HasPrefix(path, root+"/"):
		return path
	}
	return root + "/" + path
}

// Nodes is part of api.Service.
func (c *Controller) Nodes(_ context.Context, path string) ([]api.Node, error) {
	path = c.full(path)
	if path == c.root.Path() {
		n := api.Node{Path: path, Kind: kindSupervisor, Strategy: c.opts.Tree.Root.Strategy.String(), State: c.rootState().String(), Node: c.host, Limit: c.opts.Tree.Root.Limit.String()}
		n.StartedAt, n.Uptime = &c.started, time.Since(c.started).Seconds()
		return c.walk([]api.Node{n}, c.root), nil
	}
	sup, id, err := c.locate(path)
	if err != nil {
		return nil, err
	}
	info, err := c.child(sup, id)
	if err != nil {
		return nil, notFound(path, err)
	}
	return c.walk([]api.Node{c.node(path, info)}, info.Sub), nil
}

// child looks up a child. A temporary one that has ended is not listed by its
// supervisor any more, but the file still names it.
func (c *Controller) child(sup *supervisor.Supervisor, id string) (supervisor.ChildInfo, error) {
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) {
		return forgotten(id), nil
	}
	return info, err
}

func forgotten(id string) supervisor.ChildInfo {
	return supervisor.ChildInfo{ID: id, State: supervisor.Stopped, Reason: supervisor.ReasonTemporary, Limit: supervisor.Limit{Max: supervisor.Unlimited}}
}

func (c *Controller) rootState() supervisor.State {
	select {
	case <-c.ended:
		return supervisor.Stopped
	case <-c.down:
		return supervisor.Stopping
	default:
		return supervisor.Running
	}
}

// walk appends what is below a supervisor. One that has just ended has nothing.
func (c *Controller) walk(all []api.Node, s *supervisor.Supervisor) []api.Node {
	if s == nil {
		return all
	}
	children, err := s.Children()
	if err != nil {
		return all
	}
	listed := make(map[string]bool, len(children))
	own := &all[len(all)-1]
	for _, info := range children {
		if info.Limit.Scope == supervisor.ScopeSupervisor && own.LimitMax < 0 {
			setLimit(own, info)
		}
	}
	for _, info := range children {
		listed[info.ID] = true
		all = append(all, c.node(s.Path()+"/"+info.ID, info))
		all = c.walk(all, info.Sub)
	}
	if d := c.nodes[s.Path()]; d != nil {
		for _, child := range d.Children {
			if name := child.Name(); !listed[name] {
				all = append(all, c.node(s.Path()+"/"+name, forgotten(name)))
			}
		}
	}
	return all
}

func (c *Controller) node(path string, i supervisor.ChildInfo) api.Node {
	n := api.Node{
		Path: path, Kind: kindAgent, State: i.State.String(), Reason: i.Reason.String(), Node: c.host,
		Incarnation: i.Incarnation, Restarts: i.Restarts, LimitMax: supervisor.Unlimited,
	}
	if d := c.nodes[path]; d != nil {
		n.Kind, n.Strategy = kindSupervisor, d.Strategy.String()
	} else {
		n.Runtime = c.agents[path].Runtime.String()
		if i.Limit.Scope == supervisor.ScopeChild {
			setLimit(&n, i)
		}
	}
	if i.State == supervisor.Running || i.State == supervisor.Stopping || i.State == supervisor.Starting {
		n.StartedAt, n.Uptime = &i.StartedAt, i.Uptime.Seconds()
	}
	if n.Kind == kindAgent && i.State == supervisor.Running {
		if s := c.live(path); s != nil {
			n.PID = s.Observe().PID
		}
	}
	if !i.NextAt.IsZero() {
		n.NextAt = &i.NextAt
	}
	if i.LastExit.Kind != supervisor.NoExit {
		n.LastExit = i.LastExit.String()
	}
	return n
}

// setLimit says what governs a child. What siblings share is said of the
// supervisor that counts it.
func setLimit(n *api.Node, i supervisor.ChildInfo) {
	n.InWindow, n.LimitMax, n.Limit = i.InWindow, i.Limit.Max, i.Limit.String()
}

// live is the last session of an agent; nil if there was none yet.
func (c *Controller) live(path string) runtime.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[path]
}

// last is the number of the last incarnation of an agent.
func (c *Controller) last(path string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n uint64
	if told := c.told[path]; len(told) > 0 {
		n = told[len(told)-1].incarnation
	}
	if s := c.sessions[path]; s != nil {
		n = max(n, s.Observe().Incarnation)
	}
	return n
}

// locate returns the supervisor of a node that is not the root, and its ID there.
func (c *Controller) locate(path string) (*supervisor.Supervisor, string, error) {
	if c.agents[path] == nil && c.nodes[path] == nil {
		return nil, "", fmt.Errorf("%s: %w", path, api.ErrNotFound)
	}
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return nil, "", fmt.Errorf("%s: its supervisor does not run: %w", path, api.ErrConflict)
	}
	return sup, id, nil
}

func cutLast(path string) (above, id string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// notFound maps the library's errors to those of the API.
func notFound(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, supervisor.ErrNotFound):
		return fmt.Errorf("%s: %w", path, api.ErrNotFound)
	case errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrStopping):
		return fmt.Errorf("%s: %w", path, api.ErrStopping)
	}
	return fmt.Errorf("%w: %w", api.ErrConflict, err)
}

// Act is part of api.Service.
func (c *Controller) Act(ctx context.Context, path string, action api.Action) error {
	path = c.full(path)
	if path == c.root.Path() {
		return c.actBelow(ctx, c.root, action)
	}
	sup, id, err := c.locate(path)
	if err != nil {
		return err
	}
	if err := c.actOn(ctx, sup, id, action); err != nil {
		return notFound(path, err)
	}
	c.log.Append(event.Event{
		Type: requested(action), Path: path, Actor: "user", Message: fmt.Sprintf("%s: %s asked for by hand", path, action),
	})
	return nil
}

// requested is the event of an action that was asked for by hand.
func requested(action api.Action) event.Type {
	switch action {
	case api.Reset:
		return event.AgentReset
	case api.Suspend:
		return event.AgentSuspended
	case api.Resume:
		return event.AgentResumed
	}
	return event.Type("agent." + string(action) + "_requested")
}

// actBelow does something to all children of a supervisor at the same time.
func (c *Controller) actBelow(ctx context.Context, sup *supervisor.Supervisor, action api.Action) error {
	children, err := sup.Children()
	if err != nil {
		return notFound(sup.Path(), err)
	}
	if action == api.Resume {
		if err := sup.Resume(); err != nil {
			return notFound(sup.Path(), err)
		}
	}
	errs := make([]error, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() { errs[i] = c.Act(ctx, sup.Path()+"/"+child.ID, action) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Controller) actOn(ctx context.Context, sup *supervisor.Supervisor, id string, action api.Action) error {
	info, err := sup.Child(id)
	if errors.Is(err, supervisor.ErrNotFound) && (action == api.Start || action == api.Restart) {
		spec, known := c.specs[sup.Path()+"/"+id]
		if known {
			spec.Saved = &supervisor.Saved{Incarnation: c.last(sup.Path() + "/" + id)}
			_, err = sup.StartChild(ctx, spec)
		}
		return err
	}
	if err != nil {
		return err
	}
	switch action {
	case api.Stop, api.Suspend:
		return sup.SuspendChild(ctx, id)
	case api.Start:
		return start(ctx, sup, info)
	case api.Resume:
		if info.Sub != nil {
			return info.Sub.Resume()
		}
		if info.State == supervisor.Running {
			return nil
		}
		return start(ctx, sup, info)
	case api.Restart:
		if err := sup.SuspendChild(ctx, id); err != nil {
			return err
		}
		_, err := sup.RestartChild(ctx, id)
		return err
	case api.Reset:
		if info.Sub != nil {
			return c.actBelow(ctx, info.Sub, action)
		}
		return sup.Reset(id)
	}
	return fmt.Errorf("%w: unknown action %q, expected start, stop, restart, reset, suspend or resume", api.ErrInvalid, action)
}

// start starts what is down, and what a delay or a limit holds back.
func start(ctx context.Context, sup *supervisor.Supervisor, info supervisor.ChildInfo) error {
	switch info.State {
	case supervisor.Restarting, supervisor.Quarantined, supervisor.GivenUp:
		return sup.Reset(info.ID)
	case supervisor.Paused:
		return sup.Resume()
	case supervisor.Running, supervisor.Starting:
		return fmt.Errorf("%s: %w", info.ID, supervisor.ErrRunning)
	}
	_, err := sup.RestartChild(ctx, info.ID)
	return err
}

// Down is part of api.Service.
func (c *Controller) Down(_ context.Context, keep bool) error {
	c.Stop(keep)
	return nil
}

// Asked is closed when somebody has asked for the end by Down or Stop.
func (c *Controller) Asked() <-chan struct{} { return c.down }

// Events is part of api.Service.
func (c *Controller) Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
	if q.Path != "" {
		q.Path = c.full(q.Path)
	}
	return c.log.Events(ctx, q)
}

// agent returns the session of an agent, live or over.
func (c *Controller) agent(path string) (runtime.Session, error) {
	path = c.full(path)
	if c.nodes[path] != nil {
		return nil, fmt.Errorf("%s is a supervisor, which has no output of its own: %w", path, api.ErrConflict)
	}
	if c.agents[path] == nil {
		return nil, fmt.Errorf("%s: %w", path, api.ErrNotFound)
	}
	if s := c.live(path); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%s has not been started yet: %w", path, api.ErrConflict)
}

// Logs is part of api.Service. With follow it goes on over restarts.
func (c *Controller) Logs(ctx context.Context, path string, n int, follow bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s, err := c.agent(path)
		if err != nil {
			yield("", err)
			return
		}
		if !follow {
			lines, err := s.Peek(ctx, n)
			if err != nil {
				yield("", err)
			}
			for _, line := range lines {
				if !yield(line, nil) {
					return
				}
			}
			return
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		more := true
		for more && ctx.Err() == nil {
			err := s.Follow(ctx, n, func(line string) {
				if more && !yield(line, nil) {
					more = false
					stop()
				}
			})
			if err != nil && more && ctx.Err() == nil {
				yield("", err)
				return
			}
			if s = c.successor(ctx, c.full(path), s); s == nil {
				return
			}
			n = 1 << 20 // all that the next one has said by now
		}
	}
}

// successor waits for the next incarnation of an agent; nil if ctx ends first.
func (c *Controller) successor(ctx context.Context, path string, before runtime.Session) runtime.Session {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if s := c.live(path); s != before {
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case <-c.ended:
			return nil
		}
	}
}

// Attach is part of api.Service.
func (c *Controller) Attach(ctx context.Context, path string, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error {
	s, err := c.agent(path)
	if err != nil {
		return err
	}
	return s.Attach(ctx, runtime.Attachment{Input: input, Output: output, Sizes: sizes})
}

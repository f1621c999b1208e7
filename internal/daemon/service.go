package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Status is part of api.Service.
func (c *Controller) Status(ctx context.Context) (api.Status, error) {
	nodes, err := c.Nodes(ctx, "")
	if err != nil {
		return api.Status{}, err
	}
	s := c.statusOf(nodes, true)
	s.Controller = api.Controller{
		PID: os.Getpid(), Node: c.host, Version: c.opts.Version,
		StartedAt: c.started, Uptime: time.Since(c.started).Seconds(),
	}
	return s, nil
}

// statusOf returns all of the status except the daemon. serving is whether one runs.
func (c *Controller) statusOf(nodes []api.Node, serving bool) api.Status {
	s := api.Status{
		Project: c.fleet().tree.Root.Name,
		Summary: make(map[string]int), Suspended: c.projectSuspended(),
		Orders: c.orderCounts(),
		Store:  api.Store{Kind: "sqlite", OK: true},
		Config: api.Config{
			Path: c.fleet().config.Path, Revision: c.fleet().config.Revision, LoadedAt: c.fleet().config.LoadedAt,
			LastError: c.refused(),
		},
	}
	if p, ok := c.opts.Store.(interface{ Path() string }); ok {
		s.Store.Path = p.Path()
	} else {
		s.Store.Kind = "memory"
	}
	if keys := c.damagedRecords(); len(keys) > 0 {
		s.Store.OK, s.Store.Error = false, damagedMessage(keys[0])
		if len(keys) > 1 {
			s.Store.Error = fmt.Sprintf("%d records are damaged; the first: %s", len(keys), s.Store.Error)
		}
	}
	err := c.log.Err()
	if w, ok := c.opts.Store.(interface{ Waiting() error }); ok && err == nil {
		err = w.Waiting() // also before the first event is refused
	}
	if err != nil {
		s.Store.OK, s.Store.Error = false, err.Error()
	}
	for st := supervisor.Stopped; st <= supervisor.Suspended; st++ {
		s.Summary[st.String()] = 0
	}
	for _, n := range nodes {
		if n.Pool != nil {
			s.Pools = append(s.Pools, api.PoolAt{Path: n.Path, Pool: *n.Pool})
		}
		if n.Kind == kindAgent {
			state := n.State
			if n.Aide != nil && state == supervisor.Stopped.String() {
				state = n.Aide.State // idle or done: it waits for its trigger
			}
			if n.Loop == api.CrashLoop {
				state = "crash_loop"
			}
			s.Summary[state]++
			if waitsForPerson(n) {
				s.NeedsInput++
			}
		}
	}
	s.Attention = attention(nodes, s.Config, serving)
	for i := range s.Attention {
		if a := &s.Attention[i]; strings.HasPrefix(a.Command, "coppice logs ") {
			a.LastOutput = c.lastWords(a.Path)
		}
	}
	s.Inbox = api.Inbox{Questions: len(c.questions.List("", false)), Mail: c.mail.Unread(mail.People),
		Parked: c.work.Parked()}
	return s
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
	if q.Path != "" && !c.ofOrders(q.Path) {
		q.Path = c.full(q.Path)
	}
	return c.log.Events(ctx, q)
}

// agent returns the session of an agent, live or over.
func (c *Controller) agent(path string) (runtime.Session, error) {
	path = c.full(path)
	if c.fleet().nodes[path] != nil {
		return nil, fmt.Errorf("%s is a supervisor, which has no output of its own: %w", path, api.ErrConflict)
	}
	if c.fleet().agents[path] == nil {
		return nil, c.noNode(path)
	}
	if s := c.live(path); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%s has not been started yet: %w", path, api.ErrConflict)
}

// Attach is part of api.Service.
func (c *Controller) Attach(ctx context.Context, path string, input io.Reader, output io.Writer,
	sizes <-chan [2]uint16) error {
	s, err := c.agent(path)
	if err != nil {
		return err
	}
	if input != nil {
		defer c.health.BeginTyping(c.full(path))()
	}
	err = s.Attach(ctx, runtime.Attachment{Input: input, Output: output, Sizes: sizes})
	if errors.Is(err, runtime.ErrUnsupported) {
		err = fmt.Errorf("%w: it was started without a terminal; coppice restart %s gives it what the file says",
			api.ErrConflict, c.full(path))
	}
	return err
}

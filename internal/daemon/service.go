package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
)

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
		q.Path = c.resolvePath(q.Path)
	}
	return c.log.Events(ctx, q)
}

// agent returns the session of an agent, live or over.
func (c *Controller) agent(path string) (runtime.Session, error) {
	path = c.resolvePath(path)
	if c.fleet().Nodes[path] != nil {
		return nil, fmt.Errorf("%s is a supervisor, which has no output of its own: %w", path, api.ErrConflict)
	}
	if c.fleet().Agents[path] == nil {
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
		defer c.health.BeginTyping(c.resolvePath(path))()
	}
	err = s.Attach(ctx, runtime.Attachment{Input: input, Output: output, Sizes: sizes})
	if errors.Is(err, runtime.ErrUnsupported) {
		err = fmt.Errorf("%w: it was started without a terminal; coppice restart %s gives it what the file says",
			api.ErrConflict, c.resolvePath(path))
	}
	return err
}

package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// minRestartAge is the least age of an incarnation at a restart that it has asked for, so that an
// agent that always asks at once does not spin.
const minRestartAge = time.Second

// RequestRestart requests a restart on behalf of the calling agent; see the route RequestRestart.
func (m *Manager) RequestRestart(ctx context.Context, who token.Caller, reason string) error {
	if m.Triggers.Has(who.Path) {
		return fmt.Errorf("%w: a run of %s cannot be restarted; end it, and its Aidefile decides what follows",
			api.ErrConflict, who.Path)
	}
	if m.Drains.Has(who.Path) {
		return fmt.Errorf("%w: %s is being drained", api.ErrConflict, who.Path)
	}
	if m.Health.Incarnation(who).Failed() {
		return fmt.Errorf("%w: %s has failed; its restart policy decides what follows", api.ErrConflict, who.Path)
	}
	return m.Restarts.Request(ctx, who, reason)
}

var errNotStarted = errors.New("it could not be started; its restart policy decides what follows")

// RestartRequested restarts an incarnation that has requested that, unless it has a successor or its
// request was dropped.
func (m *Manager) RestartRequested(ctx context.Context, who token.Caller) error {
	if i := m.Health.Incarnation(who); i != nil {
		var ended <-chan struct{} // nil before it runs
		if s := m.Tree.Session(who.Path); s != nil && s.Observe().Incarnation == who.Incarnation {
			ended = s.Done()
		}
		select {
		case <-time.After(time.Until(i.Since().Add(minRestartAge))):
		case <-ended:
		case <-i.Ended():
		case <-ctx.Done():
			return ctx.Err()
		}
		if i.Failed() && !i.Ready() {
			return errNotStarted
		}
	}
	sup, id, err := m.Tree.Locate(who.Path)
	if err != nil {
		return err
	}
	info, err := sup.Child(id)
	if err != nil {
		return err
	}
	_, asks := m.Restarts.Of(who)
	if !asks || info.Incarnation > who.Incarnation || m.Once && info.StartedAt.After(m.Started) {
		return agent.ErrOvertaken
	}
	if _, err = sup.ReplaceCounted(ctx, id, supervisor.ReasonRequested); err == nil {
		m.waitDurable(ctx, who.Path, info, Restart) // before the request is removed
	}
	return err
}

// Notices is a notice.Source that tells an agent of the restart that it has requested.
func (m *Manager) Notices(_ context.Context, who token.Caller, _ string) ([]notice.Notice, error) {
	if _, asked := m.Restarts.Of(who); !asked {
		return nil, nil
	}
	return []notice.Notice{{Kind: "restart", Text: "You are about to be restarted, as you have asked."}}, nil
}

package agent

import (
	"context"
	"errors"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// begin prepares what an incarnation that is about to start finds, and returns its token.
func (m *Manager) begin(ctx context.Context, who token.Caller) (token string, err error) {
	token = m.tokens.Issue(who)
	return token, m.announce(ctx, Incarnation{Caller: who, Token: token})
}

// adopt is begin for an incarnation that an earlier daemon has started.
func (m *Manager) adopt(ctx context.Context, o runtime.Observation) error {
	if o.Life == runtime.Unknown {
		m.tokens.Expect(o.Path)
		return nil
	}
	who := token.Caller{Path: o.Path, Incarnation: o.Incarnation}
	err := m.announce(ctx, Incarnation{Caller: who, Token: o.Token, Adopted: true})
	m.tokens.Restore(who, o.Token) // after what its requests need
	return err
}

func (m *Manager) announce(ctx context.Context, i Incarnation) error {
	var errs []error
	for _, l := range m.Listeners {
		if l.Begin != nil {
			errs = append(errs, l.Begin(ctx, i))
		}
	}
	return errors.Join(errs...)
}

// ended cleans up after an incarnation that has ended, or could not start.
func (m *Manager) ended(who token.Caller, exit Exit) {
	m.tokens.Revoke(who)
	for _, l := range m.Listeners {
		if l.End != nil {
			l.End(who, exit)
		}
	}
}

// cleared cleans up after an incarnation that was found in a slot and has been stopped there.
func (m *Manager) cleared(path string, incarnation uint64) {
	m.ended(token.Caller{Path: path, Incarnation: incarnation},
		Exit{Exit: supervisor.Exit{Kind: supervisor.ShutDown}, Asked: true})
}

package member

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
)

// JoinHandler returns the handler that lets machines join at this node, for join.Endpoint.
func (m *Member) JoinHandler(s store.Store, logger *slog.Logger) http.Handler {
	return join.NewHandler(join.Options{
		Authority: func(ctx context.Context) (*authority.Authority, error) { return m.authority(ctx, s) },
		Check:     jointoken.NewStore(s, logger).Check,
		Register: func(ctx context.Context, name string, key [sha256.Size]byte) error {
			err := registry.Join(ctx, s, name, key)
			if errors.Is(err, registry.ErrTaken) {
				return fmt.Errorf("%w; %s", join.ErrNameTaken, otherName(name))
			}
			return err
		},
		Bundle: func(context.Context, string) ([]byte, error) { return m.Bundle() },
		Logger: logger,
	})
}

// authority returns the authority in the store, if it is that of this node.
func (m *Member) authority(ctx context.Context, s store.Store) (*authority.Authority, error) {
	a, err := authority.Load(ctx, s)
	if err == nil && !a.Certificate().Equal(m.Current().Authority()) {
		err = fmt.Errorf("the certificate authority in the store is not that of node %s: it is the store of another "+
			"fleet, or was replaced", m.Name())
	}
	return a, err
}

// Renew renews the certificate of this node if it is time. It reports whether it has. If the new certificate cannot
// be kept on disk, it is used nevertheless, until the daemon ends.
func (m *Member) Renew(ctx context.Context, s store.Store, now time.Time) (renewed bool, err error) {
	i := m.Current()
	if now.Before(i.RenewAt()) {
		return false, nil
	}
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("renewing the certificate of node %s, which expires at %s: %w", m.Name(),
			i.NotAfter().UTC().Format(time.RFC3339), err)
	}
	a, err := m.authority(ctx, s)
	if err != nil {
		return fail(err)
	}
	certificate, err := a.Issue(i.PublicKey(), m.Name())
	if err != nil {
		return fail(err)
	}
	next, err := i.Renewed(certificate)
	if err != nil {
		return fail(err)
	}
	m.current.Store(next)
	if err := next.Save(m.dir); err != nil {
		return true, fmt.Errorf("the new certificate of this node is used, and will be lost at the next start: %w", err)
	}
	return true, nil
}

// Times of Run.
const (
	renewInterval = 24 * time.Hour
	renewRetry    = time.Hour // after an error
)

// Run renews the certificate of this node whenever it is time, until ctx ends.
func (m *Member) Run(ctx context.Context, s store.Store, logger *slog.Logger) {
	for {
		pause := renewInterval
		renewed, err := m.Renew(ctx, s, time.Now())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = renewRetry
			logger.Error("cannot renew the certificate of this node", "error", err)
		case renewed:
			logger.Info("the certificate of this node is renewed", "until", m.Current().NotAfter())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Package member keeps what this machine has as a node of a fleet: its identity, its settings, and the way to the
// store.
//
// It is kept in a directory of this user alone. node.json has the settings and the URL of the store, with the names
// of copies of the files that the store needs: certificates, a key, a password. A copy is named by its content and
// never changes. node.json is written last, and as a whole, so it always names files that fit each other. A machine
// is a node when it has a node.json. Init and Join may be repeated at any time: they finish what a crash has cut off,
// and keep the key.
//
// A Member does not change when the settings on disk do: a daemon uses those with which it has started.
package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// Member is this machine as a node of a fleet. It is safe for concurrent use.
type Member struct {
	dir     string
	node    node
	current atomic.Pointer[identity.Identity]
}

// Load reads a member. The error wraps fs.ErrNotExist if this machine is no node of a fleet. Load also returns a
// member whose certificate has expired: it has to be renewed before it is used.
func Load(dir string) (*Member, error) {
	n, err := readNode(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noMember{}
	}
	if err != nil {
		return nil, fmt.Errorf("reading how this machine is a node: %w", err)
	}
	i, err := identity.Load(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // which for callers means that this machine is no node
		return nil, fmt.Errorf("the key or the certificate of node %s, next to %s, is missing; %s", n.name,
			filepath.Join(dir, nodeFile), repeat)
	case err != nil && (i == nil || !errors.Is(err, pki.ErrExpired)):
		return nil, err
	case i.Name() != n.name:
		return nil, fmt.Errorf("%s is that of node %s, and the certificate next to it that of node %s; %s",
			filepath.Join(dir, nodeFile), n.name, i.Name(), repeat)
	}
	m := &Member{dir: dir, node: n}
	m.current.Store(i)
	return m, nil
}

// noMember is the error of a machine that is no node. It is an fs.ErrNotExist.
type noMember struct{}

func (noMember) Error() string {
	return "this machine is no node of a fleet; it becomes one with: coppice cluster init, or " +
		"coppice cluster join TOKEN"
}

func (noMember) Is(target error) bool { return target == fs.ErrNotExist }

// Name returns the name of the node.
func (m *Member) Name() string { return m.node.name }

// Settings returns the settings of the node.
func (m *Member) Settings() Settings {
	s := m.node.settings
	s.Labels = maps.Clone(s.Labels)
	return s
}

// Info returns what the node announces to the others.
func (m *Member) Info(version, files string) registry.Info {
	return m.node.settings.info(version, files)
}

// Location returns where the store of the fleet is.
func (m *Member) Location() etcd.Location { return m.node.location.In(m.dir) }

// Current returns the identity of the node. Renew changes it.
func (m *Member) Current() *identity.Identity { return m.current.Load() }

// Bundle returns what a machine that joins needs for the store.
func (m *Member) Bundle() ([]byte, error) { return encodeBundle(m.node.location, m.node.files) }

// lock makes the directory and keeps other commands from changing it.
func lock(ctx context.Context, dir string) (*filelock.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := private.Dir(dir); err != nil {
		return nil, err
	}
	l, err := filelock.Wait(ctx, filepath.Join(dir, lockFile), filelock.Exclusive)
	if err != nil {
		return nil, fmt.Errorf("waiting for another command that changes how this machine is a node: %w", err)
	}
	return l, nil
}

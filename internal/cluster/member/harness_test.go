package member

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// here is a change on a machine with this name.
func here(host string) Change { return Change{Hostname: host} }

func newStore(t *testing.T) store.Store {
	t.Helper()
	s := memory.New()
	t.Cleanup(func() { s.Close() })
	return s
}

// left is a store that stays open.
type left struct{ store.Store }

func (left) Close() error { return nil }

// opening returns a function that opens a store, wherever it is.
func opening(s store.Store) func(context.Context, etcd.Location) (store.Store, error) {
	return func(context.Context, etcd.Location) (store.Store, error) { return left{s}, nil }
}

// location returns one of a store with all files, whose contents end with a text.
func location(t *testing.T, end string) etcd.Location {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"ca", "cert", "key", "pw"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+" "+end), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := etcd.ParseLocation("etcds://root@10.0.0.9/fleet?ca=ca&cert=cert&key=key&password_file=pw")
	if err != nil {
		t.Fatal(err)
	}
	return l.In(dir)
}

// nodeDir returns the name of a directory of a node, which is not there yet.
func nodeDir(t *testing.T) string { return filepath.Join(t.TempDir(), "node") }

// mustInit makes a node, or changes it.
func mustInit(t *testing.T, dir string, s store.Store, l etcd.Location, c Change) Result {
	t.Helper()
	r, err := Init(t.Context(), dir, s, l, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serve serves what a node does, and returns a token with its address and that of the store's authority.
func serve(t *testing.T, m *Member, s store.Store) jointoken.Token {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	admit := func(string, [32]byte) error { return errors.New("not admitted") }
	config, h := join.Endpoint(m.Current, admit, http.NotFoundHandler(), m.JoinHandler(s, logger))
	address := clustertest.Serve(t, config, h)
	token, err := jointoken.NewStore(s, logger).Create(t.Context(), pki.Hash(m.Current().Authority()),
		[]string{address}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// nodes returns the names of the nodes in a store.
func nodes(t *testing.T, s store.Store) string {
	t.Helper()
	v, err := registry.NewView(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := v.All()
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

// wantError checks that an error has all of some texts.
func wantError(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %q", what, texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", what, err, text)
		}
	}
}

// filesOf returns the contents of a directory by name.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

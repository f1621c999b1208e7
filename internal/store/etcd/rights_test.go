package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// rights are those of a user of etcd in a test.
type rights struct {
	t     *testing.T
	admin *clientv3.Client
	url   string // of a store below p, as that user
}

// withUser has a cluster want users from now on. User shop has no rights.
func withUser(t *testing.T, c *etcdtest.Cluster) rights {
	t.Helper()
	ctx, first := t.Context(), administrator(t, c)
	if err := errors.Join(second(first.RoleAdd(ctx, "root")), second(first.UserAdd(ctx, "root", "r")),
		second(first.UserGrantRole(ctx, "root", "root")), second(first.UserAdd(ctx, "shop", "s")),
		second(first.RoleAdd(ctx, "shop")), second(first.UserGrantRole(ctx, "shop", "shop")),
		second(first.AuthEnable(ctx))); err != nil {
		t.Fatal(err)
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: first.Endpoints(), Username: "root", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	return rights{t, admin, "etcd://shop@" + strings.Join(c.Endpoints(), ",") + "/p?password_file=" + password}
}

// grant gives the user all rights for the keys that begin with a prefix.
func (r rights) grant(prefix string, only ...clientv3.PermissionType) {
	r.t.Helper()
	kind := clientv3.PermissionType(clientv3.PermReadWrite)
	if len(only) > 0 {
		kind = only[0]
	}
	end := clientv3.GetPrefixRangeEnd(prefix)
	if _, err := r.admin.RoleGrantPermission(r.t.Context(), "shop", prefix, end, kind); err != nil {
		r.t.Fatal(err)
	}
}

func (r rights) revoke(prefix string) {
	r.t.Helper()
	end := clientv3.GetPrefixRangeEnd(prefix)
	if _, err := r.admin.RoleRevokePermission(r.t.Context(), "shop", prefix, end); err != nil {
		r.t.Fatal(err)
	}
}

// logged has what was logged, and tells when there is more.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// What a user may not do is found without doing it. A watch that etcd refuses is logged, and works when it is allowed.
func TestRights(t *testing.T) {
	t.Parallel()
	r := withUser(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	r.grant("p/")
	location, err := etcd.ParseLocation(r.url)
	if err != nil {
		t.Fatal(err)
	}
	log := &logged{more: make(chan struct{}, 1)}
	s, err := etcd.Open(t.Context(), location, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	rev, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{put("right", "kept"), put("a", "1")})
	if err != nil {
		t.Fatal(err)
	}
	if err := etcd.CheckRights(t.Context(), s); err != nil {
		t.Error(err)
	}
	if kept := must(store.Get(t.Context(), s, "right")); string(kept.Value) != "kept" {
		t.Errorf("the check has changed %+v", kept)
	}

	for _, part := range []string{"p/format", "p/n/", "p/w/", "p/epoch", "p/compacted", "p/importing"} {
		r.grant(part)
	}
	r.grant("p/l/", clientv3.PermissionType(clientv3.PermRead))
	r.revoke("p/")
	err = etcd.CheckRights(t.Context(), s)
	const want = "user shop needs a role that may read and write all keys that begin with p/"
	if err == nil || !strings.Contains(err.Error(), want) ||
		!strings.HasPrefix(err.Error(), "the user may not use p/k/, p/l/, p/importer, p/imported:") {
		t.Errorf("%v, want %q", err, want)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changes := make(chan store.Change)
	go func() {
		defer close(changes)
		for c, err := range s.Watch(ctx, "a", rev) {
			if err != nil {
				return
			}
			changes <- c
		}
	}()
	select {
	case <-log.more:
	case <-ctx.Done():
		t.Fatal("nothing is logged")
	}
	r.grant("p/")
	if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{put("a", "2")}); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; len(c.Put) != 1 || string(c.Put[0].Value) != "2" {
		t.Errorf("%+v", c)
	}
	cancel()
	for range changes {
	}
	if text := log.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "keys=p/k/a user=\"user shop\"") || !strings.Contains(text, want) {
		t.Error(text)
	}
}

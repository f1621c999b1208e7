package etcd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// administrator returns a client of etcd itself.
func administrator(t *testing.T, c *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Logger: zap.NewNop()}
	for _, e := range c.Endpoints() {
		config.Endpoints = append(config.Endpoints, "http://"+e)
	}
	if c.Files.CA != "" {
		for i, e := range c.Endpoints() {
			config.Endpoints[i] = "https://" + e
		}
		pair, err := tls.LoadX509KeyPair(c.Files.Cert, c.Files.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.TLS = &tls.Config{RootCAs: c.Files.Pool, Certificates: []tls.Certificate{pair}}
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// A cluster that wants certificates, and then also users and passwords.
func TestTLSAndUsers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true})
	ctx := t.Context()
	s := mustOpen(t, c.URL("coppice"))
	if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{put("a", "1")}); err != nil {
		t.Fatal(err)
	}
	hosts := strings.Join(c.Endpoints(), ",")
	for name, url := range map[string]string{
		"no TLS":         "etcd://" + hosts,
		"no certificate": "etcds://" + hosts + "?ca=" + c.Files.CA,
		"another CA":     "etcds://" + hosts + "?cert=" + c.Files.Cert + "&key=" + c.Files.Key,
	} {
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
		if s, err := open(bounded, url); err == nil {
			t.Errorf("%s: opened", name)
			s.Close()
		}
		cancel()
	}

	// From here on certificates without a user do not suffice.
	admin := administrator(t, c)
	for what, err := range map[string]error{
		"role": second(admin.RoleAdd(ctx, "fleet")),
		"permission": second(admin.RoleGrantPermission(ctx, "fleet", "fleet/", "fleet0",
			clientv3.PermissionType(clientv3.PermReadWrite))),
		"root role": second(admin.RoleAdd(ctx, "root")),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for user, role := range map[string]string{"root": "root", "fleet": "fleet"} {
		if err := errors.Join(second(admin.UserAdd(ctx, user, "secret-"+user)),
			second(admin.UserGrantRole(ctx, user, role))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	// The certificate is that of root.
	if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{put("a", "2")}); err != nil {
		t.Errorf("as root, by the certificate: %v", err)
	}
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rest := "?ca=" + c.Files.CA + "&cert=" + c.Files.Cert + "&key=" + c.Files.Key + "&password_file=" + password
	write("secret-fleet\n")
	fleet := mustOpen(t, "etcds://fleet@"+hosts+"/fleet"+rest)
	lease, err := fleet.Acquire(ctx, "l", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Apply(ctx, lease.Fence(), nil, []store.Op{put("a", "1"),
		{Kind: store.Append, Key: "log", Value: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Renew(ctx); err != nil {
		t.Error(err)
	}
	if _, err := open(ctx, "etcds://fleet@"+hosts+"/other"+rest); err == nil ||
		!strings.Contains(err.Error(), "needs a role that may read and write all keys that begin with other/") {
		t.Errorf("another prefix than that of the role: %v", err)
	}
	write("wrong")
	if _, err := open(ctx, "etcds://fleet@"+hosts+"/fleet"+rest); err == nil ||
		!strings.Contains(err.Error(), "no user fleet with this password") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A cluster that has reached its quota takes no writes, and everything else works.
func TestFull(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1, Args: []string{"--quota-backend-bytes", "4194304"}})
	s := mustOpen(t, c.URL("coppice"))
	ctx, big := t.Context(), strings.Repeat("v", 500<<10)
	var err error
	written := 0
	for i := range 40 {
		if _, err = s.Apply(ctx, store.Fence{}, nil, []store.Op{put("big", big)}); err != nil {
			written = i
			break
		}
	}
	if !errors.Is(err, store.ErrFull) || !store.Refused(err) || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Fatalf("after %d: %v", written, err)
	}
	if records, _, err := s.Snapshot(ctx, ""); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
	admin := administrator(t, c)
	if _, err := admin.Compact(ctx, int64(must(store.Get(ctx, s, "big")).Rev)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Defragment(ctx, admin.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{put("a", "1")}); err != nil {
		t.Errorf("after what the error says was done: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What is below a prefix is not overwritten if it is not a store.
func TestForeign(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	admin := administrator(t, c)
	for value, want := range map[string]string{
		"text":                    "is not a record of Coppice",
		`{"format":0,"id":"x"}`:   "is not a record of Coppice",
		`{"format":99,"id":"x"}`:  "use the version that made it",
		`{"format":"1","id":"x"}`: "is not a record of Coppice",
	} {
		if _, err := admin.Put(t.Context(), "taken/format", value); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t.Context(), c.URL("taken")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
	// Two prefixes have nothing to do with each other, even if one begins like the other.
	a, b := mustOpen(t, c.URL("a")), mustOpen(t, c.URL("a/k"))
	if a.ID() == b.ID() {
		t.Error("both have the same ID")
	}
	for _, s := range []*etcd.Store{a, b} {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{put("k/x", s.ID())}); err != nil {
			t.Fatal(err)
		}
	}
	if r := must(store.Get(t.Context(), a, "k/x")); string(r.Value) != a.ID() {
		t.Errorf("%s, want %s", r.Value, a.ID())
	}
}

package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

func connect(t *testing.T, c rpc.Config) *rpc.Client {
	t.Helper()
	client, err := rpc.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// All calls, with etcd itself.
func TestCalls(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	c, ctx := connect(t, rpc.Config{Endpoints: cluster.Endpoints()}), t.Context()
	lease, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	txn, err := c.Txn(ctx, rpc.Txn{If: []rpc.Compare{rpc.IsMissing("a")},
		Then: []rpc.Op{rpc.Put{Key: "a", Value: []byte("1"), Lease: lease}, rpc.Get{Key: "a"}}})
	if err != nil || !txn.Succeeded || len(txn.Got[1].Keys) != 1 {
		t.Fatalf("%+v, %v", txn, err)
	}
	if kv := txn.Got[1].Keys[0]; kv.Key != "a" || string(kv.Value) != "1" || kv.Lease != lease ||
		kv.Revision != txn.Revision || txn.Term == 0 {
		t.Errorf("%+v in %+v", kv, txn.Header)
	}
	first := txn.Revision
	for name, cond := range map[string]rpc.Compare{
		"missing": rpc.IsMissing("a"), "revision": rpc.HasRevision("a", first-1), "value": rpc.HasValue("a", "2"),
		"empty value": rpc.HasValue("a", ""), "value of nothing": rpc.HasValue("b", ""),
	} {
		txn, err := c.Txn(ctx, rpc.Txn{If: []rpc.Compare{cond}, Then: []rpc.Op{rpc.Put{Key: "a"}},
			Else: []rpc.Op{rpc.Get{Key: "a"}}})
		if err != nil || txn.Succeeded || len(txn.Got[0].Keys) != 1 {
			t.Errorf("%s: %+v, %v", name, txn, err)
		}
	}
	txn, err = c.Txn(ctx, rpc.Txn{If: []rpc.Compare{rpc.HasRevision("a", first), rpc.HasValue("a", "1"), rpc.IsMissing("b")},
		Then: []rpc.Op{rpc.Put{Key: "a", KeepLease: true}, rpc.Put{Key: "b", Value: []byte("2")}, rpc.Put{Key: "c"}}})
	if err != nil || !txn.Succeeded {
		t.Fatalf("%+v, %v", txn, err)
	}
	page, err := c.Get(ctx, rpc.Get{Key: "a", End: "z", Limit: 2, KeysOnly: true})
	if err != nil || len(page.Keys) != 2 || !page.More || page.Keys[1].Key != "b" || page.Keys[1].Value != nil {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = c.Get(ctx, rpc.Get{Key: "a"})
	if err != nil || len(page.Keys) != 1 || page.More || page.Keys[0].Lease != lease {
		t.Errorf("a key that keeps its lease: %+v, %v", page, err)
	}
	page, err = c.Get(ctx, rpc.Get{Key: "a", End: "z", Revision: first})
	if err != nil || len(page.Keys) != 1 || page.More || string(page.Keys[0].Value) != "1" {
		t.Errorf("at an earlier revision: %+v, %v", page, err)
	}
	if _, err := c.Get(ctx, rpc.Get{Key: "a", Revision: first + 100}); !errors.Is(err, rpc.ErrFutureRevision) {
		t.Errorf("at a later revision: %v", err)
	}
	if term, err := c.KeepAlive(ctx, lease); err != nil || term != txn.Term {
		t.Errorf("keep alive: term %d, %v", term, err)
	}
	if left, err := c.TimeToLive(ctx, lease); err != nil || left < 50 || left > 60 {
		t.Errorf("%d s left, %v", left, err)
	}
	if err := c.Revoke(ctx, lease); err != nil {
		t.Error(err)
	}
	if _, err := c.KeepAlive(ctx, lease); !errors.Is(err, rpc.ErrLeaseNotFound) {
		t.Errorf("renewal of a lease that has ended: %v", err)
	}
	if err := c.Revoke(ctx, lease); !errors.Is(err, rpc.ErrLeaseNotFound) {
		t.Errorf("end of a lease that has ended: %v", err)
	}
	if left, err := c.TimeToLive(ctx, lease); err != nil || left >= 0 {
		t.Errorf("%d s left of a lease that has ended, %v", left, err)
	}
	if _, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{rpc.Delete{Key: "b", End: "z"}}}); err != nil {
		t.Error(err)
	}
	if page, err = c.Get(ctx, rpc.Get{Key: "a", End: "z"}); err != nil || len(page.Keys) != 0 {
		t.Errorf("after all was deleted: %+v, %v", page, err)
	}
	if err := c.Compact(ctx, page.Revision); err != nil {
		t.Error(err)
	}
	if err := c.Compact(ctx, page.Revision); !errors.Is(err, rpc.ErrCompacted) {
		t.Errorf("compacted twice: %v", err)
	}
	if version, err := c.Version(ctx, cluster.Endpoints()[0]); err != nil || len(version) < len("3.5.0") {
		t.Errorf("version %q, %v", version, err)
	}
	if _, err := c.Txn(ctx, rpc.Txn{Then: make129()}); !errors.Is(err, rpc.ErrTooManyOps) {
		t.Errorf("129 operations: %v", err)
	}
	if _, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{rpc.Put{Key: "a", Value: make([]byte, 3<<19)}}}); !errors.Is(err,
		rpc.ErrRequestTooLarge) {
		t.Errorf("more than 1.5 MiB: %v", err)
	}
}

func make129() (ops []rpc.Op) {
	for i := range 129 {
		ops = append(ops, rpc.Put{Key: fmt.Sprint(i)})
	}
	return ops
}

// A watch gets what was changed before it and while it goes on, each transaction as a whole, and asks how far it is.
func TestWatch(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	c := connect(t, rpc.Config{Endpoints: cluster.Endpoints()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const events = 20 // of each transaction
	write := func() int64 {
		t.Helper()
		var txn rpc.Txn
		for i := range events {
			txn.Then = append(txn.Then, rpc.Put{Key: fmt.Sprint("k/", i), Value: make([]byte, 60<<10)})
		}
		a, err := c.Txn(ctx, txn)
		if err != nil {
			t.Fatal(err)
		}
		return a.Revision
	}
	first := write()
	for range 4 { // more than one answer may have
		write()
	}
	var w *rpc.Watch
	receive := func() rpc.Changes {
		t.Helper()
		changes, err := w.Receive()
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	// A member may answer a new watch before it notes that this takes large answers in parts.
	answers := 0
	for try := 1; answers < 2; try++ {
		if try > 20 {
			t.Fatal("all came in one answer each time, so that this tests nothing")
		}
		var err error
		if w, err = c.Watch(ctx, "k/", "k0", first); err != nil {
			t.Fatal(err)
		}
		answers = 0
		for rev := first; rev < first+5; answers++ {
			changes := receive()
			if len(changes.Events)%events != 0 {
				t.Fatalf("%d events, which is a part of a transaction", len(changes.Events))
			}
			for i, e := range changes.Events {
				if e.Revision != rev || e.Key != fmt.Sprint("k/", i%events) || len(e.Value) != 60<<10 || e.Deleted {
					t.Fatalf("event %d: %s at %d, expected it at %d", i, e.Key, e.Revision, rev)
				}
				if i%events == events-1 {
					rev++
				}
			}
		}
	}
	deleted, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{rpc.Delete{Key: "k/3"}}})
	if err != nil {
		t.Fatal(err)
	}
	if changes := receive(); len(changes.Events) != 1 || !changes.Events[0].Deleted || changes.Events[0].Key != "k/3" ||
		changes.Events[0].Revision != deleted.Revision {
		t.Errorf("a deletion is %+v", changes)
	}
	elsewhere, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{rpc.Put{Key: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.RequestProgress(); err != nil {
		t.Fatal(err)
	}
	if changes := receive(); len(changes.Events) != 0 || changes.Revision != elsewhere.Revision {
		t.Errorf("progress is %+v, expected revision %d", changes, elsewhere.Revision)
	}
	if err := c.Compact(ctx, elsewhere.Revision); err != nil {
		t.Fatal(err)
	}
	late, err := c.Watch(ctx, "k/", "k0", first)
	if err == nil {
		_, err = late.Receive()
	}
	if !errors.Is(err, rpc.ErrCompacted) {
		t.Errorf("a watch of what was compacted: %v", err)
	}
	cancel()
	var e rpc.Error
	if _, err := w.Receive(); !errors.As(err, &e) {
		t.Errorf("after its context has ended: %v", err)
	}
}

// A change of its password ends the tokens of a user. The next call gets another one by itself, a watch when it is
// repeated.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1})
	ctx := t.Context()
	admin, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	const password = "secret"
	_, roleErr := admin.RoleAdd(ctx, "root")
	_, userErr := admin.UserAdd(ctx, "root", password)
	_, grantErr := admin.UserGrantRole(ctx, "root", "root")
	_, enableErr := admin.AuthEnable(ctx)
	if err := errors.Join(roleErr, userErr, grantErr, enableErr); err != nil {
		t.Fatal(err)
	}
	c := connect(t, rpc.Config{Endpoints: cluster.Endpoints(), User: "root", Password: password})
	root, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints(), Logger: zap.NewNop(), Username: "root",
		Password: password})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	get := func() error {
		_, err := c.Get(ctx, rpc.Get{Key: "a"})
		return err
	}
	watch := func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := c.Watch(ctx, "a", "b", 1)
		if err == nil {
			_, err = w.Receive()
		}
		return err
	}
	if _, err := c.Txn(ctx, rpc.Txn{Then: []rpc.Op{rpc.Put{Key: "a"}}}); err != nil {
		t.Fatal(err)
	}
	end := func() {
		t.Helper()
		if _, err := root.UserChangePassword(ctx, "root", password); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if err := get(); err != nil {
		t.Error(err)
	}
	end()
	if err := watch(); !errors.Is(err, rpc.ErrInvalidToken) {
		t.Errorf("a watch with a token that has ended: %v", err)
	}
	if err := watch(); err != nil {
		t.Errorf("the next one: %v", err)
	}
	wrong := connect(t, rpc.Config{Endpoints: cluster.Endpoints(), User: "root", Password: "wrong"})
	if _, err := wrong.Get(ctx, rpc.Get{Key: "a"}); !errors.Is(err, rpc.ErrAuthFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	anonymous := connect(t, rpc.Config{Endpoints: cluster.Endpoints()})
	if _, err := anonymous.Get(ctx, rpc.Get{Key: "a"}); !errors.Is(err, rpc.ErrUserEmpty) {
		t.Errorf("without a user: %v", err)
	}
}

package etcd_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// A SQLite file that is copied to etcd and back is the same.
func TestTransfer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	files := make([]*sqlite.Store, 2)
	for i := range files {
		var err error
		if files[i], err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "state.db")); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	for i := range 700 {
		if _, err := files[0].Apply(ctx, store.Fence{}, nil, []store.Op{put(fmt.Sprintf("records/%d", i), fmt.Sprint(i)),
			{Kind: store.Append, Key: "events", Value: make([]byte, 300)}}); err != nil {
			t.Fatal(err)
		}
	}
	through := mustOpen(t, etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true}).URL("coppice"))
	there, err := transfer.Copy(ctx, files[0], through, func(transfer.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	back, err := transfer.Copy(ctx, through, files[1], func(transfer.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	if there.SHA256 != back.SHA256 || there.Records != 1400 || there.Sequences != 1 {
		t.Errorf("there %+v, and back %+v", there, back)
	}
}

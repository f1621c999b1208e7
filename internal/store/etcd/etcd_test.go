package etcd_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(ctx context.Context, url string) (*etcd.Store, error) {
	l, err := etcd.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	return etcd.Open(ctx, l, slog.New(slog.DiscardHandler))
}

func TestStore(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	storetest.Run(t, storetest.Backend{
		Open: func(dir string) (store.Store, error) {
			return open(context.Background(), c.URL(fmt.Sprintf("stores%s", filepath.ToSlash(dir))))
		},
		Durable: true,
		Lasting: true,
		TTL:     4 * time.Second, // also while the machine is busy
		Shared:  true,
	})
}

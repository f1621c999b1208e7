package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		Open: func(dir string) (store.Store, error) {
			return Open(context.Background(), filepath.Join(dir, "odd ?#%20name.db"))
		},
		Durable: true,
		Bubble:  true,
	})
}

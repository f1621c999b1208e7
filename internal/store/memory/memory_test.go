package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		Open:   func(string) (store.Store, error) { return memory.New(), nil },
		Bubble: true,
	})
}

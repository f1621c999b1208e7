package shim

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime { return open(t, state) }, runtimetest.Options{})
}

package shim

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("groups", func(t *testing.T) {
		t.Parallel()
		runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime { return openGroups(t, state) },
			runtimetest.Options{Until: openUntil})
	})
	t.Run("no groups", func(t *testing.T) {
		t.Parallel()
		runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime {
			return openWith(t, Options{Dir: state, WithoutGroups: true})
		}, runtimetest.Options{Until: openUntil})
	})
}

func openUntil(t testing.TB, state, file string) runtime.Runtime {
	return openWith(t, Options{Dir: state, Deadline: file, WithoutGroups: true})
}

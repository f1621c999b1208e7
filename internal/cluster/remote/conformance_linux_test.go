package remote

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime {
		return p.far(t, openShim(t, shim.Options{Dir: state}))
	}, runtimetest.Options{Until: func(t testing.TB, state, file string) runtime.Runtime {
		return p.far(t, openShim(t, shim.Options{Dir: state, Deadline: file}))
	}})
}

func TestConformanceTmux(t *testing.T) {
	t.Parallel()
	if _, err := tmux.Version(t.Context()); err != nil {
		exectest.Missing(t, err)
	}
	p := newPair(t)
	open := func(t testing.TB, o tmux.Options) runtime.Runtime {
		r, err := tmux.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return p.far(t, r)
	}
	runtimetest.Run(t, func(t testing.TB, state string) runtime.Runtime {
		return open(t, tmux.Options{Dir: state})
	}, runtimetest.Options{
		AlwaysTerminal: true, SlowOutput: true,
		Until: func(t testing.TB, state, file string) runtime.Runtime {
			return open(t, tmux.Options{Dir: state, Deadline: file})
		},
	})
}

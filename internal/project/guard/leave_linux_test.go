package guard

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
)

// leave has the daemon of the site end all that runs, as when its node leaves the fleet.
func (s *site) leave(r runtime.Runtime) {
	s.t.Helper()
	s.lease.Leave("n1")
	r.(runtime.Expirer).CheckDeadline(s.t.Context())
	at, err := deadline.Now()
	if err == nil {
		err = Expire(s.Project, at, slog.New(slog.NewTextHandler(s.t.Output(), nil)))
	}
	if err != nil {
		s.t.Error(err)
	}
}

// When a node leaves, nothing of its agents runs after Expire, whatever has become of their shims.
func TestNodeLeaves(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"proc", "tmux"} {
		for name, does := range map[string]func(*site, proc.Identity){
			"lives": func(*site, proc.Identity) {}, "killed": (*site).kill, "hangs": (*site).stop,
		} {
			t.Run(fmt.Sprintf("%s/the shim %s", kind, name), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				s.lease.Renew(time.Hour)
				f := s.start(kind, deafScript)
				r := s.open(kind)
				defer r.(io.Closer).Close()
				does(s, f.shim)
				s.leave(r)
				for _, id := range []proc.Identity{f.agent, f.child, f.grandchild} {
					if proc.Observe(id) == proc.Alive {
						t.Errorf("process %d of %+v runs", id.PID, f)
					}
				}
				if name == "hangs" {
					exectest.Signal(t, f.shim.PID, unix.SIGCONT)
				}
			})
		}
	}
}

// An agent that ends early is not waited for until its grace period is over.
func TestNodeLeavesAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"proc", "tmux"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.lease.Renew(time.Hour)
			r := s.open(kind)
			defer r.(io.Closer).Close()
			t.Cleanup(func() { s.empty(kind) })
			ses, err := r.Start(t.Context(), runtime.Launch{
				Path: s.agent, Incarnation: 1, Argv: []string{"/bin/sleep", "1000"}, Dir: t.TempDir(), Grace: time.Hour,
				Env: append(proc.Environ(nil, proc.Self{Agent: s.agent, Incarnation: 1}), runtimetest.Env()),
			})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s.leave(r)
			<-ses.Done()
			exit := ses.Exit()
			if !errors.Is(exit.Err, runtime.ErrDeadline) || !strings.Contains(exit.String(), "node n1 has left") {
				t.Errorf("exit = %v", exit)
			}
			if took := time.Since(began); took > testTimeout {
				t.Errorf("it took %v", took)
			}
		})
	}
}

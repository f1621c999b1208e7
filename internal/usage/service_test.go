package usage

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
)

// However many ask, agents are measured every two seconds at most, and Last never waits.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		failing := false
		s := &Service{
			Host: "here",
			Nodes: func(_ context.Context, path string) ([]status.Node, error) {
				if failing {
					return nil, errors.New("no nodes")
				}
				if path == "" {
					asked.Add(1)
				}
				return []status.Node{{Path: "t/a", PID: os.Getpid(), Host: "here"}, {Path: "t/b"}}, nil
			},
			Limits: func(path string) spec.Limits {
				if path != "t/a" {
					t.Errorf("the limits of %s", path)
				}
				return spec.Limits{Memory: 1 << 40, CPU: 1.5, Processes: 7}
			},
			Go: func(f func(context.Context)) { go f(t.Context()) },
		}
		if s.Last() != nil {
			t.Error("a measurement before the first")
		}
		synctest.Wait()
		if runtime.GOOS == "linux" && s.Last()["t/a"].Memory == 0 {
			t.Error("nothing is measured in the background")
		}
		c := api.Local(s.Register)
		defer c.Close()
		show := func() []Used {
			t.Helper()
			all, err := Show.Call(t.Context(), c, ShowRequest{Path: "t/a"})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		for range 3 {
			all := show()
			if runtime.GOOS != "linux" {
				continue
			}
			if len(all) != 1 || all[0].Memory == 0 || all[0].Processes == 0 || all[0].MemoryLimit != 1<<40 ||
				all[0].CPULimit != 1.5 || all[0].ProcessLimit != 7 {
				t.Errorf("%+v", all)
			}
		}
		if asked.Load() != 1 {
			t.Errorf("%d measurements", asked.Load())
		}
		time.Sleep(minInterval)
		show()
		s.Last()
		synctest.Wait()
		if asked.Load() != 2 {
			t.Errorf("%d measurements, want 2", asked.Load())
		}
		time.Sleep(lastsFor + 1)
		failing = true
		before := s.Last()
		synctest.Wait()
		if len(s.Last()) != len(before) {
			t.Error("an error removes the last measurement")
		}
		synctest.Wait()
	})
}

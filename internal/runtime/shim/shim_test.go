package shim

import (
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestStartAdoptStop(t *testing.T) {
	dir := slots(t)
	r := open(t, dir)
	ctx := ctxOf(t)
	s, err := r.Start(ctx, sh("app/a", 1, "echo hello; exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	pid := s.Observe().PID
	if _, err := r.Start(ctx, sh("app/a", 2, "true")); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("start of a slot in use: %v", err)
	}
	r.Close()

	r = open(t, dir)
	s, err = r.Adopt(ctx, "app/a")
	if err != nil {
		t.Fatal(err)
	}
	if o := s.Observe(); o.Life != runtime.Alive || o.PID != pid || o.Incarnation != 1 || !o.Ready {
		t.Errorf("adopted %+v", o)
	}
	s.Stop()
	wait(t, "the end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.ShutDown {
		t.Errorf("exit %v", e)
	}
	s, err = r.Start(ctx, sh("app/a", 2, "echo last words; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the end", s.Done())
	var ee *proc.ExitError
	if e := s.Exit(); !errors.As(e.Err, &ee) || ee.Code != 3 || len(ee.LastOutput) != 1 {
		t.Errorf("exit %v", e)
	}
	if _, err := r.Start(ctx, sh("app/a", 2, "true")); !errors.Is(err, runtime.ErrStale) {
		t.Errorf("start of an incarnation that is over: %v", err)
	}
}

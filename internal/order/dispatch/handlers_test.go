package dispatch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
)

func TestRequests(t *testing.T) {
	p := newHarness(t)
	yearly, err := cron.Parse("0 0 1 1 *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	d := p.open(p.sh("a", "echo hello"), p.sh("b", "true", spec.Gate{Kind: spec.Cron, Schedule: yearly}))
	c := apitest.Serve(t, d.Register).People()
	ctx := ctxOf(t)

	all, err := List.Call(ctx, c, api.None{})
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" || all[1].Gates[0].Kind != "cron" {
		t.Errorf("List: %+v, %v", all, err)
	}
	if o, err := Get.Call(ctx, c, Name{Name: "a"}); err != nil || o.Last != nil || !o.Enabled {
		t.Errorf("Get: %+v, %v", o, err)
	}
	done, err := Act.Call(ctx, c, ActRequest{Name: "a", Action: RunOrder, By: "user ada"})
	if err != nil || done.Run != "r-1" {
		t.Fatalf("Act: %+v, %v", done, err)
	}
	run, err := GetRun.Call(ctx, c, RunRequest{ID: done.Run, Wait: true})
	if err != nil || run.Status != string(order.Completed) || run.By != "user ada" ||
		strings.Join(run.Output, "") != "hello" {
		t.Errorf("GetRun: %+v, %v", run, err)
	}
	runs, err := Runs.Call(ctx, c, RunsRequest{Name: "a"})
	if err != nil || len(runs) != 1 || runs[0].ID != done.Run {
		t.Errorf("Runs: %+v, %v", runs, err)
	}
	if runs, err := Runs.Call(ctx, c, RunsRequest{Name: "b"}); err != nil || runs == nil {
		t.Errorf("Runs without a run: %#v, %v", runs, err)
	}
	if times, err := Next.Call(ctx, c, NextRequest{Name: "b", Count: 2}); err != nil || len(times.Times) != 2 {
		t.Errorf("Next: %+v, %v", times, err)
	}
	if _, err := Act.Call(ctx, c, ActRequest{Name: "a", Action: DisableOrder}); err != nil {
		t.Error(err)
	}
	if o, err := Check.Call(ctx, c, Name{Name: "a"}); err != nil || o.Enabled || o.ByHand != "disabled" {
		t.Errorf("Check of a disabled order: %+v, %v", o, err)
	}
	if n := d.Counts(); n.Total != 2 || n.Disabled != 1 {
		t.Errorf("Counts: %+v", n)
	}
}

func TestRequestsFail(t *testing.T) {
	p := newHarness(t)
	c := apitest.Serve(t, p.open(p.sh("backup", "true")).Register).People()
	ctx := ctxOf(t)
	get := func(name string) error { _, err := Get.Call(ctx, c, Name{Name: name}); return err }
	act := func(req ActRequest) error { _, err := Act.Call(ctx, c, req); return err }
	run := func(id string) error { _, err := GetRun.Call(ctx, c, RunRequest{ID: id}); return err }
	_, unknowable := Next.Call(ctx, c, NextRequest{Name: "backup"})
	for _, tt := range []struct {
		what string
		err  error
		kind error
		says string
	}{
		{"a name that is almost right", get("bakcup"), api.ErrNotFound, `did you mean "backup"?`},
		{"an action on an unknown order", act(ActRequest{Name: "x", Action: StopOrder}), api.ErrNotFound, "no order"},
		{"an unknown action", act(ActRequest{Name: "backup", Action: "eat"}), api.ErrInvalid, "expected one of"},
		{"an impossible name", act(ActRequest{Name: "a\x00", Action: RunOrder}), api.ErrInvalid, "control character"},
		{"no ID of a run", run("7x"), api.ErrInvalid, ""},
		{"an unknown run", run("r-9"), api.ErrNotFound, "no run r-9"},
		{"times of an order without a clock", unknowable, api.ErrConflict, "are unknown"},
	} {
		if !errors.Is(tt.err, tt.kind) || !strings.Contains(tt.err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.what, tt.err)
		}
	}
}

// Without a job.Runner orders are shown, but do not fire.
func TestWithoutJobs(t *testing.T) {
	p := newHarness(t)
	log, err := event.Open(event.Config{Store: p.store})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(ctxOf(t))
	d, err := Open(ctxOf(t), Options{Store: p.store, Log: log, Orders: []*spec.Order{p.sh("a", "true")}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(ctxOf(t), false)
	c := apitest.Serve(t, d.Register).People()
	if all, err := List.Call(ctxOf(t), c, api.None{}); err != nil || len(all) != 1 {
		t.Errorf("List: %+v, %v", all, err)
	}
	_, err = Act.Call(ctxOf(t), c, ActRequest{Name: "a", Action: RunOrder})
	if !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "orders do not fire here") {
		t.Errorf("Act: %v", err)
	}
}

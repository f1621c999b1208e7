package test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
)

// awaitEvent waits for an event of a type about a path, after a number.
func (f *fleet) awaitEvent(kind event.Type, path string, after uint64) (found event.Event) {
	f.t.Helper()
	if err := f.ask(func(ctx context.Context, c *api.Client) error {
		for e, err := range feed.Events(ctx, c, event.Query{Filter: event.Filter{Types: []string{string(kind)}, Path: path}, After: after, Follow: true}) {
			found = e
			return err
		}
		return ctx.Err()
	}); err != nil {
		f.t.Fatalf("no %s of %s: %v", kind, path, err)
	}
	return found
}

func TestOrders(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`), `
[[order]]
name = "hello"
description = "says so"
exec = "echo hello $COPPICE_ORDER_RUN; exit 3"
gate = "manual"
[[order]]
name = "late"
exec = "sleep 1000"
schedule = "30 2 * * *"
timezone = "Europe/Berlin"
timeout = "100ms"
[[order]]
name = "triage"
formula = "look"
pool = "workers"
gate = "manual"
[[order]]
name = "listener"
exec = "cat >>heard"
on = "task.created"
[[order]]
name = "careful"
exec = "true"
check = "echo looked; test -e open"
check_interval = "1h"
[[order]]
name = "long"
exec = "echo begun; read x < go; echo over"
gate = "manual"
`)
	release := fifo(t, f.dir, "go")
	f.do("up", "-d")
	if out := f.do("order", "ls"); !strings.Contains(out, "says so") || !strings.Contains(out, "cron 30 2 * * * (Europe/Berlin)") || strings.Count(out, "\n") != 7 {
		t.Errorf("order ls:\n%s", out)
	}
	if out := f.wantCode(1, "order", "run", "hello", "--wait"); !strings.Contains(out, "hello r-") || !strings.Contains(out, "exit code 3") {
		t.Errorf("order run:\n%s", out)
	}
	if out := f.wantCode(124, "order", "run", "late", "--wait"); !strings.Contains(out, "has taken too long") {
		t.Errorf("order run:\n%s", out)
	}
	if out := f.wantCode(1, "order", "check", "late"); !strings.Contains(out, "not due: not before") || !strings.Contains(out, "next fire in") {
		t.Errorf("order check:\n%s", out)
	}
	if out := f.do("order", "next", "late", "--count", "3"); strings.Count(out, "02:30:00 +0") != 3 {
		t.Errorf("order next:\n%s", out)
	}
	if out := f.wantCode(1, "order", "next", "hello"); !strings.Contains(out, "does not wait for the clock: manual") {
		t.Errorf("order next:\n%s", out)
	}
	if out := f.wantCode(3, "order", "run", "helo"); !strings.Contains(out, `did you mean "hello"?`) {
		t.Errorf("order run:\n%s", out)
	}
	if out := f.wantCode(1, "order", "check", "careful"); !strings.Contains(out, "its condition does not hold\n  looked") {
		t.Errorf("order check:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.wantCode(0, "order", "check", "careful")
	f.wantCode(3, "order", "check", "carefull")
	f.wantCode(2, "order", "check")

	// A task is added to its pool, with the event as its text.
	if out := f.do("order", "run", "triage", "--wait"); !strings.HasPrefix(out, "task t-") {
		t.Errorf("order run:\n%s", out)
	}
	if out := f.do("task", "ls"); !strings.Contains(out, "pool workers") || !strings.Contains(out, "look") {
		t.Errorf("task ls:\n%s", out)
	}
	f.awaitEvent(event.OrderCompleted, "orders/listener", 0)
	if heard, err := os.ReadFile(filepath.Join(f.dir, "heard")); err != nil || strings.Count(string(heard), "\n") != 1 || !strings.Contains(string(heard), `"task.created"`) {
		t.Errorf("heard %q, %v", heard, err)
	}

	// A run continues without the daemon.
	f.do("order", "run", "long")
	f.crash()
	f.do("up", "-d")
	if out := f.wantCode(1, "order", "run", "long"); !strings.Contains(out, "is running") {
		t.Errorf("order run:\n%s", out)
	}
	release()
	f.awaitEvent(event.OrderCompleted, "orders/long", 0)
	if out := f.do("order", "history", "long", "-o"); !strings.Contains(out, "completed") || !strings.Contains(out, "    begun\n    over\n") {
		t.Errorf("order history:\n%s", out)
	}

	// A change of the file changes the orders.
	file := filepath.Join(f.dir, "coppice.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "[[order]]\nname = \"new\"\nexec = \"true\"\ninterval = \"1h\"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	f.do("reload")
	f.awaitEvent(event.OrderCompleted, "orders/new", 0)
	f.do("order", "disable", "new")
	if out := f.wantCode(3, "order", "show", "nwe"); out != "coppice: there is no order \"nwe\"; did you mean \"new\"?\n" {
		t.Errorf("an order that is not there: %s", out)
	}
	if out := f.do("order", "show", "new"); !strings.Contains(out, "disabled by hand") {
		t.Errorf("order show:\n%s", out)
	}
	f.do("order", "enable", "new")

	// Nothing fires while the project is suspended.
	f.do("suspend", "t")
	if out := f.wantCode(1, "order", "run", "triage"); !strings.Contains(out, "suspended") {
		t.Errorf("order run:\n%s", out)
	}
	f.do("resume", "t")
	var all []dispatch.Info
	if err := json.Unmarshal([]byte(f.do("order", "ls", "--json")), &all); err != nil || len(all) != 7 {
		t.Errorf("%v, %v", all, err)
	}
	if out := f.do("status"); !strings.Contains(out, "orders   7, ") {
		t.Errorf("status:\n%s", out)
	}
	f.do("down")
	f.wantCode(69, "order", "check", "careful")
}

// Each order command has JSON output.
func TestOrdersInJSON(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[[order]]\nname = \"a\"\nexec = \"exec sleep 1000\"\nschedule = \"@yearly\"\n[[order]]\nname = \"b\"\nexec = \"echo hello\"\ngate = \"manual\"\n")
	f.do("up", "-d")
	for _, c := range []struct {
		args string
		code int
		want string // text in the answer
	}{
		{"ls", 0, `[{"name":"a",`},
		{"show a", 0, `{"name":"a",`},
		{"check a", 1, `"due":false,`},
		{"next a -n 2", 0, `{"times":["`},
		{"history a", 0, `[]`},
		{"run a", 0, `{"run":"r-`},
		{"stop a", 0, `{"order":"a","stopped":1}`},
		{"run b --wait", 0, `"output":["hello"]`},
		{"history b", 0, `[{"id":"r-`},
		{"stop b", 0, `{"order":"b","stopped":0}`},
		{"disable a", 0, `{"enabled":false,"order":"a"}`},
		{"enable a", 0, `{"enabled":true,"order":"a"}`},
	} {
		out := f.wantCode(c.code, append(append([]string{"order"}, strings.Fields(c.args)...), "--json")...)
		if !strings.Contains(out, c.want) || !json.Valid([]byte(out)) {
			t.Errorf("order %s --json, want %s:\n%s", c.args, c.want, out)
		}
	}
}

// Stopping the daemon stops the runs of orders.
func TestDownStopsOrders(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[[order]]\nname = \"a\"\nexec = \"exec sleep 1000\"\ninterval = \"1h\"\n")
	f.do("up", "-d")
	f.awaitEvent(event.OrderFired, "orders/a", 0)
	f.do("down")
	f.do("up", "-d")
	if out := f.do("order", "history", "a"); !strings.Contains(out, "stopped") {
		t.Errorf("order history:\n%s", out)
	}
}

// coppice run continues while orders may fire, and shows their events.
func TestRunWaitsForWhatComes(t *testing.T) {
	t.Parallel()
	const ending = `exit 0`
	for name, c := range map[string]struct{ toml, shows string }{
		"an order":            {"[[order]]\nname = \"a\"\nexec = \"true\"\ninterval = \"1h\"\n", "orders/a * completed\n"},
		"an order that fails": {"[[order]]\nname = \"a\"\nexec = \"exit 3\"\ninterval = \"1h\"\n", "orders/a * failed: exit code 3"},
		"an order to come":    {agentTOML("a", ending, `restart = "never"`) + "[[order]]\nname = \"a\"\nexec = \"true\"\nschedule = \"@yearly\"\n", "t/a * ended"},
		"a pool":              {agentTOML("a", ending) + "[agent.pool]\nmin = 0\ncheck = \"echo 0\"\n", "t * started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := launch(t, project(t, c.toml), "run")
			r.out.awaitText(t, c.shows)
			r.out.awaitText(t, "t * started")
			if strings.Contains(r.out.String(), "all children are done") {
				t.Errorf("it ended by itself:\n%s", r.out.String())
			}
			r.signal(syscall.SIGINT)
			r.wantExit(130)
			if !strings.Contains(r.err.String(), "stopped by SIGINT") {
				t.Errorf("stderr: %s", r.err.String())
			}
		})
	}
	for name, order := range map[string]string{"an order for people": "gate = \"manual\"\n", "one that is disabled": "interval = \"1h\"\nenabled = false\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := launch(t, project(t, agentTOML("a", ending, `restart = "never"`)+"[[order]]\nname = \"a\"\nexec = \"true\"\n"+order), "run")
			r.wantExit(0)
		})
	}
}

func TestRunShowsOrdersAsJSON(t *testing.T) {
	t.Parallel()
	r := launch(t, project(t, "[[order]]\nname = \"a\"\nexec = \"exit 3\"\ninterval = \"1h\"\n"), "run", "--json")
	r.out.awaitText(t, `"type":"order.failed","path":"orders/a"`)
	r.out.awaitText(t, `"code":3`)
	r.signal(syscall.SIGTERM)
	r.wantExit(143)
}

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// serve starts a server for a fleet and returns a client of it.
func serve(t *testing.T, f *statustest.Fleet) *api.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := endpoint.Listen(filepath.Join(dir, "daemon.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := api.NewServer(f, slog.New(slog.DiscardHandler))
	f.Register(s)
	go func() { ended <- s.Serve(ctx, l) }()
	c := api.Dial(l.Addr().String())
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func fleet() *statustest.Fleet {
	started := noon.Add(-time.Hour)
	next := noon.Add(time.Second)
	f := statustest.New(
		status.Node{Path: "app", Kind: "supervisor", Strategy: "one_for_one", State: "running", Incarnation: 1, Limit: "5 restarts in 1m0s"},
		status.Node{Path: "app/db", Kind: "agent", Runtime: "proc", State: "running", PID: 7, Host: "n1", Incarnation: 2, Restarts: 1, InWindow: 1, StartedAt: &started, Uptime: 3600},
		status.Node{Path: "app/web", Kind: "agent", Runtime: "proc", State: "restarting", Reason: "it always restarts", Incarnation: 3, Restarts: 2, NextAt: &next, LastExit: "exit status 1"},
	)
	f.SetStatus(status.Status{
		Project: "app", Controller: status.Controller{PID: 1, Host: "n1", Version: "v1", StartedAt: started, Uptime: 3600},
		Summary: map[string]int{"running": 1, "restarting": 1}, Store: status.Store{Kind: "sqlite", Path: "/p/db", OK: true},
		Config: status.Config{Path: "/p/coppice.toml", Revision: "abc", LoadedAt: started},
	})
	f.SetExplanation(status.Explanation{Node: status.Node{Path: "app/web"}, Rule: "a rule", Evidence: []string{"a", "b"}, Next: "soon", Hint: "wait",
		History: []event.Event{{Seq: 1, Time: noon, Type: event.AgentCrashed, Path: "app/web", Data: json.RawMessage(`{"code":1}`)}}, Tail: []string{"oops"},
		Claims: []api.Claim{{Incarnation: 3, Time: noon, Revisions: 1, Report: outcome.Report{Kind: "of later", Context: &outcome.Context{Approach: "a"}}}}})
	return f
}

// What the client returns is what the service said.
func TestRoundTrip(t *testing.T) {
	f := fleet()
	c := serve(t, f)
	ctx := t.Context()
	same := func(what string, got, want any, err error) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", what, err, d)
		}
	}
	wantStatus, _ := f.Status(ctx)
	st, err := status.Get.Call(ctx, c, api.None{})
	same("status", st, wantStatus, err)
	for _, path := range []string{"", "app/db", "web"} {
		want, _ := f.Nodes(ctx, path)
		got, err := status.List.Call(ctx, c, status.ListRequest{Path: path})
		same("nodes "+path, got, want, err)
	}
	wantWhy, _ := f.Explain(ctx, "web")
	why, err := status.Explain.Call(ctx, c, status.ExplainRequest{Path: "web"})
	same("explain", why, wantWhy, err)
	for _, a := range []control.Action{control.Start, control.Stop} {
		if _, err := control.Act.Call(ctx, c, control.ActRequest{Path: "app/db", Action: a}); err != nil {
			t.Error(a, err)
		}
	}
	for _, keep := range []bool{true, false} {
		if _, err := control.Down.Call(ctx, c, control.DownRequest{Keep: keep}); err != nil {
			t.Error(err)
		}
	}
	same("calls", f.Calls(), []string{"start app/db", "stop app/db", "down keep", "down"}, nil)

	f.Print("app/db", "one")
	f.Print("app/db", "two \x1b[1m\"<&>\"\r\u2028")
	var lines []string
	for line, err := range output.Logs(ctx, c, output.Query{Paths: []string{"db"}, Lines: 1}) {
		lines = append(lines, line.Line)
		same("log", nil, nil, err)
	}
	same("log", lines, []string{"two \x1b[1m\"<&>\"\r\u2028"}, nil)

	f.Publish(event.Event{Time: noon, Type: event.AgentStarted, Path: "app/db", Message: "a\nb", Extra: map[string]json.RawMessage{"zone": json.RawMessage(`[1]`)}})
	f.Publish(event.Event{Time: noon, Type: event.AgentCrashed, Path: "app/web"})
	for filter, want := range map[*event.Filter]uint64{
		{}: 1, {Path: "app/web"}: 2, {Types: []string{"order.fired", "agent.cr*"}}: 2, {Types: []string{"agent.started"}}: 1,
	} {
		for e, err := range feed.Events(ctx, c, event.Query{Filter: *filter}) {
			if err != nil || e.Seq != want {
				t.Errorf("%+v: event %d, %v, want %d", filter, e.Seq, err, want)
			}
			if want == 1 && (string(e.Extra["zone"]) != "[1]" || e.Message != "a\nb") {
				t.Errorf("%+v", e)
			}
			break
		}
	}
}

// Lists are never null, whatever the service returns.
func TestNoNull(t *testing.T) {
	f := statustest.New()
	c := serve(t, f)
	nodes, err := status.List.Call(t.Context(), c, status.ListRequest{})
	if nodes == nil || len(nodes) != 0 || err != nil {
		t.Errorf("%#v, %v", nodes, err)
	}
}

func TestErrorsSurvive(t *testing.T) {
	f := fleet()
	c := serve(t, f)
	ctx := t.Context()
	other := errors.New("the disk is full")
	for _, want := range []error{api.ErrNotFound, api.ErrConflict, api.ErrInvalid, api.ErrStopping, other} {
		f.SetError(fmt.Errorf("app/db: %w", want))
		errs := map[string]error{}
		_, errs["status"] = status.Get.Call(ctx, c, api.None{})
		_, errs["nodes"] = status.List.Call(ctx, c, status.ListRequest{})
		_, errs["explain"] = status.Explain.Call(ctx, c, status.ExplainRequest{Path: "app"})
		_, errs["act"] = control.Act.Call(ctx, c, control.ActRequest{Path: "app", Action: control.Stop})
		_, errs["down"] = control.Down.Call(ctx, c, control.DownRequest{})
		for _, err := range feed.Events(ctx, c, event.Query{Follow: true}) {
			errs["events"] = err
		}
		for _, err := range output.Logs(ctx, c, output.Query{Paths: []string{"app"}, Lines: 1, Follow: true}) {
			errs["logs"] = err
		}
		errs["attach"] = api.Attach(ctx, c, "app", api.Viewer{Input: strings.NewReader(""), Output: io.Discard})
		for what, err := range errs {
			if err == nil || err.Error() != "app/db: "+want.Error() || errors.Is(err, want) != (want != other) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
	}
}

// An error in the middle of a stream is distinguished from its end.
func TestErrorAfterItems(t *testing.T) {
	f := fleet()
	c := serve(t, f)
	f.Publish(event.Event{Time: noon, Type: "a.b"})
	seen := 0
	var last error
	for _, err := range feed.Events(t.Context(), c, event.Query{Follow: true}) {
		if last = err; err == nil {
			seen++
			f.SetError(fmt.Errorf("gone: %w", api.ErrNotFound))
		}
	}
	if seen != 1 || !errors.Is(last, api.ErrNotFound) {
		t.Errorf("%d events, then %v", seen, last)
	}
}

func TestNobodyListens(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "file")
	os.WriteFile(stale, nil, 0o600)
	for _, socket := range []string{filepath.Join(dir, "none.sock"), filepath.Join(dir, "nodir", "x.sock"), stale, filepath.Join(stale, "x.sock")} {
		c := api.Dial(socket)
		_, err := status.Get.Call(t.Context(), c, api.None{})
		if !errors.Is(err, api.ErrDown) || !strings.Contains(err.Error(), "coppice up") || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s: %v", socket, err)
		}
		for _, err := range feed.Events(t.Context(), c, event.Query{Follow: true}) {
			if !errors.Is(err, api.ErrDown) {
				t.Errorf("%s: events: %v", socket, err)
			}
		}
		if err := api.Attach(t.Context(), c, "a", api.Viewer{Output: io.Discard}); !errors.Is(err, api.ErrDown) {
			t.Errorf("%s: attach: %v", socket, err)
		}
		c.Close()
	}
}

// A call gives up when its context ends, whatever the daemon does.
func TestCancel(t *testing.T) {
	f := fleet()
	entered := make(chan struct{}, 1)
	f.OnAct = func(ctx context.Context, _ string, _ control.Action) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	c := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	req := control.ActRequest{Path: "app", Action: control.Stop}
	if _, err := control.Act.Call(ctx, c, req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A client refuses what is no daemon of this version.
func TestOtherServer(t *testing.T) {
	dir := t.TempDir()
	l, err := endpoint.Listen(filepath.Join(dir, "s.sock"))
	if err != nil {
		t.Skip(err)
	}
	for name, h := range map[string]http.HandlerFunc{
		"no version": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{}`)) },
		"next version": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Coppice-Api", "2")
			w.Write([]byte(`{}`))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.org/", http.StatusFound)
		},
	} {
		srv := &http.Server{Handler: h}
		ended := make(chan struct{})
		go func() { defer close(ended); srv.Serve(l) }()
		c := api.Dial(l.Addr().String())
		if _, err := status.Get.Call(t.Context(), c, api.None{}); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		srv.Close()
		l.Close()
		<-ended
		if l, err = endpoint.Listen(filepath.Join(dir, "s.sock")); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
}

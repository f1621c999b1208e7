package trigger

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// The request of the run in progress is in the store, so that the next controller knows it on whichever machine.
func TestSavedRequest(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	file := &aidefile.Agent{Path: "/Aidefile", File: aidefile.Default()}
	daemon := func() *Manager {
		m := New(Options{
			Store: s, Agents: fleet{file: file}, Logger: slog.New(slog.DiscardHandler),
			Go: func(f func(context.Context)) { f(t.Context()) },
		})
		if err := m.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	restored := func(how *supervisor.Saved) runner.RunRequest {
		m := daemon()
		m.Add("t/a", file, how, Previous{})
		return m.of("t/a").currentRequest()
	}
	running := func() *supervisor.Saved { return &supervisor.Saved{Adopt: true} }
	save := func(m *Manager) {
		t.Helper()
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, m.ops("t/a", m.of("t/a"))); err != nil {
			t.Fatal(err)
		}
	}
	m := daemon()
	m.Add("t/a", file, nil, Previous{})
	if ops := m.ops("t/a", m.of("t/a")); len(ops) != 0 {
		t.Errorf("it was never fired: %+v", ops)
	}
	a := m.of("t/a")
	q := runner.RunRequest{
		Trigger: "issue", Task: "any \xff\x00 task\n" + strings.Repeat("\x01", MaxTask-16), Issue: 7,
		Fired: time.Now().UTC().Round(0), Chain: time.Now().UTC().Round(0),
	}
	a.request, a.unsaved = q, true
	save(m)
	if ops := m.ops("t/a", a); len(ops) != 0 {
		t.Errorf("nothing has changed: %d operations", len(ops))
	}
	if got := restored(running()); !reflect.DeepEqual(got, q) {
		t.Errorf("%.300v", got)
	}
	if got := restored(nil); !reflect.DeepEqual(got, manualRequest()) {
		t.Errorf("no run is in progress: %.300v", got)
	}
	a.resetChain()
	save(m)
	if got := restored(running()); !got.Chain.After(q.Chain) || !got.Fired.Equal(q.Fired) {
		t.Errorf("the chain goes on: %v, %v", got.Chain, got.Fired)
	}

	a.request.Task, a.unsaved = strings.Repeat("x", store.MaxValue), true
	save(m) // too large for the store: an old one would be worse
	if got := restored(running()); !reflect.DeepEqual(got, manualRequest()) {
		t.Errorf("%.300v", got)
	}

	for _, damaged := range []string{"", "{", "[]", `{"task": "%"}`, "null"} {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{
			{Kind: store.Put, Key: requestKey("t/a"), Value: []byte(damaged)},
		}); err != nil {
			t.Fatal(err)
		}
		if got := restored(running()); got.Task != manualRequest().Task && got.Task != "" {
			t.Errorf("%q: %.300v", damaged, got)
		}
	}

	a.request, a.unsaved = q, true
	save(m)
	m = daemon()
	m.forgetRequests() // t/a is gone
	if kept, _, err := s.Snapshot(t.Context(), storePrefix); err != nil || len(kept) != 0 {
		t.Errorf("what is left of an agent that was removed: %+v, %v", kept, err)
	}
}

package service

import (
	"log/slog"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/queue"
	"github.com/coppice-dev/coppice/internal/token"
)

// workedBy is a Service, its store, and what it has noted.
type workedBy struct {
	t     *testing.T
	s     *Service
	store store.Store
}

func (w *workedBy) claim(path string, incarnation uint64, id string, attempt int) {
	w.t.Helper()
	ops := w.s.worked.noted(task.Event{Kind: task.Claimed, Task: task.Task{
		ID: id, Claims: attempt, Claim: &task.Holder{By: path, Incarnation: incarnation},
	}})
	if len(ops) > 0 {
		if _, err := w.store.Apply(w.t.Context(), store.Fence{}, nil, ops); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *workedBy) begin(path string, incarnation uint64, life string) {
	w.s.worked.begin(token.Caller{Path: path, Incarnation: incarnation}, life)
}

func (w *workedBy) expect(what, path string, incarnation uint64, id string, attempt int) {
	w.t.Helper()
	if gotID, got := w.s.Attempt(path, incarnation); gotID != id || got != attempt || w.s.Worked(path, incarnation) != id {
		w.t.Errorf("%s: %q, attempt %d; expected %q, %d", what, gotID, got, id, attempt)
	}
}

// restart is what a new daemon knows.
func (w *workedBy) restart() {
	w.t.Helper()
	q, err := queue.Open(w.t.Context(), queue.Options{Store: w.store, Name: "x"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer q.Close()
	w.s = &Service{queue: q, o: Options{Store: w.store, Logger: slog.New(slog.DiscardHandler)}}
	if err := w.s.load(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// The task of an incarnation is the one that it has claimed, unless there are several, and so is its attempt. The next
// daemon knows it, too.
func TestWorked(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	w := &workedBy{t, &Service{}, s}
	w.expect("before a claim", "t/a", 1, "", 0)
	w.begin("t/a", 1, "one")
	w.claim("ann", 0, "x-1", 1)
	w.expect("of a person", "ann", 0, "", 0)
	for range 2 {
		w.claim("t/a", 1, "x-1", 4)
	}
	for _, when := range []string{"", ", after a restart"} {
		w.expect("one"+when, "t/a", 1, "x-1", 4)
		w.expect("another incarnation"+when, "t/a", 2, "", 0)
		w.expect("another agent"+when, "t/b", 1, "", 0)
		w.restart()
		w.begin("t/a", 1, "one")
	}
	w.claim("t/a", 1, "x-1", 5)
	w.expect("two attempts", "t/a", 1, "x-1", 0)
	w.restart()
	w.begin("t/a", 1, "one")
	w.claim("t/a", 1, "x-1", 5)
	w.expect("again, after a restart", "t/a", 1, "x-1", 0)
	w.claim("t/a", 1, "x-2", 1)
	w.expect("two tasks", "t/a", 1, "", 0)
	w.begin("t/a", 2, "two")
	w.expect("two tasks, and the agent has started again", "t/a", 1, "", 0)
	w.claim("t/a", 2, "x-2", 2)
	w.expect("the next incarnation", "t/a", 2, "x-2", 2)
	w.expect("the one before", "t/a", 1, "", 0)
	w.restart()
	w.begin("t/a", 2, "another tree")
	w.expect("the number of another one", "t/a", 2, "", 0)
}

// What a record says that cannot be read, or was written by an earlier version, is not invented.
func TestWorkedRecords(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	w := &workedBy{t, &Service{}, s}
	ops := []store.Op{
		{Kind: store.Put, Key: workedPrefix + "/t/a", Value: []byte("no JSON")},
		{Kind: store.Put, Key: "work/tasks/x-1", Value: []byte(`{"id":"x-1","title":"x","status":"in_progress",` +
			`"claims":3,"claim":{"by":"t/b","incarnation":7,"life":"seven","at":"2026-01-01T00:00:00Z"}}`)},
	}
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, ops); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.expect("no JSON", "t/a", 1, "", 0)
	w.expect("a claim", "t/b", 7, "x-1", 3)
	w.begin("t/b", 7, "seven")
	w.expect("its agent runs", "t/b", 7, "x-1", 3)
}

package condition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)

// until returns a task that waits since start, for events after number 10.
func until(id string, kind outcome.ConditionKind, what string) task.Wait {
	return task.Wait{ID: id, Condition: outcome.Condition{Kind: kind, What: what}, Since: start, LastEvent: 10}
}

func full(path string) string { return "t/" + path }

var registry = []spec.Service{
	{Name: "registry", Check: []string{"up"}, Dir: "/p", Timeout: time.Second, Interval: time.Minute},
}

// opens returns the ids of the tasks that are to be opened.
func (s *set) opens() []string { return slices.Sorted(maps.Keys(s.met)) }

func wantOpens(t *testing.T, s *set, ids ...string) {
	t.Helper()
	if got := s.opens(); !slices.Equal(got, ids) {
		t.Errorf("%v are opened, want %v", got, ids)
	}
}

func logged(seq uint64, kind event.Type, path string, data map[string]any) event.Event {
	e := event.Event{Seq: seq, Type: kind, Path: path}
	if data != nil {
		e.Data, _ = json.Marshal(data)
	}
	return e
}

func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		what  string
		event event.Event
		opens bool
	}{
		{"the type", "agent.crashed", logged(11, event.AgentCrashed, "t/a", nil), true},
		{"before the attempt ended", "agent.crashed", logged(10, event.AgentCrashed, "t/a", nil), false},
		{"another type", "agent.crashed", logged(11, event.AgentStarted, "t/a", nil), false},
		{"a pattern", "order.*", logged(11, event.OrderFired, "orders/x", nil), true},
		{"one of several", "order.fired, agent.crashed", logged(11, event.AgentCrashed, "t/a", nil), true},
		{"the path", "agent.crashed:a", logged(11, event.AgentCrashed, "t/a", nil), true},
		{"below the path", "agent.crashed:a", logged(11, event.AgentCrashed, "t/a/b", nil), true},
		{"another path", "agent.crashed:a", logged(11, event.AgentCrashed, "t/ab", nil), false},
		{"an order", "order.completed:orders/x", logged(11, event.OrderCompleted, "orders/x", nil), true},
		{"another task", "task.closed", logged(11, event.TaskClosed, "", map[string]any{"id": "t-2"}), true},
		{"the task itself", "task.*", logged(11, event.TaskBlocked, "", map[string]any{"id": "t-1"}), false},
		{"data that is no object", "task.closed", event.Event{Seq: 11, Type: event.TaskClosed, Data: []byte(`[`)}, true},
		{"a gap", "*", logged(50, event.EventsCompacted, "", nil), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSet()
			after, news := s.replace([]task.Wait{until("t-1", outcome.EventOccurs, tt.what)}, nil, full)
			if after != 10 || !news || !s.observes() {
				t.Errorf("events after %d are observed: %v", after, news)
			}
			if opens := s.observe(tt.event); opens != tt.opens || len(s.met) > 0 != tt.opens {
				t.Errorf("opens: %v, %v", opens, s.met)
			}
		})
	}
}

// A task that is closed, or has been blocked again, is not opened for what it has waited for before.
func TestNoLongerWaits(t *testing.T) {
	s := newSet()
	a, b := until("a", outcome.EventOccurs, "task.closed"), until("b", outcome.EventOccurs, "task.closed")
	s.replace([]task.Wait{a, b}, nil, full)
	closed := logged(11, event.TaskClosed, "", nil)
	s.observe(closed)
	wantOpens(t, s, "a", "b")
	b.Since = start.Add(time.Second)
	b.LastEvent = 11
	if after, news := s.replace([]task.Wait{b}, nil, full); after != 11 || !news {
		t.Errorf("events after %d are observed: %v", after, news)
	}
	wantOpens(t, s)
	s.observe(closed)
	wantOpens(t, s)
	if _, news := s.replace([]task.Wait{b}, nil, full); news {
		t.Error("a wait that is known is new")
	}
	s.observe(logged(12, event.TaskClosed, "", nil))
	wantOpens(t, s, "b")
}

// The events of a log that was made again count from its start.
func TestLogMadeAgain(t *testing.T) {
	s := newSet()
	a := until("a", outcome.EventOccurs, "task.closed")
	a.LastEvent = 5000
	s.replace([]task.Wait{a}, nil, full)
	s.observe(logged(0, event.EventsReset, "", nil))
	s.replace([]task.Wait{a}, nil, full)
	s.observe(logged(1, event.TaskClosed, "", nil))
	wantOpens(t, s, "a")
}

// One check runs for all tasks that wait for a service, one at a time and at intervals, and it opens those that
// have waited when it began.
func TestOneCheckForAll(t *testing.T) {
	s := newSet()
	var all []task.Wait
	for i := range 1000 {
		all = append(all, until(fmt.Sprintf("t-%03d", i), outcome.ServiceUp, []string{"registry", " Registry"}[i%2]))
	}
	s.replace(all, registry, full)
	due := s.begin(0)
	if len(due) != 1 || len(s.entries) != 1 {
		t.Fatalf("%d checks are due for %d conditions", len(due), len(s.entries))
	}
	if again := s.begin(time.Hour); len(again) > 0 || s.next(time.Hour, time.Minute) != time.Minute {
		t.Error("another check runs at the same time")
	}
	s.ended(due[0], gate.Result{Exit: "exit code 7", Output: []string{"no", "connection refused"}}, time.Second, start)
	wantOpens(t, s)
	if g := s.tasks["t-001"].view(31*time.Second, start); g.Tasks != 1000 || !g.Since.Equal(start) ||
		g.Result != "exit code 7: connection refused" || !g.CheckedAt.Equal(start) ||
		!g.NextAt.Equal(start.Add(30*time.Second)) {
		t.Errorf("%+v", g)
	}
	if due := s.begin(60 * time.Second); len(due) > 0 || s.next(60*time.Second, time.Hour) != time.Second {
		t.Error("a check comes too early")
	}
	due = s.begin(61 * time.Second)
	s.replace(append(all, until("late", outcome.ServiceUp, "registry")), registry, full)
	if !s.tasks["t-001"].view(0, start).Checking {
		t.Error("no check runs")
	}
	if !s.ended(due[0], gate.Result{Open: true, Exit: "completed"}, 62*time.Second, start) || len(s.met) != 1000 {
		t.Errorf("%d tasks are opened", len(s.met))
	}
	if _, ok := s.met["late"]; ok {
		t.Error("a task is opened by a check that has begun before it waited")
	}
	if why := s.met["t-001"].why; why != "the check of the service registry has succeeded" {
		t.Error(why)
	}
}

// A check that runs while its last task is closed is not joined by another one, and opens nothing that has not
// waited for it.
func TestCheckOutlivesItsTasks(t *testing.T) {
	s := newSet()
	s.replace([]task.Wait{until("a", outcome.ServiceUp, "registry")}, registry, full)
	running := s.begin(0)
	s.replace(nil, registry, full)
	if due := s.begin(0); len(due) > 0 || s.next(0, time.Hour) != time.Hour {
		t.Error("a check is due that nothing waits for")
	}
	s.replace([]task.Wait{until("b", outcome.ServiceUp, "registry")}, registry, full)
	if due := s.begin(0); len(due) > 0 {
		t.Error("two checks run at the same time")
	}
	s.ended(running[0], gate.Result{Open: true}, time.Second, start)
	wantOpens(t, s)
	if s.next(time.Second, time.Hour) != time.Minute {
		t.Error("no check follows")
	}
	s.replace(nil, registry, full)
	if len(s.entries) != 0 {
		t.Errorf("%d conditions are kept", len(s.entries))
	}
}

// The result of a check that the file no longer has does not count.
func TestCheckIsReplaced(t *testing.T) {
	s := newSet()
	waits := []task.Wait{until("a", outcome.ServiceUp, "registry")}
	s.replace(waits, registry, full)
	running := s.begin(0)
	other := []spec.Service{{Name: "registry", Check: []string{"other"}, Interval: time.Minute}}
	s.replace(waits, other, full)
	s.ended(running[0], gate.Result{Open: true}, time.Second, start)
	wantOpens(t, s)
	if due := s.begin(time.Second); len(due) != 1 || due[0].check.command.argv[0] != "other" {
		t.Errorf("%d checks are due", len(due))
	}
}

func TestOverdue(t *testing.T) {
	s := newSet()
	asked := until("asked", outcome.CommandSucceeds, "false")
	asked.Asked = true
	s.replace([]task.Wait{
		until("event", outcome.EventOccurs, "task.closed"), asked,
		until("command", outcome.CommandSucceeds, "test -e x"),
		until("person", outcome.PersonHas, "pay"), until("service", outcome.ServiceUp, "registry"),
		until("unknown", outcome.ServiceUp, "the moon"),
	}, registry, full)
	texts := func(now time.Time) map[string]string {
		all := map[string]string{}
		for _, q := range s.overdue(now) {
			all[q.ID] = q.text
		}
		return all
	}
	if got := texts(start.Add(AskAfter - 1)); len(got) != 1 || got["unknown"] != "Does this work again: the moon?" {
		t.Errorf("%v", got)
	}
	for _, en := range s.begin(0) {
		s.ended(en, gate.Result{Exit: "exit code 7"}, 0, start)
	}
	got := texts(start.Add(AskAfter))
	if len(got) != 4 ||
		!strings.Contains(got["event"], "for the event task.closed. Does") ||
		!strings.Contains(got["command"], "for the command test -e x (the last check: exit code 7). Does") ||
		!strings.Contains(got["service"], "for the service registry (the last check: exit code 7). Does") {
		t.Errorf("%q", got)
	}
	if got := texts(start.Add(-time.Hour)); len(got) != 1 {
		t.Errorf("the clock was set back, and people are asked %v", got)
	}
}

func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		result gate.Result
		want   string
	}{
		{gate.Result{Exit: "exit code 1"}, "exit code 1"},
		{gate.Result{Exit: "exec: missing", Output: []string{"exec: missing"}}, "exec: missing"},
		{gate.Result{Exit: "exit code 1", Output: []string{"x\xff"}}, "exit code 1: x\uFFFD"},
		{gate.Result{Exit: "a", Output: []string{strings.Repeat("é", 1000)}},
			"a: " + strings.Repeat("é", 148) + "\uFFFD ..."},
	} {
		if got := describe(tt.result); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

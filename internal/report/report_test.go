package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
)

var morning = time.Date(2030, 1, 2, 8, 0, 0, 0, time.UTC)

// attempt returns an attempt that has ended some time before the morning and has taken a minute.
func attempt(before time.Duration, r outcome.Report) task.Attempt {
	end := morning.Add(-before)
	return task.Attempt{Number: 1, By: "shop/coder", BeganAt: end.Add(-time.Minute), EndedAt: end, Outcome: r}
}

// night returns what is known of a night.
func night() Gathered {
	tokens, dollars := int64(1234567), 0.5
	done := attempt(2*time.Hour, outcome.Report{Kind: outcome.Completed, Evidence: &outcome.Evidence{
		Branch: "main", Commit: strings.Repeat("1b", 20), Files: 2, Insertions: 10, Deletions: 3,
		PullRequest: "https://github.com/a/b/pull/7",
	}})
	failed := attempt(time.Hour, outcome.Report{Kind: outcome.Retryable, Context: &outcome.Context{
		Approach: "as told", Recommendation: "change the template",
		Obstacle: outcome.Obstacle{Kind: outcome.VerificationFailed, Description: "TestLogin fails"},
	}})
	next := morning.Add(time.Hour)
	g := Gathered{
		Since: morning.Add(-24 * time.Hour), Now: morning,
		Status: status.Status{
			Project: "shop", Controller: status.Controller{PID: 1}, Store: status.Store{OK: true},
			Attention: []status.Attention{
				{Path: "shop/api", State: "quarantined", Reason: "exit code 3", NextAt: &next, Command: "coppice logs shop/api"},
				{Path: "shop/asks", State: status.NeedsAnswer, Reason: "which?", Command: "coppice answer q-1"},
				{Path: "shop/team", State: "paused", Reason: "limit", Command: "coppice resume shop/team"},
				{Path: "tasks of pool web", State: "paused", Reason: "3 failed", Command: "coppice task resume web"},
			},
			Inbox: status.Inbox{Mail: 2},
		},
		Questions: []question.Question{
			{ID: "q-1", From: "shop/asks", Text: "which?"}, {ID: "q-2", From: "task/shop-5", Text: "shop-5: may I?"},
			{ID: "q-3", From: "shop/team", Text: "go on?"}, {ID: "q-4", From: "tasks/web", Text: "resume?"},
		},
		Parked: []task.Task{
			{ID: "shop-4", Title: "Burns", Status: task.Parked, Reason: "claimed 3 times"},
			{ID: "shop-5", Title: "Asks", Status: task.Parked, Reason: "escalated"},
		},
		Closed: []task.Task{
			{ID: "shop-1", Title: "Fix", Status: task.Closed, Claims: 2, ClosedAt: morning.Add(-3 * time.Hour), ClosedBy: "ann"},
			{ID: "shop-2", Title: "Test", Status: task.Closed, Outcome: task.Completed, Claims: 1, ClosedAt: done.EndedAt},
			{ID: "shop-3", Title: "Drop", Status: task.Closed, Outcome: task.Cancelled, ClosedAt: morning, Reason: "no use"},
		},
		Tried: []task.Task{{ID: "shop-6", Title: "Login", Status: task.Deferred, Claims: 1}},
		Waiting: []task.Task{
			{ID: "shop-6", Title: "Login", Status: task.Deferred},
			{ID: "shop-7", Title: "Deploy", Status: task.Blocked,
				Condition: &outcome.Condition{Kind: outcome.ServiceUp, What: "CI"}},
			{ID: "shop-8", Title: "Later", Status: task.Deferred, NotBefore: next},
			{ID: "shop-9", Title: "Never", Status: task.Deferred},
			{ID: "shop-10", Title: "Chain", Status: task.Blocked, WaitsFor: []string{"shop-7", "shop-8"}},
		},
		Ready: 3, InProgress: 1,
		Attempts: map[string][]task.Attempt{"shop-2": {done}, "shop-6": {failed}},
		Cost: cost.Report{
			Since: "2030-01-01", Until: "2030-01-02",
			Total: cost.Row{Calls: 2, UnknownTokens: 1, Tokens: &tokens, Dollars: &dollars},
			Rows: []cost.Row{
				{Name: "shop/coder", Calls: 1, Tokens: &tokens, Dollars: &dollars},
				{Name: "shop/plain", Calls: 1, UnknownDollars: 1},
			},
		},
	}
	for _, e := range []event.Event{
		{Type: event.AgentStarted, Path: "shop/coder"},
		event.Event{Type: event.AgentStarted, Path: "shop/coder"}.With(event.Started{Restart: true}),
		{Type: event.AgentCrashed, Path: "shop/api", Message: "shop/api crashed: exit code 3", Time: morning},
		{Type: event.AgentStartFailed, Path: "shop/api", Message: "shop/api could not be started", Time: morning},
		{Type: event.AgentLost, Path: "shop/coder"},
		{Type: event.AgentExited, Path: "shop/coder"},
		{Type: event.EventsCompacted},
	} {
		g.Runs.Add(e)
	}
	return g
}

func TestNew(t *testing.T) {
	t.Parallel()
	r := New(night())
	var needs []string
	for _, n := range r.Needs.Shown {
		needs = append(needs, fmt.Sprintf("%s %s: %s -> %s", n.Subject, n.State, n.Text, n.Command))
	}
	if got, want := strings.Join(needs, "\n"), `shop/api quarantined: exit code 3 -> coppice logs shop/api
shop/team paused: limit -> coppice resume shop/team
tasks of pool web paused: 3 failed -> coppice task resume web
q-1 question: shop/asks asks: which? -> coppice answer q-1
q-2 question: task/shop-5 asks: shop-5: may I? -> coppice answer q-2
shop-4 parked: Burns (claimed 3 times) -> coppice task show shop-4
inbox mail: unread messages: 2 -> coppice inbox`; got != want {
		t.Errorf("needs:\n%s\nwant\n%s", got, want)
	}
	if c := r.Completed.Shown; len(c) != 2 || c[0].ID != "shop-2" || c[0].By != "shop/coder" || c[0].Seconds != 60 ||
		c[1].ID != "shop-1" || c[1].By != "ann" || c[1].Attempts != 2 || c[1].Seconds != 0 {
		t.Errorf("completed: %+v", c)
	}
	const change = "main 1b1b1b1b1b, 2 files +10 -3, https://github.com/a/b/pull/7"
	if c := r.Completed.Shown; c[0].Change.String() != change || c[1].Change != nil || c[1].Change.String() != "" ||
		!strings.Contains(r.Markdown(), "  - change: `"+change+"`\n") {
		t.Errorf("changes: %+v, %+v", c[0].Change, c[1].Change)
	}
	if c := (&Change{Commit: "1b", Files: 1}).String(); c != "1b, 1 file +0 -0" {
		t.Errorf("%s", c)
	}
	if c := r.Cancelled.Shown; len(c) != 1 || c[0].ID != "shop-3" || c[0].Reason != "no use" {
		t.Errorf("cancelled: %+v", c)
	}
	if c := r.Tried.Shown; len(c) != 1 || c[0].Outcome != outcome.Retryable || c[0].Status != task.Deferred ||
		c[0].Obstacle != "verification failed: TestLogin fails" || c[0].Recommendation != "change the template" {
		t.Errorf("tried: %+v", c)
	}
	var waits []string
	for _, w := range r.Waiting.Shown {
		waits = append(waits, w.ID+" "+w.For)
	}
	if got, want := strings.Join(waits, "\n"), "shop-7 service: CI\nshop-8 \nshop-9 a person, who opens it\n"+
		"shop-10 tasks: shop-7, shop-8"; got != want {
		t.Errorf("waiting:\n%s", got)
	}
	if got := r.Runs; got.Count != (Count{Starts: 2, Restarts: 1, Failures: 2, Lost: 1}) || len(got.Agents.Shown) != 2 ||
		got.Agents.Shown[0].LastFailure != "could not be started" || got.Agents.Shown[1].Path != "shop/coder" {
		t.Errorf("runs: %+v", got)
	}
	if got, want := r.Summary(), "7 need a person, 2 completed, 1 cancelled, 1 tried and not done, 4 waiting, "+
		"1 in progress, 3 ready, >= 1,234,567 tokens, $0.50, 2 starts, 2 failures"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if ids := (&Gathered{Closed: night().Closed, Tried: night().Tried}).detailed(); !slices.Equal(ids,
		[]string{"shop-2", "shop-1", "shop-3", "shop-6"}) {
		t.Errorf("%v", ids)
	}
}

// Without a daemon, the first need is to start it.
func TestNothing(t *testing.T) {
	t.Parallel()
	r := New(Gathered{Since: morning.Add(-time.Hour), Now: morning})
	if r.Needs.Total != 1 || r.Needs.Shown[0].Command != "coppice up -d" || r.Summary() != "1 needs a person" {
		t.Errorf("%+v", r.Needs)
	}
	r = New(Gathered{Status: status.Status{Controller: status.Controller{PID: 1}}})
	if r.Summary() != "nothing has happened" {
		t.Error(r.Summary())
	}
	// Lists are arrays for programs, also if they are empty.
	if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}

// A report is bounded, however much there is and however long the texts are.
func TestBounds(t *testing.T) {
	t.Parallel()
	g := night()
	long := strings.Repeat("ä\x1b[31m`|\n@all ", 150)
	g.Closed, g.Tried, g.Waiting, g.Parked, g.Questions, g.Cost.Rows = nil, nil, nil, nil, nil, nil
	g.Runs = Tally{}
	at := attempt(time.Hour, outcome.Report{Kind: outcome.Kind(long), Context: &outcome.Context{
		Obstacle: outcome.Obstacle{Kind: outcome.OtherObstacle, Description: long}, Recommendation: long,
	}})
	at.By = long
	for i := range MaxListed {
		one := task.Task{ID: fmt.Sprint(i), Title: long, Reason: long, Status: task.Closed, ClosedBy: long}
		g.Closed = append(g.Closed, one)
		one.Status, one.WaitsFor = task.Deferred, []string{long}
		one.ID = fmt.Sprint("t", i)
		g.Tried, g.Parked = append(g.Tried, one), append(g.Parked, one)
		one.ID = fmt.Sprint("w", i)
		g.Waiting = append(g.Waiting, one)
	}
	for _, id := range g.detailed() {
		g.Attempts[id] = slices.Repeat([]task.Attempt{at}, task.MaxAttempts)
	}
	for i := range 1000 {
		g.Cost.Rows = append(g.Cost.Rows, cost.Row{Name: fmt.Sprint(i, long)})
	}
	counted := 0
	failed := event.Event{Type: event.AgentCrashed, Message: "it failed", Time: morning}
	for failed.Path = long; g.Runs.Add(failed); failed.Path = fmt.Sprint(counted%999, "/", long) {
		counted++
	}
	r := New(g)
	text, err := json.Marshal(r)
	if err != nil || len(text) > 1<<20 || len(r.Markdown()) > 1<<20 {
		t.Errorf("%d bytes of JSON, %d of Markdown, %v", len(text), len(r.Markdown()), err)
	}
	if counted+1 != MaxEvents || r.Runs.Failures != MaxEvents || !r.Runs.Until.Equal(morning) ||
		r.Runs.Agents.More() != 950 {
		t.Errorf("%d events counted: %+v", counted, r.Runs.Count)
	}
	for list, more := range map[string]int{
		"completed": r.Completed.More(), "tried": r.Tried.More(), "waiting": r.Waiting.More(),
	} {
		if more != MaxListed-MaxShown {
			t.Errorf("%s: %d more", list, more)
		}
	}
	if !r.Completed.AtLeast || !r.Tried.AtLeast || !r.Waiting.AtLeast || !r.Needs.AtLeast ||
		!strings.Contains(r.Summary(), ">= 20,000 completed") {
		t.Error(r.Summary())
	}
	if got := r.Tried.Shown[0]; !utf8.ValidString(got.Obstacle) || strings.ContainsAny(got.Obstacle+got.Title, "\x1b\n") {
		t.Errorf("%+q", fmt.Sprint(got))
	}
}

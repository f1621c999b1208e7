package test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// detail returns a task with its attempts.
func (f *fleet) detail(id string) task.Detail {
	f.t.Helper()
	d, err := task.Show.Call(f.t.Context(), f.client(), task.ShowRequest{ID: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// questions returns the open questions.
func (f *fleet) questions() []question.Question {
	f.t.Helper()
	var inbox struct{ Questions []question.Question }
	if err := json.Unmarshal([]byte(f.do("inbox", "--json")), &inbox); err != nil {
		f.t.Fatal(err)
	}
	return inbox.Questions
}

// openQuestion waits for the only open question, and returns it.
func (f *fleet) openQuestion() (q question.Question) {
	f.t.Helper()
	eventually(f.t, "one question", func() bool {
		all := f.questions()
		if len(all) == 1 {
			q = all[0]
		}
		return len(all) == 1
	})
	return q
}

// A task that is tried again and again: each attempt is kept with its context, what people are asked survives the
// daemon, and their answer reaches the next attempt.
func TestTaskOutcomes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	id := f.add("The login", "--pool", "a")
	next := f.add("next", "--depends-on", id)

	f.wantAgentCode(0, "a", 1, "task", "claim")
	if out := f.wantAgentCode(exitUsage, "a", 1, "outcome", "retryable"); !strings.Contains(out,
		"missing --approach, --obstacle") {
		t.Errorf("an outcome without a context: %s", out)
	}
	if got := f.task(id); got.Claim == nil {
		t.Errorf("%+v", got)
	}
	out := f.wantAgentCode(0, "a", 1, "outcome", "retryable", "--approach", "changed the parser",
		"--obstacle", `{"kind":"verification_failed","description":"TestLogin fails"}`, "--discovery",
		"login.go is generated")
	if !strings.HasPrefix(out, id+" is ") {
		t.Errorf("%s", out)
	}
	eventually(t, "the end of the pause", func() bool { return f.task(id).Ready })
	shown := f.do("task", "show", id)
	for _, want := range []string{"ATTEMPT", "retryable: verification failed: TestLogin fails",
		"login.go is generated"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}

	f.wantAgentCode(0, "a", 1, "task", "claim", id)
	f.wantAgentCode(0, "a", 1, "outcome", "escalated", "--approach", "x", "--obstacle", "the API has users",
		"--question", "May I remove the API?")
	q := f.openQuestion()
	if q.From != "task/"+id || !strings.Contains(q.Text, "May I remove the API?") {
		t.Errorf("%+v", q)
	}
	f.crash()
	f.do("up", "-d")
	if again := f.openQuestion(); again.ID != q.ID {
		t.Errorf("asked again: %+v", again)
	}
	f.wantAgentCode(exitUsage, "a", 1, "task", "approve", id)
	f.do("answer", q.ID, "no, deprecate it")
	eventually(t, "the answer", func() bool { return f.task(id).Ready })
	if all := f.questions(); len(all) > 0 {
		t.Errorf("still asked: %+v", all)
	}
	if out := f.wantAgentCode(0, "a", 1, "task", "show", id); !strings.Contains(out, "no, deprecate it") {
		t.Errorf("%s", out)
	}

	f.wantAgentCode(0, "a", 1, "task", "claim", id)
	f.wantAgentCode(0, "a", 1, "outcome", "decomposed", "--approach", "x", "--obstacle", "too large", "--subtask",
		"b: the parser", "--subtask", "c: the lexer")
	kids := f.detail(id).Children
	if len(kids) != 2 {
		t.Fatalf("%v", kids)
	}
	tree := f.do("task", "tree", id)
	if !strings.Contains(tree, "├─ "+kids[0]) || !strings.Contains(tree, "└─ "+kids[1]) ||
		!strings.Contains(tree, "the lexer") {
		t.Errorf("%s", tree)
	}
	f.wantAgentCode(0, "a", 1, "task", "claim", kids[0])
	f.wantAgentCode(0, "a", 1, "task", "claim", kids[1])
	if out := f.wantAgentCode(exitUsage, "a", 1, "outcome", "completed"); !strings.Contains(out,
		"has claimed several tasks") {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(0, "a", 1, "outcome", "completed", "--task", kids[0])
	if got := f.task(next); got.Ready {
		t.Errorf("%+v", got)
	}

	// The agent dies without a word about the other one.
	exectest.Signal(t, -f.node("t/a").PID, syscall.SIGKILL)
	eventually(t, "the end of the attempt", func() bool { return len(f.detail(kids[1]).Attempts) == 1 })
	d := f.detail(kids[1])
	if a := d.Attempts[0]; a.ReportedBy != "controller" || a.By != "t/a" || a.Outcome.Kind != outcome.Retryable ||
		a.Outcome.Context.Obstacle.Kind != outcome.Crash || !strings.Contains(a.Outcome.Context.Obstacle.Description,
		"SIGKILL") {
		t.Errorf("%+v", a)
	}
	f.token("a", 2)
	eventually(t, "the end of the pause", func() bool { return f.task(kids[1]).Ready })
	f.wantAgentCode(0, "a", 2, "task", "claim", kids[1])
	f.wantAgentCode(0, "a", 2, "outcome", "completed", "--summary", "done")
	if got := f.task(id); got.Status != task.Closed || got.Outcome != task.Completed ||
		got.Reason != "its 2 subtasks are completed" {
		t.Errorf("%+v", got)
	}
	if got := f.task(next); !got.Ready {
		t.Errorf("%+v", got)
	}
	events := f.do("events", "--type", "task.*", "--json")
	for _, want := range []string{`"task.escalated"`, `"task.decomposed"`, `"attempt_outcome":"retryable"`,
		`"obstacle":"verification_failed"`} {
		if !strings.Contains(events, want) {
			t.Errorf("no %s in\n%s", want, events)
		}
	}
}

// Three tasks that fail pause their pool, over a crash of the daemon, until a person answers. One task decides then.
func TestPausedPool(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	var ids []string
	for range 4 {
		ids = append(ids, f.add("x", "--pool", "a"))
	}
	fail := func(id string) {
		t.Helper()
		eventually(t, "the end of the pause", func() bool { return f.task(id).Ready })
		f.wantAgentCode(0, "a", 1, "task", "claim", id)
		f.wantAgentCode(0, "a", 1, "outcome", "retryable", "--approach", "x", "--obstacle",
			`{"kind":"verification_failed","description":"red"}`)
	}
	for _, id := range ids[:3] {
		fail(id)
	}
	paused := func() {
		t.Helper()
		for args, want := range map[string]string{
			"status": "tasks of pool a", "task ls": "paused", "task show " + ids[3]: "coppice task resume a",
			"explain a": "the tasks of its pool a are paused: 3 tasks have failed within 5m0s",
			"ps":        "its tasks are paused",
		} {
			if out := f.do(strings.Fields(args)...); !strings.Contains(out, want) {
				t.Errorf("%s does not say %q:\n%s", args, want, out)
			}
		}
		if out := f.wantAgentCode(exitFailure, "a", 1, "task", "claim"); !strings.Contains(out, "no task is ready") {
			t.Errorf("%s", out)
		}
	}
	paused()
	q := f.openQuestion()
	f.crash()
	f.up() // which says that the pool is paused
	paused()
	if again := f.openQuestion(); again.ID != q.ID || q.From != "tasks/a" {
		t.Errorf("%+v, %+v", q, again)
	}
	f.do("answer", q.ID, "resume")
	fail(ids[3])
	eventually(t, "another question", func() bool { all := f.questions(); return len(all) == 1 && all[0].ID != q.ID })
	f.do("task", "resume", "a")
	eventually(t, "the end of the pause", func() bool { return f.task(ids[3]).Ready })
	if out := f.do("ps"); !strings.Contains(out, "one of its tasks is tried") {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(0, "a", 1, "task", "claim", ids[3])
	if got := f.task(ids[0]); got.Ready {
		t.Errorf("two tasks decide: %+v", got)
	}
	f.wantAgentCode(0, "a", 1, "outcome", "completed")
	eventually(t, "that the pool is open", func() bool { return f.task(ids[0]).Ready })
	eventually(t, "no question", func() bool { return len(f.questions()) == 0 })
	f.do("task", "pause", "a", "--reason", "deploy")
	if out := f.do("status"); !strings.Contains(out, "deploy") {
		t.Errorf("%s", out)
	}
	if out := f.do("task", "resume", "a"); !strings.Contains(out, "are claimed") {
		t.Errorf("%s", out)
	}
	if all := f.events("task.pool_paused", ""); len(all) != 3 {
		t.Errorf("%+v", all)
	}
}

// People approve and reject what waits for them, and what depends on a cancelled task does what its rule says.
func TestApproveReject(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	id := f.add("x", "--pool", "a")
	after := f.add("after", "--depends-on", id)
	with := f.add("with", "--depends-on", id, "--if-dependency-fails", "cancel")
	ask := func() {
		t.Helper()
		f.wantAgentCode(0, "a", 1, "task", "claim", id)
		f.wantAgentCode(0, "a", 1, "outcome", "blocked", "--approach", "x", "--obstacle", "no key", "--until",
			"person=put the key into the vault")
		f.openQuestion()
		if out := f.do("task", "show", id); !strings.Contains(out,
			"blocked until the person: put the key into the vault") ||
			!strings.Contains(out, "coppice task approve "+id) {
			t.Errorf("%s", out)
		}
	}
	ask()
	f.crash() // the next daemon withdraws the question, too
	f.do("up", "-d")
	f.do("task", "approve", id, "--reason", "it is there")
	if got := f.task(id); got.Status != task.Open && got.Status != task.Deferred || got.Question != nil {
		t.Errorf("%+v", got)
	}
	eventually(t, "no question", func() bool { return len(f.questions()) == 0 })
	eventually(t, "the end of the pause", func() bool { return f.task(id).Ready })
	ask()
	f.do("task", "reject", id, "--reason", "not needed")
	if got := f.task(id); got.Status != task.Closed || got.Outcome != task.Cancelled || got.Reason != "not needed" {
		t.Errorf("%+v", got)
	}
	if got := f.task(with); got.Outcome != task.Cancelled {
		t.Errorf("%+v", got)
	}
	if out := f.do("task", "show", after); !strings.Contains(out, id+" was not completed: coppice task reopen "+id) {
		t.Errorf("%s", out)
	}
	f.wantCode(exitFailure, "task", "approve", after)
	f.wantCode(exitUsage, "task", "close", after, "--outcome", "failed")
	f.do("task", "edit", after, "--if-dependency-fails", "continue")
	if got := f.task(after); !got.Ready {
		t.Errorf("%+v", got)
	}
}

// What five tasks of a pool have met within a day is one question, over a crash of the daemon, until a person answers.
func TestObstacleOfManyTasks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[daemon]\nmax_failed_tasks = 0\n"+tokenKeeperTOML("a"))
	f.do("up", "-d")
	meet := func(n int) (id string) {
		t.Helper()
		for range n {
			id = f.add("x", "--pool", "a")
			f.wantAgentCode(0, "a", 1, "task", "claim", id)
			f.wantAgentCode(0, "a", 1, "outcome", "deferred", "--not-before", "1h", "--approach", "x", "--obstacle",
				`{"kind":"missing_prerequisite","task_id":"shop-7","reason":"the schema"}`)
		}
		return id
	}
	meet(4)
	if all := f.questions(); len(all) > 0 {
		t.Errorf("four tasks: %+v", all)
	}
	last := meet(1)
	eventually(t, "a question", func() bool { return len(f.questions()) == 1 })
	q := f.openQuestion()
	for _, want := range []string{"missing prerequisite (shop-7)", last, "the schema"} {
		if !strings.Contains(q.Text, want) {
			t.Errorf("it does not say %q: %s", want, q.Text)
		}
	}
	f.crash()
	f.up()
	meet(1)
	if again := f.openQuestion(); again.ID != q.ID {
		t.Errorf("asked again: %+v", again)
	}
	f.do("answer", q.ID, "leave")
	eventually(t, "the end of the question", func() bool { return len(f.questions()) == 0 })
	eventually(t, "that it is counted anew", func() bool { return len(f.pool("a").Obstacles) == 0 })
	meet(5)
	eventually(t, "another question", func() bool { return len(f.questions()) == 1 })
	f.do("answer", f.openQuestion().ID, "pause")
	eventually(t, "the pause", func() bool { return f.pool("a").State == pools.Paused })
	if out := f.do("status"); !strings.Contains(out, "many of its tasks have met the same obstacle") {
		t.Errorf("%s", out)
	}
}

// pool returns what is known of a pool.
func (f *fleet) pool(name string) pools.Pool {
	f.t.Helper()
	all, err := task.Pools.Call(f.t.Context(), f.client(), api.None{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	return pools.Pool{}
}

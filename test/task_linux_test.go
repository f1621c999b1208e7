package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/task"
)

// task returns a task of the daemon.
func (f *fleet) task(id string) task.Task {
	f.t.Helper()
	d, err := task.Show.Call(f.t.Context(), f.client(), task.ShowRequest{ID: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return d.Task
}

// add adds a task and returns its id.
func (f *fleet) add(args ...string) string {
	f.t.Helper()
	return strings.TrimSpace(f.do(append([]string{"task", "add"}, args...)...))
}

// A task goes to an agent, back when that is killed, to its successor, and is done. Requests of the
// dead incarnation are rejected.
func TestTasks(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	f := newFleet(t, tokenKeeperTOML("a"), tokenKeeperTOML("b"))
	f.do("up", "-d")
	if out := f.do("task", "ls", "--json"); out != "[]\n" {
		t.Errorf("%q", out)
	}
	f.wantAgentCode(1, "a", 1, "hook")
	if out := f.wantAgentCode(1, "a", 1, "hook", "--json"); out != "[]\n" {
		t.Errorf("%q", out)
	}
	first := f.add("The", "first", "--pool", "a", "-p", "1", "-l", "bug", "-m", "what is\nto be done")
	second := f.add("second", "--depends-on", first, "--assignee", "a")
	if !strings.HasPrefix(first, "t-") || first == second {
		t.Errorf("%s, %s", first, second)
	}
	if out := f.wantAgentCode(0, "a", 1, "hook"); !strings.Contains(out, first+" is ready in your pool: The first") || strings.Contains(out, second) {
		t.Errorf("%s", out)
	}
	var notices []notice.Notice
	if out := f.wantAgentCode(0, "a", 1, "hook", "--json"); json.Unmarshal([]byte(out), &notices) != nil || len(notices) != 1 || notices[0].Kind != "task" || notices[0].ID != first {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(1, "b", 1, "hook")
	if out := f.wantAgentCode(1, "b", 1, "task", "claim"); !strings.Contains(out, "no task is ready") {
		t.Errorf("%s", out)
	}
	if out := f.wantAgentCode(0, "a", 1, "task", "claim"); out != first+"  The first\n" {
		t.Errorf("%s", out)
	}
	if out := f.wantAgentCode(0, "a", 1, "hook"); !strings.Contains(out, first+" is yours and in progress") {
		t.Errorf("%s", out)
	}
	if out := f.wantAgentCode(1, "b", 1, "task", "close", first); !strings.Contains(out, "in progress at t/a, incarnation 1") {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(0, "a", 1, "task", "comment", first, "half of it is done")
	for args, want := range map[string]string{
		"task ls":            "in_progress  t/a",
		"task show " + first: "in progress at t/a, incarnation 1",
		"task ls -a a":       second,
		"task ls --status open,in_progress --label bug": first,
		"task ls --active --json":                       first,
		"task ls --active --count --pool a":             "1\n",
		"task ls --count":                               "2\n",
		"task ls --count -n 1":                          "1\n",
	} {
		if out := f.do(strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", args, want, out)
		}
	}
	out := f.do("task", "show", first)
	for _, want := range []string{"The first", "what is\nto be done", "t/a, ", "half of it is done", "labels     bug"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	env := f.environ("a", 1)
	exectest.Signal(t, -f.node("t/a").PID, syscall.SIGKILL)
	eventually(t, "that it is open again", func() bool { return f.task(first).Ready })
	f.token("a", 2)
	if out, code := f.runAs(env, "", "task", "close", first); code != exitAuth {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := f.runAs(env, "", "hook"); code != exitAuth || !strings.Contains(out, "over") {
		t.Errorf("exit code %d: %s", code, out)
	}
	f.wantAgentCode(0, "a", 2, "task", "claim", first)
	f.wantAgentCode(0, "a", 2, "task", "close", first, "-r", "done at last")
	if got := f.task(first); got.Status != task.Closed || got.ClosedBy != "t/a" || got.Claims != 2 || got.Reason != "done at last" {
		t.Errorf("%+v", got)
	}
	if out := f.wantAgentCode(0, "a", 2, "hook"); !strings.Contains(out, second+" is assigned to you: second") {
		t.Errorf("%s", out)
	}
	var told []string
	for e, err := range feed.Events(t.Context(), f.client(), event.Query{Filter: event.Filter{Types: []string{"task.*"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, strings.TrimPrefix(string(e.Type), "task.")+" "+e.Path)
	}
	want := []string{"created ", "created ", "claimed t/a", "commented t/a", "released t/a", "claimed t/a", "closed t/a"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for args, code := range map[string]int{
		"task show nope": exitNotFound, "task add": exitUsage, "task edit " + first + " --status closed": exitUsage, "task claim " + first: exitFailure,
		"task dep add " + second + " " + second: exitUsage, "task ls --status dome": exitUsage, "task close " + second + " --outcome complete": exitUsage,
		"task add x -p 9": exitUsage, "task add x --not-before soon": exitUsage,
	} {
		f.wantCode(code, strings.Fields(args)...)
	}
}

// A claim belongs to the incarnation: it survives the daemon. The next daemon releases it if the
// agent has died meanwhile.
func TestClaimOverDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("lives"), tokenKeeperTOML("dies"))
	f.do("up", "-d")
	mine, lost := f.add("mine", "-a", "lives"), f.add("lost", "-a", "dies")
	f.wantAgentCode(0, "lives", 1, "task", "claim", mine)
	f.wantAgentCode(0, "dies", 1, "task", "claim", lost)
	pid := f.node("t/dies").PID
	f.crash()
	exectest.Signal(t, -pid, syscall.SIGKILL)
	waiting := f.asAgent("lives", 1, "task", "comment", mine, "I am still here") // until a daemon answers
	f.up()
	waiting.wantExit(0)
	eventually(t, "that it is open again", func() bool { return f.task(lost).Ready })
	if got := f.task(mine); got.Claim == nil || got.Claim.By != "t/lives" || got.Claim.Incarnation != 1 || got.Comments != 1 {
		t.Errorf("%+v", got)
	}
	f.wantAgentCode(0, "lives", 1, "task", "close", mine)
}

// The daemon is killed repeatedly while tasks are added, claimed and closed. Everything
// acknowledged is there.
func TestTasksKill(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[daemon]\nmax_failed_tasks = 0\n\n", tokenKeeperTOML("a"))
	f.do("up", "-d")
	const fastChecks, writers = 4, 4
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	token := f.token("a", 1)
	var mu sync.Mutex
	made, closed := map[string]string{}, map[string]bool{} // acknowledged
	for round := range fastChecks {
		var wg sync.WaitGroup
		enough := make(chan struct{})
		var once sync.Once
		n := 0
		for w := range writers {
			wg.Go(func() {
				people, agent := api.Dial(socket), api.DialAgent(socket, token)
				defer people.Close()
				defer agent.Close()
				for i := 0; ; i++ {
					ctx := context.Background()
					text := fmt.Sprintf("text %d %d %d ", round, w, i) + strings.Repeat("x", 5000)
					draft := task.Draft{Title: fmt.Sprint(i), Text: text, Pool: "a", Key: fmt.Sprint(round, w, i)}
					added, err := task.Add.Call(ctx, people, task.AddRequest{Task: draft})
					if err != nil {
						return // it was killed
					}
					mu.Lock()
					made[added.ID] = text
					if n++; n == 40*(round+1) {
						once.Do(func() { close(enough) })
					}
					mu.Unlock()
					got, err := task.Claim.Call(ctx, agent, task.ClaimRequest{})
					if err != nil {
						return
					}
					if len(got) == 0 {
						continue
					}
					act := []task.Action{task.Close, task.Release}[i%2]
					if _, err := task.Act.Call(ctx, agent, task.ActRequest{ID: got[0].ID, Action: act}); err != nil {
						return
					}
					mu.Lock()
					if act == task.Close {
						closed[got[0].ID] = true
					}
					mu.Unlock()
				}
			})
		}
		stopped := make(chan struct{})
		go func() { wg.Wait(); close(stopped) }()
		select {
		case <-enough:
		case <-stopped:
			t.Fatal("the writers have stopped before the daemon was killed")
		}
		f.crash()
		<-stopped
		f.do("up", "-d")
		all, err := task.ListAll(t.Context(), f.client(), task.Filter{All: true}, 0)
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]task.Task{}
		for _, task := range all {
			there[task.ID] = task
		}
		for id := range closed {
			if there[id].Status != task.Closed {
				t.Errorf("%s was closed, and is %s", id, there[id].Status)
			}
		}
		for id := range made {
			if there[id].ID == "" {
				t.Errorf("%s is lost", id)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(there)) {
			d, err := task.Show.Call(t.Context(), f.client(), task.ShowRequest{ID: id})
			switch {
			case err != nil:
				t.Fatal(err)
			case made[id] != "" && d.Text != made[id], len(d.Text) < 5000:
				t.Errorf("%s has another text", id)
			case d.Task.Status == task.InProgress && d.Task.Claim == nil:
				t.Errorf("%s is half claimed", id)
			}
		}
		// An unacknowledged task that exists was the last of its writer.
		if len(there) > len(made)+writers*(round+1) {
			t.Errorf("there are %d tasks, %d were acknowledged", len(there), len(made))
		}
	}
	if len(closed) == 0 {
		t.Error("nothing was closed")
	}
	created := f.events(event.TaskCreated, "")
	all, err := task.ListAll(t.Context(), f.client(), task.Filter{All: true}, 0)
	if err != nil || len(created) != len(all) {
		t.Errorf("%d tasks, and %d events of their making; %v", len(all), len(created), err)
	}
}

// Beads from a file are exported unchanged.
func TestTaskFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	const beads = `{"id":"bd-1","title":"One","description":"d","status":"open","priority":1,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","strange":{"b":1,"a":[2.0]}}
{"id":"bd-2","title":"Two","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"blocks"}]}
`
	write(t, filepath.Join(f.dir, "issues.jsonl"), beads)
	if out := f.do("task", "import", "issues.jsonl", "--check"); out != "2 tasks, all valid\n" {
		t.Errorf("%s", out)
	}
	if out := f.do("task", "export"); out != "" {
		t.Errorf("%s", out)
	}
	if out := f.do("task", "import", "issues.jsonl"); out != "2 tasks added, 0 changed, 0 unchanged\n" {
		t.Errorf("%s", out)
	}
	if out := f.do("task", "export"); out != beads {
		t.Errorf("%s", out)
	}
	f.do("task", "export", "-o", "out.jsonl")
	if data, err := os.ReadFile(filepath.Join(f.dir, "out.jsonl")); err != nil || string(data) != beads {
		t.Errorf("%s, %v", data, err)
	}
	r := newCoppice(t, "task", "import", "--json")
	r.Stdin = strings.NewReader(beads)
	r.start(f.dir)
	r.wantExit(0)
	var report struct{ Created, Updated, Unchanged, Skipped int }
	if err := json.Unmarshal([]byte(r.out.String()), &report); err != nil || report.Unchanged != 2 || report.Created != 0 {
		t.Errorf("%s, %v", r.out, err)
	}
	write(t, filepath.Join(f.dir, "bad.jsonl"), beads+"{\"id\":\"bd-3\"}\n{\"id\":\"bd-4\",\"title\":\"Four\"}\nnothing\n")
	out := f.wantCode(exitUsage, "task", "import", "bad.jsonl")
	for _, want := range []string{"nothing was imported", "\nbad.jsonl:3:1: ", "title is missing", "\nbad.jsonl:5:2: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := task.Show.Call(t.Context(), f.client(), task.ShowRequest{ID: "bd-4"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if out := f.do("task", "import", "bad.jsonl", "--skip-bad"); !strings.Contains(out, "1 task added, 0 changed, 2 unchanged, 2 skipped") {
		t.Errorf("%s", out)
	}
	if got := f.task("bd-2"); got.Ready || !slices.Equal(got.WaitsFor, []string{"bd-1"}) {
		t.Errorf("%+v", got)
	}
	f.wantCode(exitUsage, "task", "import", "nowhere.jsonl")
	f.wantCode(exitUsage, "task", "import", ".")
}

// Tasks of orders are removed some time after they were closed.
func TestTaskPurge(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[daemon]\nwisp_gc_interval = \"20ms\"\nwisp_ttl = \"30ms\"\n\n", tokenKeeperTOML("a"))
	f.do("up", "-d")
	gone, kept := f.add("gone", "--ephemeral"), f.add("kept")
	f.do("task", "close", gone, kept)
	eventually(t, "the end of it", func() bool {
		_, err := task.Show.Call(t.Context(), f.client(), task.ShowRequest{ID: gone})
		return errors.Is(err, api.ErrNotFound)
	})
	if f.task(kept).Status != task.Closed {
		t.Error("that one should be kept")
	}
	if all := f.events(event.TaskPurged, ""); len(all) != 1 {
		t.Errorf("%v", all)
	}
}

// The examples in docs/tasks.md work.
func TestTasksDoc(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "tasks.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, claims, _ := strings.Cut(string(data), "## Tasks that fail")
	_, old, _ := strings.Cut(claims, "## Old tasks")
	f := newFleet(t, block(t, old, "toml"), tokenKeeperTOML("worker"))
	f.do("validate")
	f.rewrite(block(t, claims, "toml"), tokenKeeperTOML("worker"))
	f.do("up", "-d")
	person, agent, there := strings.Cut(block(t, string(data), "sh"), "# in an agent")
	if !there {
		t.Fatal("there is nothing for agents")
	}
	_, agent, _ = strings.Cut(agent, "\n")
	id := ""
	for n, lines := range []string{person, agent} {
		for line := range strings.Lines(lines) {
			if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
				continue
			}
			cmd := exec.Command("sh", "-c", strings.Replace(line, " ID ", " "+id+" ", 1))
			cmd.Dir = f.dir
			if n == 1 {
				cmd.Env = f.environ("worker", 1)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v: %s", line, err, out)
			}
			if strings.Contains(line, "task claim") {
				id, _, _ = strings.Cut(string(out), " ")
			}
		}
	}
	if got := f.task(id); got.Title != "Fix the login" || got.Status != task.Closed {
		t.Errorf("%+v", got)
	}
}

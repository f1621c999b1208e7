package backlog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/transfer"
)

// read returns the beads of a file by id.
func read(t *testing.T, file string) map[string]*transfer.Bead {
	t.Helper()
	plan, err := ReadPlan("f.yaml", strings.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*transfer.Bead{}
	for batch, err := range plan.Batches() {
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range batch {
			b, err := transfer.ParseBead(line)
			if err != nil {
				t.Fatal(err)
			}
			all[b.ID()] = b
		}
	}
	return all
}

const example = `# written by glitchlab
tasks:
- id: t-1
  objective: |
    Fix the login

    The button does nothing.
  priority: 50
  status: in_progress
  depends_on: [sub-2, t-2, t-2]
  decomposition_depth: 1
  remediation_depth: 0
  is_remediation: true
  files_hint: [login.go]
  created_at: 2026-02-24T10:00:00Z
  definition_of_done: TestLogin passes
  trust_tier: untrusted
  task_type: deploy
  pr_url: https://example.com/1
  error: null
  outcome_context:
    approach: direct implementation
    obstacle: {kind: test_failure, attempts: 2, last_error: "no: 1"}
    discoveries: [login.go is generated]
- {id: gl-sub-2, objective: 'Second', priority: 10, status: completed}
- id: t-2
  objective: "Third"
  status: failed
  error: it broke
- id: t-3
  objective: Fourth
  status: skipped
- id: 4
  objective: Fifth
  status: deferred
- id: t-5
  objective: Sixth
  priority: 99
`

// Each field becomes what a task has, or is kept in its text, its comment and its bead.
func TestBacklog(t *testing.T) {
	all := read(t, example)
	one := all["t-1"].Task()
	if one.Title != "Fix the login" || one.Status != task.Open || one.Priority != 2 || one.Type != "deploy" ||
		fmt.Sprint(one.DependsOn) != "[gl-sub-2 t-2]" || one.IfDependencyFails != "" || one.Origin != "glitchlab" ||
		fmt.Sprint(one.Labels) != "[remediation trust-untrusted]" || one.CreatedAt.Hour() != 10 {
		t.Errorf("%+v", one)
	}
	kept := all["t-1"].Kept()
	description, err := transfer.Text(kept)
	if want := "Fix the login\n\nThe button does nothing.\n\n## Definition of Done\n\nTestLogin passes\n\n" +
		"## Files\n\n- login.go"; err != nil || description != want {
		t.Errorf("%q, %v", description, err)
	}
	for _, part := range []string{`"decomposition_depth":1`, `"remediation_depth":0`,
		`"external_ref":"https://example.com/1"`} {
		if !strings.Contains(string(kept), part) {
			t.Errorf("no %s in %s", part, kept)
		}
	}
	if c := all["t-1"].Comments(); len(c) != 1 || c[0].By != "glitchlab" || c[0].Text != `In GLITCHLAB it was in_progress.
Pull request: https://example.com/1
Outcome: approach: direct implementation
  discoveries:
    - login.go is generated
  obstacle:
    attempts: 2
    kind: test_failure
    last_error: no: 1` {
		t.Errorf("%+v", c)
	}
	for id, want := range map[string]string{
		"gl-sub-2": "closed 0", "t-2": "parked 4", "t-3": "blocked 4", "4": "open 4", "t-5": "open 3",
	} {
		if got := all[id].Task(); fmt.Sprint(got.Status, " ", got.Priority) != want {
			t.Errorf("%s: %v %d, want %s", id, got.Status, got.Priority, want)
		}
	}
	if got := all["t-2"].Task().Reason; got != "it has failed in GLITCHLAB: it broke" {
		t.Error(got)
	}
}

func TestOneTask(t *testing.T) {
	all := read(t, "id: a\nobjective: Do it\nconstraints: [no new files, fast]\nacceptance: |\n  it works\nrisk: low\n")
	description, err := transfer.Text(all["a"].Kept())
	if want := "## Constraints\n\n- no new files\n- fast\n\n## Acceptance\n\nit works\n\n## Risk\n\nlow"; err != nil ||
		description != want {
		t.Errorf("%q, %v", description, err)
	}
}

// The blocks below keys are values, however many there are.
func TestManyBlocks(t *testing.T) {
	var file strings.Builder
	file.WriteString("tasks:\n- id: t-0\n  objective: x\n")
	for i := 1; i < 1500; i++ {
		fmt.Fprintf(&file, "- id: t-%d\n  objective: x\n  depends_on:\n  - t-%d\n", i, i-1)
	}
	if all := read(t, file.String()); len(all) != 1500 || len(all["t-1499"].Task().DependsOn) != 1 {
		t.Errorf("%d tasks", len(all))
	}
}

// Whatever is wrong is named with its place, and nothing is read.
func TestErrors(t *testing.T) {
	item := func(lines ...string) string {
		return "tasks:\n- id: a\n  objective: x\n  " + strings.Join(lines, "\n  ") + "\n"
	}
	for name, c := range map[string]struct{ file, want string }{
		"empty":          {"", "f.yaml:1:1: "},
		"comment":        {"# nothing\n", "f.yaml:1:1: "},
		"a list":         {"- a\n", "f.yaml:1:1: "},
		"another key":    {"jobs: []\n", `f.yaml:1:1: invalid task: unknown key "jobs", expected tasks`},
		"no list":        {"tasks: 3\n", "f.yaml:1:1: invalid task: tasks is not a list"},
		"no YAML":        {"tasks: [\n", "not YAML"},
		"no task":        {"tasks:\n- 3\n", "f.yaml:2:3: "},
		"no id":          {"tasks:\n- objective: x\n", `f.yaml:2:3: invalid task: id is ""`},
		"no objective":   {"tasks:\n- id: x\n", "f.yaml:2:3: invalid task: objective is missing"},
		"unknown key":    {item("priorty: 3"), `f.yaml:4:3: invalid task: unknown key "priorty"; did you mean "priority"?`},
		"unknown status": {item("status: done"), `f.yaml:4:3: invalid task: status is "done", expected pending`},
		"priority":       {item("priority: high"), `f.yaml:4:3: invalid task: priority is "high"`},
		"created":        {item("created_at: today"), "f.yaml:4:3: invalid task: created_at"},
		"bad id":         {"tasks:\n- id: ../x\n  objective: y\n", `f.yaml:2:3: invalid task: id is "../x"`},
		"missing":        {item("depends_on: [b]"), `f.yaml:4:16: invalid task: a depends on "b", which is not in the file`},
		"depends":        {item("depends_on: b"), "f.yaml:4:3: invalid task: depends_on is not a list"},
		"twice":          {item() + "- id: a\n  objective: y\n", "f.yaml:5:3: invalid task: a is already in line 2"},
		"key twice":      {item("status: pending", "status: failed"), "f.yaml:5:3: invalid task: it is not YAML"},
		"same line":      {"tasks: [{id: a, objective: x}, {id: b, objective: x}]\n", "two tasks begin in this line"},
		"two documents":  {item() + "---\n" + item(), "a second document begins here"},
		"itself":         {item("depends_on: [a]"), "f.yaml:2:3: invalid task: a depends on itself"},
		"cycle": {item("depends_on: [b]") + "- id: b\n  objective: y\n  depends_on: [a]\n",
			"f.yaml:2:3: invalid task: dependency cycle: a (line 2) -> b (line 5) -> a"},
		"long objective": {item("definition_of_done: " + strings.Repeat("x", task.MaxText+1)), "f.yaml:2:3: "},
		"bomb":           {"a: &a [x, x]\ntasks: [*a, *a]\n", "f.yaml:1:4: invalid task: "},
		"merge":          {"tasks:\n- <<: x\n", "f.yaml:2:3: "},
		"tag":            {"tasks: !!binary x\n", "f.yaml:1:8: "},
		"deep":           {"tasks: " + strings.Repeat("[", 1_000_000), "nested more than 50 deep"},
		"deep entries":   {"tasks:\n" + strings.Repeat("- ", 1_000_000), "nested more than 50 deep"},
		"deep keys":      {"tasks:\n" + strings.Repeat("? ", 1_000_000), "nested more than 50 deep"},
		"no values": {"tasks:\n" + strings.Repeat("-\n", 100_000),
			"f.yaml:1002:1: invalid task: more than 1000 values"},
		"not UTF-8": {"tasks:\n- id: ä\xff\n", "f.yaml:2:8: invalid task: this is not UTF-8"},
		"many":      {"tasks:\n" + strings.Repeat("- 3\n", 1000), "and 900 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := ReadPlan("f.yaml", strings.NewReader(c.file), int64(len(c.file)))
			if plan != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	if _, err := ReadPlan("f.yaml", strings.NewReader(""), MaxFile+1); err == nil ||
		!strings.Contains(err.Error(), "divide it") {
		t.Error(err)
	}
}

// A file is read or refused with a place, whatever it has.
func FuzzReadPlan(f *testing.F) {
	for _, seed := range []string{example, "id: a\nobjective: x\n", "tasks: [*a]", "tasks:\n- - - x",
		"? a\n: b", "tasks: {a: [", "\xff", "|\n x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		plan, err := ReadPlan("f.yaml", strings.NewReader(file), int64(len(file)))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("no place: %v", err)
			}
			return
		}
		for batch, err := range plan.Batches() {
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range batch {
				if _, err := transfer.ParseBead(line); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	})
}

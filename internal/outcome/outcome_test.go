package outcome

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fullContext returns a complete context.
func fullContext() *Context {
	return &Context{
		Approach:       "patched the parser",
		Obstacle:       Obstacle{Kind: ArchitecturalGap, Description: "the lexer drops comments"},
		Discoveries:    []string{"comments are lost in lex.go", "no test covers that"},
		Recommendation: "keep them in the lexer first",
		Explored:       Explored{Files: []string{"lex.go", "parse.go"}, Dependencies: []string{"fmt"}, Notes: "the printer is fine"},
	}
}

// fullReports returns a complete report of each kind.
func fullReports() map[Kind]Report {
	later := time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	return map[Kind]Report{
		Completed:  {Kind: Completed, Summary: "done", Evidence: fullEvidence()},
		Deferred:   {Kind: Deferred, Context: fullContext(), NotBefore: &later},
		Decomposed: {Kind: Decomposed, Context: fullContext(), Subtasks: []Subtask{{ID: "lexer", Objective: "keep comments"}, {ID: "printer", Objective: "print them", DependsOn: []string{"lexer"}, DefinitionOfDone: "a test"}}},
		Blocked:    {Kind: Blocked, Context: fullContext(), Condition: &Condition{Kind: TaskDone, What: "T12"}},
		Retryable:  {Kind: Retryable, Context: fullContext(), NotBefore: &later},
		Escalated:  {Kind: Escalated, Context: fullContext(), Question: "may the boundary be crossed?"},
	}
}

func TestWholeRoundTrip(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := fullReports()[kind]
			o, err := New(f)
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(o.Report())
			if err != nil {
				t.Fatal(err)
			}
			again, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(o.Report(), again.Report()); d != "" {
				t.Errorf("after the round trip (-before +after):\n%s", d)
			}
			if d := cmp.Diff(f, again.Report(), cmp.Comparer(time.Time.Equal)); d != "" {
				t.Errorf("what was given (-given +read):\n%s", d)
			}
			if again.Kind() != kind {
				t.Errorf("kind %q", again.Kind())
			}
			parsed, err := Parse(data)
			if err != nil || !cmp.Equal(parsed.Report(), o.Report()) {
				t.Errorf("Parse: %v, %v", parsed, err)
			}
		})
	}
}

// Each kind requires certain fields, and the error names those that are missing.
func TestNeeds(t *testing.T) {
	with := func(kind Kind, change func(*Report)) Report {
		f := fullReports()[kind].clone()
		change(&f)
		return f
	}
	obstacle := func(o Obstacle) Report {
		return with(Retryable, func(f *Report) { f.Context.Obstacle = o })
	}
	soon := time.Now()
	tests := []struct {
		name   string
		fields Report
		want   string // of the error; empty: it is made
	}{
		{"nothing", Report{}, "outcome: missing kind"},
		{"unknown kind", Report{Kind: "failed"}, `outcome: unknown kind "failed", expected one of completed, deferred, decomposed, blocked, retryable, escalated`},
		{"mistyped kind", Report{Kind: "Bloked"}, `outcome: unknown kind "Bloked", expected one of completed, deferred, decomposed, blocked, retryable, escalated; did you mean "blocked"?`},
		{"completed needs nothing", Report{Kind: Completed}, ""},
		{"completed with a context", Report{Kind: Completed, Context: fullContext()}, ""},
		{"completed with half a context", Report{Kind: Completed, Context: &Context{Approach: "x"}}, "outcome completed: missing context.obstacle"},
		{"deferred without anything", Report{Kind: Deferred}, "outcome deferred: missing context.approach, context.obstacle, not_before"},
		{"decomposed without anything", Report{Kind: Decomposed}, "outcome decomposed: missing context.approach, context.obstacle, subtasks"},
		{"blocked without anything", Report{Kind: Blocked}, "outcome blocked: missing context.approach, context.obstacle, condition"},
		{"retryable without anything", Report{Kind: Retryable}, "outcome retryable: missing context.approach, context.obstacle"},
		{"escalated without anything", Report{Kind: Escalated}, "outcome escalated: missing context.approach, context.obstacle, question"},
		{"blanks say nothing", with(Retryable, func(f *Report) { f.Context.Approach = " \t\n" }), "outcome retryable: missing context.approach"},
		{"blank question", with(Escalated, func(f *Report) { f.Question = " " }), "outcome escalated: missing question"},
		{"the rest of the context is optional", with(Retryable, func(f *Report) {
			*f.Context = Context{Approach: "a", Obstacle: Obstacle{Kind: OtherObstacle, Description: "b"}}
		}), ""},
		{"deferred until a task", with(Deferred, func(f *Report) {
			f.NotBefore = nil
			f.Context.Obstacle = Obstacle{Kind: MissingPrerequisite, TaskID: "T12", Reason: "the schema"}
		}), ""},
		{"retryable at once", with(Retryable, func(f *Report) { f.NotBefore = nil }), ""},
		{"condition without anything", with(Blocked, func(f *Report) { f.Condition = &Condition{} }), "outcome blocked: missing condition.kind, condition.what"},
		{"unknown condition", with(Blocked, func(f *Report) { f.Condition.Kind = "moon" }),
			`outcome blocked: unknown condition.kind "moon", expected one of task, time, service, event, person`},
		{"of another kind", Report{Kind: Completed, NotBefore: &soon, Question: "?", Condition: &Condition{TaskDone, "a"}, Subtasks: []Subtask{{ID: "a", Objective: "b"}}},
			"outcome completed: not_before belongs to deferred and retryable; subtasks belongs to decomposed; condition belongs to blocked; question belongs to escalated"},
		{"year", with(Deferred, func(f *Report) { far := time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC); f.NotBefore = &far }), "outcome deferred: not_before is in the year 12345, expected one from 1 to 9999"},

		{"obstacle: unknown", obstacle(Obstacle{Kind: "laziness"}),
			`outcome retryable: unknown context.obstacle.kind "laziness", expected one of missing_prerequisite, architectural_gap, model_limitation, external_dependency, scope_too_large, usage_limit, rate_limit, authentication, billing, context_full, refused, overloaded, network, permission_denied, loop, budget, timeout, session_lost, configuration, crash, verification_failed, schema_mismatch, merge_conflict, guard_denied, tests_weakened, other`},
		{"obstacle: no kind", obstacle(Obstacle{Description: "x"}), "outcome retryable: missing context.obstacle.kind"},
		{"obstacle: prerequisite", obstacle(Obstacle{Kind: MissingPrerequisite}), "outcome retryable: missing context.obstacle.task_id, context.obstacle.reason"},
		{"obstacle: gap", obstacle(Obstacle{Kind: ArchitecturalGap}), "outcome retryable: missing context.obstacle.description"},
		{"obstacle: model", obstacle(Obstacle{Kind: ModelLimitation}), "outcome retryable: missing context.obstacle.model, context.obstacle.error_class"},
		{"obstacle: usage limit", obstacle(Obstacle{Kind: UsageLimit}), "outcome retryable: missing context.obstacle.description"},
		{"obstacle: external", obstacle(Obstacle{Kind: ExternalDependency}), "outcome retryable: missing context.obstacle.service"},
		{"obstacle: scope", obstacle(Obstacle{Kind: ScopeTooLarge}), "outcome retryable: missing context.obstacle.estimated_files, context.obstacle.max_files"},
		{"obstacle: other", obstacle(Obstacle{Kind: OtherObstacle}), "outcome retryable: missing context.obstacle.description"},
		{"obstacle: less than no files", obstacle(Obstacle{Kind: ScopeTooLarge, EstimatedFiles: -5, MaxFiles: 2}), "outcome retryable: context.obstacle has a negative number of files"},

		{"not UTF-8", with(Retryable, func(f *Report) { f.Context.Discoveries = []string{"fine", "\xff"} }), "outcome retryable: context.discoveries[1] is not UTF-8"},
		{"too long", with(Retryable, func(f *Report) {
			f.Context.Discoveries = []string{strings.Repeat("x", MaxBytes/2), strings.Repeat("y", MaxBytes/2)}
		}),
			"at most 65536; the longest part of it is context.discoveries"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := New(tt.fields)
			if tt.want == "" {
				if err != nil || o.Kind() != tt.fields.Kind {
					t.Errorf("%v, %v", o, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n got %v\nwant %s", err, tt.want)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%T is no *Error", err)
			}
			if o.Kind() != "" {
				t.Errorf("an error and an outcome: %v", o)
			}
		})
	}
}

func TestSubtasks(t *testing.T) {
	part := func(id string, after ...string) Subtask {
		return Subtask{ID: id, Objective: "do " + id, DependsOn: after}
	}
	tests := []struct {
		name     string
		subtasks []Subtask
		want     string
	}{
		{"a chain, given in any order", []Subtask{part("c", "b"), part("b", "a"), part("a")}, ""},
		{"a diamond", []Subtask{part("a"), part("b", "a"), part("c", "a"), part("d", "b", "c", "b")}, ""},
		{"no id and no objective", []Subtask{{}}, "missing subtasks[0].objective, subtasks[0].id"},
		{"itself", []Subtask{part("a", "a")}, `subtasks[0] "a" waits for itself, through depends_on`},
		{"a cycle among others", []Subtask{part("a"), part("b", "a", "d"), part("c", "b"), part("d", "c")}, `subtasks[1] "b" waits for itself`},
		{"unknown", []Subtask{part("a", "sub-1")}, `subtasks[0].depends_on names "sub-1", which is none of the subtasks`},
		{"twice", []Subtask{part("a"), part("A")}, `subtasks[1].id "A" is that of subtasks[0], too`},
		{"a path", []Subtask{part("../../etc")}, `subtasks[0].id is "../../etc", expected a letter or digit and then`},
		{"an option", []Subtask{part("-rf")}, `subtasks[0].id is "-rf"`},
		{"64 letters", []Subtask{part(strings.Repeat("a", 64))}, ""},
		{"65 letters", []Subtask{part(strings.Repeat("a", 65))}, "up to 63"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(Report{Kind: Decomposed, Context: fullContext(), Subtasks: tt.subtasks})
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error:\n got %v\nwant %s", err, tt.want)
			}
		})
	}
}

// Errors are bounded.
func TestErrorIsBounded(t *testing.T) {
	many := make([]Subtask, 2000)
	for i := range many {
		many[i] = Subtask{ID: "../x", DependsOn: []string{"none"}}
	}
	_, err := New(Report{Kind: Decomposed, Context: fullContext(), Subtasks: many})
	if err == nil || len(err.Error()) > 4096 {
		t.Errorf("%d bytes", len(err.Error()))
	}
}

// Neither the caller of New nor a reader can change an outcome.
func TestCannotBeChanged(t *testing.T) {
	f := fullReports()[Decomposed]
	o, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(o.report)
	for _, g := range []Report{f, o.Report()} {
		g.Context.Approach, g.Context.Discoveries[0], g.Context.Explored.Files[0] = "", "", ""
		g.Subtasks[0].ID, g.Subtasks[1].DependsOn[0] = "", ""
	}
	if after, _ := json.Marshal(o.report); string(after) != string(before) {
		t.Errorf("was %s\nis  %s", before, after)
	}
}

func TestString(t *testing.T) {
	retry := func(o Obstacle) Report {
		return Report{Kind: Retryable, Context: &Context{Approach: "a", Obstacle: o}}
	}
	tests := []struct {
		fields Report
		want   string
	}{
		{Report{Kind: Completed}, "completed"},
		{Report{Kind: Completed, Summary: " 3 tests\nand more"}, "completed: 3 tests …"},
		{retry(Obstacle{Kind: MissingPrerequisite, TaskID: "T12", Reason: "the schema"}), "retryable: missing prerequisite: needs T12 first: the schema"},
		{retry(Obstacle{Kind: ArchitecturalGap, Description: "no comments"}), "retryable: architectural gap: no comments"},
		{retry(Obstacle{Kind: ModelLimitation, Model: "m", ErrorClass: "no JSON"}), "retryable: model limitation: m: no JSON"},
		{retry(Obstacle{Kind: ExternalDependency, Service: "registry", Description: "503"}), "retryable: external dependency: registry: 503"},
		{retry(Obstacle{Kind: ScopeTooLarge, EstimatedFiles: 12, MaxFiles: 2}), "retryable: scope too large: 12 files, at most 2"},
		{retry(Obstacle{Kind: OtherObstacle, Description: "it rained"}), "retryable: it rained"},
	}
	for _, tt := range tests {
		o, err := New(tt.fields)
		if err != nil || o.String() != tt.want {
			t.Errorf("%q, %v, want %q", o, err, tt.want)
		}
	}
}

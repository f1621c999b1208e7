package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/task"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// outcomeFlags are the flags that describe an outcome.
type outcomeFlags struct {
	summary, approach, obstacle, recommendation, notes, notBefore, until, question string
	discoveries, explored, dependencies, subtasks                                  []string
	evidence                                                                       outcome.Evidence
	json, task                                                                     string
}

func newOutcome(s *command.Streams) *cobra.Command {
	var f outcomeFlags
	var kinds []string
	for _, k := range outcome.Kinds() {
		kinds = append(kinds, string(k))
	}
	cmd := &cobra.Command{
		Use:   "outcome KIND [flags] | outcome --json FILE",
		Short: "Record the outcome of the work",
		Long: `Record how the work has ended, for the next attempt and for people. If this agent has
claimed a task, the attempt at that ends, and the outcome decides what becomes of the
task. No agent is stopped or restarted because of it.

KIND is one of
  completed   the work is done: the task is closed; if it names its criterion,
              this needs --evidence, --commit, --branch or --pull-request
  deferred    back in the queue until --not-before, or until the missing task of
              the obstacle is completed
  decomposed  too large: done with its subtasks; needs a --subtask for each
  blocked     needs --until: task=ID, time=WHEN, service=NAME, event=TYPE
              or person=ACTION
  retryable   back in the queue, after a pause; can have --not-before
  escalated   a person has to decide, and is asked; needs --question

All but completed need --approach and --obstacle. An obstacle is plain text, or
JSON, one of
  {"kind":"missing_prerequisite","task_id":"T12","reason":"..."}
  {"kind":"architectural_gap","description":"..."}
  {"kind":"model_limitation","model":"...","error_class":"..."}
  {"kind":"external_dependency","service":"..."}
  {"kind":"scope_too_large","estimated_files":9,"max_files":2}`,
		Example: `  coppice agent outcome completed --summary "all 12 tests pass"
  coppice agent outcome blocked --approach "regenerated the client" \
    --obstacle "the schema lacks the new field" --until task=T12 \
    --discovery "client.go is generated" --recommendation "wait for the schema"
  coppice agent outcome --json - < outcome.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected argument %q; flags describe the outcome", args[1])
			}
			return nil
		},
		ValidArgs: kinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.read(cmd, args, s.In, time.Now())
			if err != nil {
				return command.UsageError(err)
			}
			done, err := command.Call(command.AskAsAgent, claim.Report, claim.Request{Report: o.Report(), Task: f.task})
			if err != nil || done.Task == nil {
				return err
			}
			return s.PrintLines(plaintext.Line(done.Task.ID) + " is " + task.StateText(*done.Task, time.Now()))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.summary, "summary", "", "what was done")
	flags.StringVar(&f.evidence.Text, "evidence", "", "how the criterion of the task (done when) is met")
	flags.StringVar(&f.evidence.Commit, "commit", "", "the full `HASH` of the last commit of the work")
	flags.StringVar(&f.evidence.Branch, "branch", "", "the branch with the work")
	flags.StringVar(&f.evidence.PullRequest, "pull-request", "", "the `URL` of the pull request with the work")
	flags.StringVar(&f.approach, "approach", "", "what was attempted")
	flags.StringVar(&f.obstacle, "obstacle", "", "what prevented it, as text or JSON")
	flags.StringArrayVar(&f.discoveries, "discovery", nil, "something learned (repeatable)")
	flags.StringVar(&f.recommendation, "recommendation", "", "what the next try should do")
	flags.StringArrayVar(&f.explored, "explored", nil, "a file that was already examined (repeatable)")
	flags.StringArrayVar(&f.dependencies, "dependency", nil, "something that the work depends on (repeatable)")
	flags.StringVar(&f.notes, "notes", "", "notes on what was explored")
	flags.StringVar(&f.notBefore, "not-before", "",
		"when to try again: a duration such as 30m, or a time such as 2030-01-02T15:04:05Z")
	flags.StringVar(&f.until, "until", "",
		"what it waits for, such as task=ID or service=NAME")
	flags.StringArrayVar(&f.subtasks, "subtask", nil, "a part, as \"ID: OBJECTIVE\" (repeatable)")
	flags.StringVar(&f.question, "question", "", "what a person has to decide")
	flags.StringVar(&f.task, "task", "", "the `ID` of the task; the only one that this agent has claimed if left out")
	flags.StringVar(&f.json, "json", "", "read the whole outcome as JSON from a `FILE`; - is stdin")
	return cmd
}

// read builds the outcome from the arguments and flags.
func (f *outcomeFlags) read(cmd *cobra.Command, args []string, stdin io.Reader, now time.Time) (outcome.Outcome,
	error) {
	if f.json != "" {
		others := cmd.Flags().NFlag() - 1
		if cmd.Flags().Changed("task") {
			others--
		}
		if len(args) > 0 || others > 0 {
			return outcome.Outcome{}, errors.New("--json cannot be combined with KIND or flags other than --task")
		}
		data, err := readUpTo(f.json, stdin, outcome.MaxBytes)
		if err != nil {
			return outcome.Outcome{}, err
		}
		return outcome.Parse(data)
	}
	if len(args) == 0 {
		return outcome.Outcome{}, fmt.Errorf("which outcome? One of %v; see %s --help", outcome.Kinds(),
			cmd.CommandPath())
	}
	r, err := f.report(outcome.Kind(args[0]), now)
	if err != nil {
		return outcome.Outcome{}, err
	}
	o, err := outcome.New(r)
	if wrong, ok := errors.AsType[*outcome.Error](err); ok {
		for i, field := range wrong.Missing {
			wrong.Missing[i] = flagOf(field)
		}
	}
	return o, err
}

// flagOf returns the flag that sets a field, or the name of the field if only JSON can set it.
func flagOf(field string) string {
	switch field {
	case "context.approach", "context.obstacle":
		return "--" + strings.TrimPrefix(field, "context.")
	case "condition", "condition.kind", "condition.what":
		return "--until"
	case "subtasks":
		return "--subtask"
	case "not_before":
		return "--not-before"
	case "question":
		return "--question"
	}
	return field
}

func (f *outcomeFlags) report(kind outcome.Kind, now time.Time) (outcome.Report, error) {
	r := outcome.Report{Kind: kind, Summary: f.summary, Question: f.question, Evidence: &f.evidence}
	context := outcome.Context{
		Approach: f.approach, Discoveries: f.discoveries, Recommendation: f.recommendation,
		Explored: outcome.Explored{Files: f.explored, Dependencies: f.dependencies, Notes: f.notes},
	}
	if f.obstacle != "" {
		var err error
		if context.Obstacle, err = outcome.ParseObstacle(f.obstacle); err != nil {
			return r, fmt.Errorf("--%w", err)
		}
	}
	if kind != outcome.Completed || !context.IsZero() {
		r.Context = &context
	}
	if f.notBefore != "" {
		at, err := outcome.ParseTime(f.notBefore, now)
		if err != nil {
			return r, fmt.Errorf("--not-before: %w", err)
		}
		r.NotBefore = &at
	}
	if f.until != "" {
		c, err := outcome.ParseCondition(f.until, now)
		if err != nil {
			return r, fmt.Errorf("--until %w", err)
		}
		r.Condition = &c
	}
	for _, text := range f.subtasks {
		id, objective, ok := strings.Cut(text, ":")
		if !ok {
			return r, fmt.Errorf("--subtask is %.80q, expected \"ID: OBJECTIVE\"", text)
		}
		r.Subtasks = append(r.Subtasks, outcome.Subtask{ID: strings.TrimSpace(id),
			Objective: strings.TrimSpace(objective)})
	}
	return r, nil
}

// readUpTo reads a file of at most limit bytes; "-" is stdin.
func readUpTo(file string, stdin io.Reader, limit int64) ([]byte, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", file, limit)
	}
	return data, nil
}

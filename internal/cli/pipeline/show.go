package pipeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newShow(s *command.Streams, r *command.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a pipeline: settings, workers, attempts",
		Long: `Show a pipeline: its settings in effect, where its stages may write and whether the kernel
enforces that, what each of its workers does, and how the last attempts have ended.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return command.Show(s, r.Look, workers.Get, workers.Name{Name: args[0]},
				func(d workers.Detail, p terminal.Paint, width int) []string {
					return detailLines(d, time.Now(), p, width)
				})
		},
	}
	s.JSONFlag(cmd, "one object")
	return cmd
}

func detailLines(d workers.Detail, now time.Time, p terminal.Paint, width int) []string {
	i, set := d.Pipeline, d.Settings
	lines := []string{p.Bold(terminal.Cell(i.Name))}
	field := func(name, value string) {
		if value != "" {
			lines = append(lines, p.Dim(fmt.Sprintf("%-13s", name))+plaintext.Line(value))
		}
	}
	field("tasks", tasksText(i.Tasks, i.Name, now))
	field("pool", i.Tasks.Pool.Name)
	field("workers", atWork(i)+" at work")
	field("mode", modesText(set))
	field("repository", set.Repository)
	field("branch", branchText(i))
	field("protected", strings.Join(set.Protected, ", "))
	field("tests", strings.Join(set.Tests, ", "))
	field("validation", strings.Join(set.Validation, ", "))
	field("set_up", strings.Join(set.SetUp, " "))
	if set.Ports > 0 {
		field("ports", fmt.Sprintf("%d of each worktree, from %d to %d", set.Ports, pipeline.FirstPort,
			pipeline.LastPort))
	}
	field("fix_attempts", fmt.Sprint(set.FixAttempts))
	field("writes", writesText(d))
	lines = append(append(lines, ""), stageLines(d, width, p)...)
	lines = append(append(lines, ""), workerLines(d.Workers, now, width, p)...)
	if len(d.Attempts) > 0 {
		lines = append(append(lines, "", p.Bold("Last attempts")), attemptLines(d.Attempts, now, width, p)...)
	}
	return lines
}

// tasksText says whether the tasks of a pipeline are claimed, and counts them.
func tasksText(t task.PoolTasks, name string, now time.Time) string {
	text := fmt.Sprintf("%d ready, %d in progress, %d for you", t.Ready, t.InProgress, t.ForPerson)
	switch pool := t.Pool; pool.State {
	case pools.Paused:
		text += fmt.Sprintf("; paused by %s since %s", pool.By, terminal.Clock(pool.Since, now))
		if pool.Reason != "" {
			text += ": " + pool.Reason
		}
		text += "; coppice pipeline resume " + name
	case pools.Probes:
		text += "; one is tried, which decides whether the others are claimed"
		if pool.Probe != "" {
			text += ": " + pool.Probe
		}
	}
	return text
}

// modesText says how the mode of a task is chosen.
func modesText(s pipeline.Settings) string {
	text := s.Mode
	for _, r := range s.Modes {
		text += "; " + r.Mode + " for " + ruleText(r)
	}
	return text
}

// ruleText returns the conditions of a rule, without its mode.
func ruleText(r pipeline.Rule) string {
	var all []string
	if len(r.Labels) > 0 {
		all = append(all, "label "+strings.Join(r.Labels, " or "))
	}
	if len(r.Priorities) > 0 {
		all = append(all, "priority "+strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Priorities), " ", " or "), "[]"))
	}
	if len(r.Paths) > 0 {
		all = append(all, "paths "+strings.Join(r.Paths, " or "))
	}
	if len(all) == 0 {
		return "all tasks"
	}
	return strings.Join(all, " and ")
}

// writesText says where stages may write in addition to what the table of the stages has.
func writesText(d workers.Detail) string {
	text := "TMPDIR, XDG_CACHE_HOME, the directories of command lines"
	for _, path := range d.Settings.Writable {
		text += ", " + path
	}
	if len(d.Settings.ReadOnly) > 0 {
		text += "; not " + strings.Join(d.Settings.ReadOnly, ", ")
	}
	if d.Unconfined != "" {
		return text + "; not enforced: " + d.Unconfined
	}
	return text + "; enforced by the kernel"
}

func stageLines(d workers.Detail, width int, p terminal.Paint) []string {
	var rows [][]string
	for n, derived := range d.Stages {
		s := d.Settings.Of(pipeline.Name(n))
		row := []string{terminal.Cell(derived.Name), "-", "-", "-", "-", "-", "-", "-"}
		switch {
		case len(s.Command) > 0:
			row = append(row[:1], dash(string(derived.CLI)), timespan.Short(s.Timeout), fmt.Sprint(s.Retries), "-",
				"read", skipText(s.SkipIf), terminal.Cell(strings.Join(s.Command, " ")))
			if s.Tokens > 0 {
				row[4] = plaintext.Thousands(s.Tokens)
			}
			if derived.Worktree {
				row[5] = "write"
			}
		case pipeline.Name(n) == pipeline.Release && d.Settings.PullRequest != nil:
			row[7] = terminal.Cell(fmt.Sprintf("(a pull request in %s)", d.Settings.PullRequest.Remote))
		case pipeline.Name(n) == pipeline.Release:
			row[7] = "(Coppice merges the change)"
		default:
			row[7] = "(off)"
		}
		rows = append(rows, row)
	}
	header := []string{"STAGE", "CLI", "TIMEOUT", "RETRIES", "TOKENS", "WORKTREE", "SKIPPED FOR", "COMMAND"}
	return terminal.Table(header, rows, width, terminal.BoldHeader(p))
}

// skipText says for which tasks a stage is skipped.
func skipText(r *pipeline.Rule) string {
	switch {
	case r == nil:
		return "-"
	case r.Mode == "":
		return terminal.Cell(ruleText(*r))
	case len(r.Labels)+len(r.Priorities)+len(r.Paths) == 0:
		return terminal.Cell(r.Mode)
	}
	return terminal.Cell(r.Mode + " and " + ruleText(*r))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return terminal.Cell(text)
}

func workerLines(all []workers.Worker, now time.Time, width int, p terminal.Paint) []string {
	if len(all) == 0 {
		return []string{"no workers"}
	}
	var rows [][]string
	for _, w := range all {
		row := []string{terminal.Cell(w.Path), terminal.Cell(w.State), "-", "-", "-", "-", "-", "-"}
		if at := w.At; at != nil {
			stage := at.Stage
			if stage == "" {
				stage = "prepares"
			}
			since := fmt.Sprintf("%s, for %s", terminal.Clock(at.Since, now), terminal.Age(at.Since, now))
			row = append(row[:2], terminal.Cell(at.Task), fmt.Sprint(at.Attempt), dash(at.Mode), terminal.Cell(stage),
				since, dash(at.Worktree))
		}
		rows = append(rows, row)
	}
	header := []string{"WORKER", "STATE", "TASK", "ATTEMPT", "MODE", "STAGE", "SINCE", "WORKTREE"}
	return terminal.Table(header, rows, width, terminal.BoldHeader(p))
}

func attemptLines(all []task.Tried, now time.Time, width int, p terminal.Paint) []string {
	var rows [][]string
	for _, t := range all {
		rows = append(rows, []string{
			terminal.Cell(t.Task), fmt.Sprint(t.Attempt.Number), terminal.Clock(t.Attempt.EndedAt, now),
			terminal.Age(t.Attempt.BeganAt, t.Attempt.EndedAt), terminal.Cell(t.Attempt.By),
			terminal.Cell(t.Attempt.Outcome.String()),
		})
	}
	return terminal.Table([]string{"TASK", "ATTEMPT", "ENDED", "TOOK", "BY", "OUTCOME"}, rows, width,
		terminal.BoldHeader(p))
}

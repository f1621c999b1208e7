package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

// New makes a report of what was gathered.
func New(g Gathered) Report {
	completed, cancelled := g.closed()
	r := Report{
		Project: name(g.Status.Project), Since: g.Since, Until: g.Now, Serving: g.Status.Controller.PID != 0,
		Ready: g.Ready, InProgress: g.InProgress,
		Needs:     g.needs(),
		Completed: shorten(completed, g.task),
		Cancelled: shorten(cancelled, g.task),
		Tried:     shorten(g.Tried, g.task),
		Waiting:   shorten(g.waiting(), waiting),
		Cost: Cost{
			Since: name(g.Cost.Since), Until: name(g.Cost.Until), Total: g.Cost.Total,
			Agents: shorten(g.Cost.Rows, func(row cost.Row) cost.Row {
				row.Name = name(row.Name)
				return row
			}),
		},
		Runs: g.Runs.runs(),
	}
	r.Completed.AtLeast = len(g.Closed) >= MaxListed
	r.Cancelled.AtLeast = len(g.Closed) >= MaxListed
	r.Tried.AtLeast = len(g.Tried) >= MaxListed
	r.Waiting.AtLeast = len(g.Waiting) >= MaxListed
	return r
}

// shorten returns the first entries of a list, as they are shown.
func shorten[From, To any](all []From, show func(From) To) List[To] {
	l := List[To]{Total: len(all), Shown: []To{}}
	for _, one := range all[:min(len(all), MaxShown)] {
		l.Shown = append(l.Shown, show(one))
	}
	return l
}

// name and text make short lines of a name and of a longer text. Only the beginning is looked at.
func name(s string) string { return plaintext.OneLine(s[:min(len(s), 8*maxTitle)], maxTitle) }
func text(s string) string { return plaintext.OneLine(s[:min(len(s), 8*maxText)], maxText) }

// closed returns the tasks that were completed and cancelled, the last one first.
func (g *Gathered) closed() (completed, cancelled []task.Task) {
	all := slices.SortedStableFunc(slices.Values(g.Closed), func(a, b task.Task) int {
		return b.ClosedAt.Compare(a.ClosedAt)
	})
	for _, t := range all {
		if cmp.Or(t.Outcome, task.Completed) == task.Completed {
			completed = append(completed, t)
		} else {
			cancelled = append(cancelled, t)
		}
	}
	return completed, cancelled
}

// detailed returns the tasks of which New shows attempts.
func (g *Gathered) detailed() (ids []string) {
	completed, cancelled := g.closed()
	for _, list := range [][]task.Task{completed, cancelled, g.Tried} {
		for _, t := range list[:min(len(list), MaxShown)] {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func (g *Gathered) task(t task.Task) Task {
	row := Task{
		ID: name(t.ID), Title: name(t.Title), Status: t.Status, By: t.ClosedBy, Attempts: t.Claims,
		EndedAt: t.ClosedAt, Reason: text(t.Reason),
	}
	var took time.Duration
	for _, a := range g.Attempts[t.ID] {
		took += max(0, a.EndedAt.Sub(a.BeganAt)) // the clock may have been set back
	}
	row.Seconds = took.Seconds()
	if n := len(g.Attempts[t.ID]); n > 0 {
		last := g.Attempts[t.ID][n-1]
		row.By, row.Outcome = last.By, outcome.Kind(name(string(last.Outcome.Kind)))
		row.Change = newChange(last.Outcome.Evidence)
		if t.Status != task.Closed {
			row.EndedAt = last.EndedAt
		}
		if c := last.Outcome.Context; c != nil {
			row.Obstacle, row.Recommendation = text(c.Obstacle.String()), text(c.Recommendation)
		}
	}
	row.By = name(row.By)
	return row
}

// waiting returns the tasks that wait and are not among those that were tried.
func (g *Gathered) waiting() (all []task.Task) {
	tried := make(map[string]bool, len(g.Tried))
	for _, t := range g.Tried {
		tried[t.ID] = true
	}
	for _, t := range g.Waiting {
		if !tried[t.ID] {
			all = append(all, t)
		}
	}
	return all
}

func waiting(t task.Task) Waiting {
	w := Waiting{ID: name(t.ID), Title: name(t.Title), Status: t.Status, Until: t.NotBefore}
	switch {
	case t.Condition != nil:
		w.For = text(fmt.Sprintf("%s: %s", t.Condition.Kind, t.Condition.What))
	case t.Question != nil:
		w.For = text("an answer: " + t.Question.Text)
	case len(t.WaitsFor) > 0:
		w.For = text("tasks: " + strings.Join(t.WaitsFor, ", "))
	case t.NotBefore.IsZero():
		w.For = "a person, who opens it"
	}
	return w
}

// Summary returns the totals in a line, without the name of the project.
func (r Report) Summary() string {
	var parts []string
	add := func(n int, atLeast bool, one, several string) {
		if n > 0 {
			format := several
			if n == 1 {
				format = one
			}
			count := plaintext.Thousands(int64(n))
			if atLeast {
				count = ">= " + count
			}
			parts = append(parts, fmt.Sprintf(format, count))
		}
	}
	same := func(n int, atLeast bool, format string) { add(n, atLeast, format, format) }
	add(r.Needs.Total, r.Needs.AtLeast, "%s needs a person", "%s need a person")
	same(r.Completed.Total, r.Completed.AtLeast, "%s completed")
	same(r.Cancelled.Total, r.Cancelled.AtLeast, "%s cancelled")
	same(r.Tried.Total, r.Tried.AtLeast, "%s tried and not done")
	same(r.Waiting.Total, r.Waiting.AtLeast, "%s waiting")
	same(r.InProgress, false, "%s in progress")
	same(r.Ready, false, "%s ready")
	if r.Cost.Total.Calls > 0 {
		parts = append(parts, r.Cost.tokens(), r.Cost.dollars())
	}
	more := !r.Runs.Until.IsZero()
	add(r.Runs.Starts, more, "%s start", "%s starts")
	add(r.Runs.Failures, more, "%s failure", "%s failures")
	if len(parts) == 0 {
		return "nothing has happened"
	}
	return strings.Join(parts, ", ")
}

// tokens and dollars return what is known of the sums, in words.
func (c Cost) tokens() string {
	if c.Total.Tokens == nil {
		return "unknown tokens"
	}
	return known(c.Total.UnknownTokens) + plaintext.Thousands(*c.Total.Tokens) + " tokens"
}

func (c Cost) dollars() string {
	if c.Total.Dollars == nil {
		return "unknown dollars"
	}
	return fmt.Sprintf("%s$%.2f", known(c.Total.UnknownDollars), *c.Total.Dollars)
}

// known returns what stands in front of a sum of which parts are unknown.
func known(unknown int64) string {
	if unknown > 0 {
		return ">= "
	}
	return ""
}

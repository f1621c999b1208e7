// Package transfer reads and writes beads, the issues of the bd tool: one JSON object a line in
// .beads/issues.jsonl. Fields that tasks also have are read. The whole line is kept with the task,
// so an export contains everything that was imported. The description is the text of the task
// until that is edited.
package transfer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coppice-dev/coppice/internal/task"
)

// maxRest bounds a bead apart from its description and comments, in bytes.
const maxRest = 256 << 10

// Bead is a parsed bead.
type Bead struct {
	task     task.Task // without fields that depend on where it is imported
	comments []task.SavedComment
	rest     object // the bead without its comments
}

// Types of dependencies with a meaning of their own.
const (
	blocks      = "blocks"
	waitsFor    = "waits-for"          // also for the children of the other issue, as all tasks do
	conditional = "conditional-blocks" // only if the other issue fails
	parentChild = "parent-child"
)

// external is the prefix of ids in other projects.
const external = "external:"

// ParseBead parses a bead. An error names the member that is wrong and what was expected.
func ParseBead(line []byte) (*Bead, error) {
	if len(line) > task.MaxBead {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", task.ErrInvalid, len(line), task.MaxBead)
	}
	var b *Bead
	rest, err := parseObject(line)
	if err == nil {
		b, err = readBead(rest)
	}
	if err == nil {
		err = b.takeComments()
	}
	if err == nil {
		err = b.check()
	}
	if err != nil && !errors.Is(err, task.ErrInvalid) {
		err = fmt.Errorf("%w: %w", task.ErrInvalid, err)
	}
	return b, err
}

// ID returns the id of the bead.
func (b *Bead) ID() string { return b.task.ID }

// Task returns the fields that a task has, without those that depend on where it is imported.
func (b *Bead) Task() task.Task { return b.task }

// Comments returns the comments of the bead.
func (b *Bead) Comments() []task.SavedComment { return b.comments }

// Kept returns the bead without its comments, to be stored for Write and Text.
func (b *Bead) Kept() []byte { return b.rest.json() }

// extras are the fields that tasks have and beads do not.
type extras struct {
	Pool      string       `json:"pool,omitempty"`
	Origin    string       `json:"origin,omitempty"`
	Ephemeral bool         `json:"ephemeral,omitempty"`
	Outcome   task.Outcome `json:"outcome,omitempty"`
	// Parked is the reason why a task is parked. To other programs its bead is blocked.
	Parked       string `json:"parked,omitempty"`
	FailedClaims int    `json:"failed_claims,omitempty"`
	MaxClaims    int    `json:"max_claims,omitempty"`
	// IfDependencyFails is missing for tasks that do not depend on others, and means continue for
	// those that do: so it is in other programs.
	IfDependencyFails task.DependencyRule `json:"if_dependency_fails,omitempty"`
	Decomposed        bool                `json:"decomposed,omitempty"`
	Question          string              `json:"question,omitempty"`
	Fixes             string              `json:"fixes,omitempty"`
	Mode              string              `json:"mode,omitempty"`
}

// extrasOf returns the extras of a task. The outcome completed follows from the status.
func extrasOf(t *task.Task) extras {
	x := extras{
		Pool: t.Pool, Origin: t.Origin, Ephemeral: t.Ephemeral, Outcome: t.Outcome,
		FailedClaims: t.FailedClaims, MaxClaims: t.MaxClaims, IfDependencyFails: t.IfDependencyFails,
		Decomposed: t.Decomposed, Fixes: t.Fixes, Mode: t.Mode,
	}
	if len(t.DependsOn) > 0 {
		x.IfDependencyFails = cmp.Or(t.IfDependencyFails, task.WaitForIt)
		if x.IfDependencyFails == task.GoOnWithout {
			x.IfDependencyFails = ""
		}
	}
	if t.Question != nil {
		x.Question = t.Question.Text
	}
	if x.Outcome == task.Completed {
		x.Outcome = ""
	}
	if t.Status == task.Parked {
		x.Parked = t.Reason
	}
	return x
}

// apply sets the extras of a parsed task. If another program has unblocked a parked task, it is no
// longer parked and its failed claims count from 0.
func (x extras) apply(t *task.Task) {
	t.Pool, t.Origin, t.Ephemeral, t.MaxClaims = x.Pool, x.Origin, x.Ephemeral, x.MaxClaims
	t.IfDependencyFails, t.Decomposed, t.Fixes = x.IfDependencyFails, x.Decomposed, strings.TrimSpace(x.Fixes)
	t.Mode = x.Mode
	if x.Question != "" && t.Status == task.Blocked {
		t.Question = &task.Question{Text: x.Question, At: t.UpdatedAt}
	}
	switch {
	case x.Parked == "":
		t.FailedClaims = max(0, x.FailedClaims)
	case t.Status == task.Blocked:
		t.Status, t.Reason, t.FailedClaims = task.Parked, x.Parked, max(0, x.FailedClaims)
	}
}

// readBead reads the fields that a task has, except description and comments.
func readBead(rest object) (*Bead, error) {
	const text, number, when = "a text", "an integer from 0 to 4", "a time such as 2026-01-31T12:00:00Z"
	b := &Bead{rest: rest}
	t := &b.task
	t.Priority = task.DefaultPriority
	var kind, status, reason string
	var more extras
	var pinned, template bool // kinds of beads that are not work
	for _, m := range []struct {
		name, expected string
		into           any
	}{
		{"_type", text, &kind}, {"id", text, &t.ID}, {"title", text, &t.Title}, {"status", text, &status},
		{"priority", number, &t.Priority},
		{"issue_type", text, &t.Type}, {"assignee", text, &t.Assignee}, {"labels", "an array of texts", &t.Labels},
		{"close_reason", text, &reason}, {"acceptance_criteria", text, &t.DoneWhen},
		{"created_at", when, &t.CreatedAt}, {"created_by", text, &t.CreatedBy}, {"updated_at", when, &t.UpdatedAt},
		{"closed_at", when, &t.ClosedAt},
		{"defer_until", when, &t.NotBefore}, {"pinned", "true or false", &pinned},
		{"is_template", "true or false", &template},
		{"coppice", "an object with pool, origin, ephemeral, outcome, parked, failed_claims, max_claims, " +
			"if_dependency_fails, decomposed, question, fixes and mode", &more},
	} {
		if err := rest.read(m.name, m.expected, m.into); err != nil {
			return nil, err
		}
	}
	if kind != "" && kind != "issue" {
		return nil, fmt.Errorf("_type is %.40q, expected issue", kind)
	}
	t.Title, t.Type, t.Assignee, t.CreatedBy = oneLine(t.Title), oneLine(t.Type), oneLine(t.Assignee),
		oneLine(t.CreatedBy)
	if t.DoneWhen = strings.TrimSpace(t.DoneWhen); len(t.DoneWhen) > task.MaxDoneWhen { // the bead keeps all of it
		t.DoneWhen = strings.ToValidUTF8(t.DoneWhen[:task.MaxDoneWhen-4], "") + " ..."
	}
	t.Labels = task.Sorted(t.Labels)
	t.Status = statusOf(status)
	t.CreatedAt, t.NotBefore = t.CreatedAt.UTC(), t.NotBefore.UTC()
	if t.UpdatedAt = t.UpdatedAt.UTC(); t.UpdatedAt.IsZero() {
		t.UpdatedAt = t.CreatedAt
	}
	more.apply(t)
	if t.Status == task.Closed {
		if known := append(task.Outcomes(), "", "failed"); !slices.Contains(known, more.Outcome) {
			return nil, fmt.Errorf("coppice.outcome is %.40q, expected completed, cancelled or failed", more.Outcome)
		}
		t.Reason, t.Outcome = reason, cmp.Or(more.Outcome, task.Completed)
		if status == "tombstone" {
			t.Outcome = task.Cancelled
		}
		if t.ClosedAt = t.ClosedAt.UTC(); t.ClosedAt.IsZero() {
			t.ClosedAt = t.UpdatedAt
		}
	} else {
		t.ClosedAt = time.Time{}
	}
	all, err := dependencies(rest)
	blocked := pinned || template
	for _, d := range all {
		switch {
		case d.blocks():
			t.DependsOn = append(t.DependsOn, d.on)
		case d.kind == parentChild && t.Parent == "" && !d.isExternal():
			t.Parent = d.on
		default:
			blocked = blocked || d.kind == conditional || d.kind == blocks || d.kind == waitsFor
			t.Links = append(t.Links, task.Link{Type: d.kind, ID: d.on})
		}
	}
	t.DependsOn = task.Sorted(t.DependsOn)
	switch {
	case t.IfDependencyFails == "" && len(t.DependsOn) > 0:
		t.IfDependencyFails = task.GoOnWithout
	case t.IfDependencyFails == task.WaitForIt:
		t.IfDependencyFails = "" // the default
	}
	if blocked && (t.Status == task.Open || t.Status == task.Deferred) {
		t.Status = task.Blocked // by something that is not a task: a person has to look
	}
	return b, err
}

// oneLine turns imported text into one line of plain text.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
}

// statusOf returns the status of a task for that of a bead. An unknown status means blocked.
func statusOf(status string) task.Status {
	switch s := task.Status(status); s {
	case "":
		return task.Open
	case task.Open, task.InProgress, task.Blocked, task.Deferred, task.Closed:
		return s
	case "tombstone":
		return task.Closed
	}
	return task.Blocked
}

// dependency is an element of the member dependencies.
type dependency struct {
	on, kind string
	raw      json.RawMessage
}

// isExternal reports whether the dependency is on an issue of another project.
func (d dependency) isExternal() bool { return strings.HasPrefix(d.on, external) }

// blocks reports whether a task waits until the dependency is closed.
func (d dependency) blocks() bool { return (d.kind == blocks || d.kind == waitsFor) && !d.isExternal() }

func dependencies(rest object) (all []dependency, err error) {
	var list []json.RawMessage
	if err := rest.read("dependencies", "an array of objects", &list); err != nil {
		return nil, err
	}
	for i, raw := range list {
		d := dependency{kind: blocks, raw: raw}
		o, err := splitObject(raw)
		if err == nil {
			err = cmp.Or(o.read("depends_on_id", "a text", &d.on), o.read("type", "a text", &d.kind))
		}
		switch {
		case err != nil:
		case d.isExternal():
			err = task.CheckText("id", d.on, task.MaxName, false)
		default:
			err = task.CheckID(d.on)
		}
		if err != nil {
			return nil, &positionError{rest.find("dependencies").at, fmt.Errorf("dependencies[%d]: %w", i, err)}
		}
		d.kind = cmp.Or(oneLine(d.kind), blocks)
		all = append(all, d)
	}
	return all, nil
}

// takeComments moves the comments out of the kept bead, which keeps the position of the member.
func (b *Bead) takeComments() error {
	var list []json.RawMessage
	if err := b.rest.read("comments", "an array of objects", &list); err != nil {
		return err
	}
	for i, raw := range list {
		var c task.SavedComment
		o, err := splitObject(raw)
		if err == nil {
			err = cmp.Or(o.read("author", "a text", &c.By), o.read("text", "a text", &c.Text),
				o.read("created_at", "a time", &c.At))
		}
		if err == nil {
			err = task.CheckText("text", c.Text, task.MaxComment, true)
		}
		if err == nil && len(raw)-len(c.Text) > task.MaxComment {
			err = fmt.Errorf("it has %d bytes", len(raw))
		}
		if err != nil {
			return &positionError{b.rest.find("comments").at, fmt.Errorf("comments[%d]: %w", i, err)}
		}
		c.By, c.At = oneLine(c.By), c.At.UTC()
		if c.Text != "" {
			o.set("text", "")
		}
		c.Imported = o.json()
		b.comments = append(b.comments, c)
	}
	if len(list) > 0 {
		b.rest.set("comments", json.RawMessage("[]"))
	}
	return nil
}

func (b *Bead) check() error {
	if err := b.task.Check(); err != nil {
		return err
	}
	if len(b.comments) > task.MaxComments {
		return fmt.Errorf("it has %d comments, at most %d are allowed", len(b.comments), task.MaxComments)
	}
	text, err := description(b.rest)
	if err != nil {
		return err
	}
	n := b.rest.size()
	if m := b.rest.find("description"); m != nil {
		n -= len(m.value)
	}
	if n > maxRest {
		return fmt.Errorf("it has %d bytes apart from its description and comments, at most %d are allowed", n, maxRest)
	}
	return task.CheckText("description", text, task.MaxText, true)
}

// Text returns the description of a kept bead.
func Text(kept []byte) (string, error) {
	o, err := parseObject(kept)
	if err != nil {
		return "", err
	}
	return description(o)
}

// description returns the description of a bead.
func description(rest object) (text string, err error) {
	return text, rest.read("description", "a text", &text)
}

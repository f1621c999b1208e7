// Package transfer reads tasks that other programs have written, and writes them for
// those. A bead is an issue as the bd tool keeps it: a JSON object a line, in
// .beads/issues.jsonl. Fields that tasks have too are read; the whole line is
// kept next to the task, so that an export has what the import has brought. Its
// description is the text of the task, unless that was edited since.
package transfer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/coppice-dev/coppice/internal/task"
)

// maxRest bounds a bead without its description and comments.
const maxRest = 256 << 10

// Bead is one that was read.
type Bead struct {
	task     task.Task // without what follows from where it is imported
	comments []task.SavedComment
	rest     object // the bead without its comments
}

// Types of dependencies that mean more than that there is one.
const (
	blocks      = "blocks"
	waitsFor    = "waits-for"          // for the children of another one, too, as all tasks do
	conditional = "conditional-blocks" // to be done only if the other one fails
	parentChild = "parent-child"
)

// external is what an id begins with that is of another project.
const external = "external:"

// ParseBead reads a bead. Its error says which member is wrong and what was expected.
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

// ID is the bead's own.
func (b *Bead) ID() string { return b.task.ID }

// Task returns what a task has a field for, but what follows from where it is imported.
func (b *Bead) Task() task.Task { return b.task }

// Comments returns what was said about the bead.
func (b *Bead) Comments() []task.SavedComment { return b.comments }

// Kept returns what is to be kept of the bead, for Write and Text: all but its comments.
func (b *Bead) Kept() []byte { return b.rest.json() }

// extras are what tasks have and beads have not.
type extras struct {
	Pool      string       `json:"pool,omitempty"`
	Origin    string       `json:"origin,omitempty"`
	Ephemeral bool         `json:"ephemeral,omitempty"`
	Outcome   task.Outcome `json:"outcome,omitempty"`
	// Parked is why the task is parked. Its bead is blocked for other programs.
	Parked       string `json:"parked,omitempty"`
	FailedClaims int    `json:"failed_claims,omitempty"`
	MaxClaims    int    `json:"max_claims,omitempty"`
}

// extrasOf are those of a task. That a task was completed is said by its status.
func extrasOf(t *task.Task) extras {
	x := extras{
		Pool: t.Pool, Origin: t.Origin, Ephemeral: t.Ephemeral, Outcome: t.Outcome,
		FailedClaims: t.FailedClaims, MaxClaims: t.MaxClaims,
	}
	if x.Outcome == task.Completed {
		x.Outcome = ""
	}
	if t.Status == task.Parked {
		x.Parked = t.Reason
	}
	return x
}

// apply gives a task that was read its extras. One that another program has taken
// out of blocked is no longer parked, and its claims count from 0.
func (x extras) apply(t *task.Task) {
	t.Pool, t.Origin, t.Ephemeral, t.MaxClaims = x.Pool, x.Origin, x.Ephemeral, x.MaxClaims
	switch {
	case x.Parked == "":
		t.FailedClaims = max(0, x.FailedClaims)
	case t.Status == task.Blocked:
		t.Status, t.Reason, t.FailedClaims = task.Parked, x.Parked, max(0, x.FailedClaims)
	}
}

// readBead reads what a task has a field for, but description and comments.
func readBead(rest object) (*Bead, error) {
	const text, number, when = "a text", "an integer from 0 to 4", "a time such as 2026-01-31T12:00:00Z"
	b := &Bead{rest: rest}
	t := &b.task
	t.Priority = task.DefaultPriority
	var kind, status, reason string
	var more extras
	var pinned, template bool // what is no work
	for _, m := range []struct {
		name, expected string
		into           any
	}{
		{"_type", text, &kind}, {"id", text, &t.ID}, {"title", text, &t.Title}, {"status", text, &status},
		{"priority", number, &t.Priority},
		{"issue_type", text, &t.Type}, {"assignee", text, &t.Assignee}, {"labels", "an array of texts", &t.Labels},
		{"close_reason", text, &reason},
		{"created_at", when, &t.CreatedAt}, {"created_by", text, &t.CreatedBy}, {"updated_at", when, &t.UpdatedAt},
		{"closed_at", when, &t.ClosedAt},
		{"defer_until", when, &t.NotBefore}, {"pinned", "true or false", &pinned},
		{"is_template", "true or false", &template},
		{"coppice", "an object with pool, origin, ephemeral, outcome, parked, failed_claims and max_claims", &more},
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
	t.Labels = task.Sorted(t.Labels)
	t.Status = statusOf(status)
	more.apply(t)
	t.CreatedAt, t.NotBefore = t.CreatedAt.UTC(), t.NotBefore.UTC()
	if t.UpdatedAt = t.UpdatedAt.UTC(); t.UpdatedAt.IsZero() {
		t.UpdatedAt = t.CreatedAt
	}
	if t.Status == task.Closed {
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
	if blocked && (t.Status == task.Open || t.Status == task.Deferred) {
		t.Status = task.Blocked // by what is no task here: somebody has to look at it
	}
	return b, err
}

// oneLine makes a text of somebody else one line of plain text.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
}

// statusOf is the status of a task whose bead says so. What is not known here
// is nothing that can be done.
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

// dependency is an element of dependencies.
type dependency struct {
	on, kind string
	raw      json.RawMessage
}

// isExternal reports whether it is on something of another project.
func (d dependency) isExternal() bool { return strings.HasPrefix(d.on, external) }

// blocks reports whether a task waits until what it is on is closed.
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

// takeComments takes the comments out of what is kept of a bead, and leaves the place
// where they were.
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

// Text returns the description of a bead that was kept.
func Text(kept []byte) (string, error) {
	o, err := parseObject(kept)
	if err != nil {
		return "", err
	}
	return description(o)
}

// description is the text of a bead.
func description(rest object) (text string, err error) {
	return text, rest.read("description", "a text", &text)
}

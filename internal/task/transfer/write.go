package transfer

import (
	"encoding/json"
	"slices"

	"github.com/coppice-dev/coppice/internal/task"
)

// Write returns a task as a bead. kept is the bead it was imported from, nil if there was none;
// members that have not changed keep their text. A nil text means the description of kept. If kept
// cannot be read, Write returns the error and a bead without it.
func Write(t *task.Task, text []byte, comments []task.SavedComment, kept []byte) (json.RawMessage, error) {
	var before object
	var err error
	if kept != nil {
		before, err = parseObject(kept)
	}
	oldText, _ := description(before)
	newText := oldText
	if text != nil {
		newText = string(text)
	}
	was, readErr := readBead(before)
	if readErr != nil {
		before, was = nil, &Bead{}
	}
	now := *t
	if now.Claim != nil {
		now.Assignee = now.Claim.By
	}
	o := slices.Clone(before)
	put := func(name string, same bool, value any, there bool) {
		switch {
		case same && before != nil:
		case there:
			o.set(name, value)
		default:
			o.remove(name)
		}
	}
	put("id", now.ID == was.task.ID, now.ID, true)
	put("title", now.Title == was.task.Title, now.Title, true)
	put("description", newText == oldText, newText, true)
	// Earlier versions have imported tasks without the criterion, so that none does not mean that it was removed.
	put("acceptance_criteria", now.DoneWhen == was.task.DoneWhen || now.DoneWhen == "", now.DoneWhen,
		now.DoneWhen != "")
	status := now.Status
	if status == task.Parked {
		status = task.Blocked
	}
	put("status", now.Status == was.task.Status, status, true)
	put("priority", now.Priority == was.task.Priority, now.Priority, true)
	put("issue_type", now.Type == was.task.Type, now.Type, now.Type != "")
	put("assignee", now.Assignee == was.task.Assignee, now.Assignee, now.Assignee != "")
	put("labels", slices.Equal(now.Labels, was.task.Labels), now.Labels, len(now.Labels) > 0)
	put("created_at", now.CreatedAt.Equal(was.task.CreatedAt), now.CreatedAt, true)
	put("created_by", now.CreatedBy == was.task.CreatedBy, now.CreatedBy, now.CreatedBy != "")
	put("updated_at", now.UpdatedAt.Equal(was.task.UpdatedAt), now.UpdatedAt, true)
	put("closed_at", now.ClosedAt.Equal(was.task.ClosedAt), now.ClosedAt, !now.ClosedAt.IsZero())
	reason := ""
	if now.Status == task.Closed {
		reason = now.Reason
	}
	put("close_reason", reason == was.task.Reason && now.Status == was.task.Status, reason, reason != "")
	put("defer_until", now.NotBefore.Equal(was.task.NotBefore), now.NotBefore, !now.NotBefore.IsZero())
	put("dependencies", slices.Equal(now.DependsOn, was.task.DependsOn) && now.Parent == was.task.Parent &&
		slices.Equal(now.Links, was.task.Links),
		beadDependencies(&now, before), len(now.DependsOn)+len(now.Links) > 0 || now.Parent != "")
	if len(comments) > 0 {
		o.set("comments", beadComments(now.ID, comments))
	}
	more := extrasOf(&now)
	put("coppice", more == extrasOf(&was.task), more, more != extras{})
	return o.json(), err
}

// beadDependencies returns the dependencies of a task. Those that were imported keep their text.
func beadDependencies(t *task.Task, kept object) []json.RawMessage {
	var links []task.Link
	for _, id := range t.DependsOn {
		links = append(links, task.Link{Type: blocks, ID: id})
	}
	if t.Parent != "" {
		links = append(links, task.Link{Type: parentChild, ID: t.Parent})
	}
	links = append(links, t.Links...)
	before, _ := dependencies(kept)
	all := []json.RawMessage{}
	for _, l := range links {
		i := slices.IndexFunc(before, func(d dependency) bool {
			return d.on == l.ID && (d.kind == l.Type || l.Type == blocks && d.blocks())
		})
		if i >= 0 {
			all = append(all, before[i].raw)
			continue
		}
		var o object
		o.set("issue_id", t.ID)
		o.set("depends_on_id", l.ID)
		o.set("type", l.Type)
		o.set("created_at", t.UpdatedAt)
		all = append(all, o.json())
	}
	return all
}

func beadComments(id string, comments []task.SavedComment) []json.RawMessage {
	all := make([]json.RawMessage, len(comments))
	for i, c := range comments {
		o, err := parseObject(c.Imported)
		if err != nil { // it was not imported
			o.set("issue_id", id)
			o.set("author", c.By)
			o.set("text", c.Text)
			o.set("created_at", c.At)
		} else if c.Text != "" {
			o.set("text", c.Text)
		}
		all[i] = o.json()
	}
	return all
}

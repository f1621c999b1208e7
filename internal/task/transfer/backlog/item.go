package backlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/task"
)

// item is a task of the file.
type item struct {
	at      place
	id      string
	depends []dependency
	bead    map[string]any
}

type dependency struct {
	id string
	at place
}

// knownFields are the fields of a task, and those of a file of one task.
func knownFields(alone bool) []string {
	known := []string{"id", "objective", "priority", "status", "depends_on", "decomposition_depth", "error", "pr_url",
		"outcome_context", "remediation_depth", "is_remediation", "files_hint", "created_at", "definition_of_done",
		"trust_tier", "task_type"}
	if alone {
		known = append(known, "constraints", "acceptance", "risk")
	}
	return known
}

// items returns the tasks of a file: those below tasks, or the only one.
func (r *reader) items(root ast.Node) (all []*item) {
	if root == nil {
		return nil
	}
	top, ok := r.fields(root)
	switch {
	case !ok:
		r.errorf(placeOf(root.GetToken()), "expected tasks: or one task with id: and objective:")
		return nil
	case slices.ContainsFunc(top, func(f field) bool { return f.name == "objective" }):
		return []*item{r.item(place{top[0].at.line, top[0].at.column}, top, true)}
	}
	tasks := false
	for _, f := range top {
		if f.name != "tasks" {
			r.errorf(f.at, "unknown key %.40q, expected tasks", f.name)
			continue
		}
		tasks = true
		list, ok := f.value.(*ast.SequenceNode)
		if _, null := f.value.(*ast.NullNode); !ok && !null {
			r.errorf(f.at, "tasks is not a list")
		}
		if list == nil {
			continue
		}
		line := 0
		for _, n := range list.Values {
			one, ok := r.fields(n)
			if !ok || len(one) == 0 {
				r.errorf(placeOf(n.GetToken()), "expected a task with id: and objective:")
				continue
			}
			if one[0].at.line == line {
				r.errorf(one[0].at, "two tasks begin in this line; begin each in a line of its own")
				continue
			}
			line = one[0].at.line
			all = append(all, r.item(one[0].at, one, false))
		}
	}
	if !tasks {
		r.errorf(place{1, 1}, "there is neither tasks: nor objective:")
	}
	return all
}

// item reads a task.
func (r *reader) item(at place, fields []field, alone bool) *item {
	i := &item{at: at}
	kept := map[string]any{} // all fields as they are
	texts := map[string]string{}
	places := map[string]place{}
	for _, f := range fields {
		places[f.name] = f.at
		if known := knownFields(alone); !slices.Contains(known, f.name) {
			hint := ""
			if near := suggest.Nearest(f.name, known); near != "" {
				hint = fmt.Sprintf("; did you mean %q?", near)
			}
			r.errorf(f.at, "unknown key %.40q%s", f.name, hint)
			continue
		}
		kept[f.name] = r.value(f.value, 1)
		switch f.name {
		case "depends_on":
			i.depends = r.depends(f)
		case "outcome_context", "files_hint", "constraints", "acceptance":
			texts[f.name] = lines(kept[f.name], "")
		default:
			value, ok := text(f.value)
			if !ok {
				r.errorf(f.at, "%s is not a text, number or truth value", f.name)
			}
			texts[f.name] = value
		}
	}
	placeOfField := func(name string) place {
		if p, ok := places[name]; ok {
			return p
		}
		return at
	}
	if i.id = texts["id"]; task.CheckID(i.id) != nil {
		r.errorf(placeOfField("id"), "id is %.40q, expected letters, digits, dots and dashes", i.id)
	}
	if strings.TrimSpace(texts["objective"]) == "" {
		r.errorf(placeOfField("objective"), "objective is missing")
	}
	status, parked := r.status(texts["status"], placeOfField("status"))
	b := map[string]any{
		"id": i.id, "title": title(texts["objective"]), "description": description(texts), "status": status,
		"priority": r.priority(texts["priority"], placeOfField("priority")), "glitchlab": kept,
	}
	extras := map[string]any{"origin": "glitchlab"}
	if parked {
		extras["parked"] = "it has failed in GLITCHLAB: " + title(texts["error"])
	}
	if len(i.depends) > 0 {
		extras["if_dependency_fails"] = task.WaitForIt
	}
	b["coppice"] = extras
	if kind := texts["task_type"]; kind != "" && kind != "engineering" {
		b["issue_type"] = kind
	}
	var labels []string
	if tier := texts["trust_tier"]; tier != "" && tier != "trusted" {
		labels = append(labels, "trust-"+tier)
	}
	if texts["is_remediation"] == "true" {
		labels = append(labels, "remediation")
	}
	if labels != nil {
		b["labels"] = labels
	}
	if url := texts["pr_url"]; url != "" {
		b["external_ref"] = url
	}
	if created := texts["created_at"]; created != "" {
		if _, err := time.Parse(time.RFC3339, created); err != nil {
			r.errorf(placeOfField("created_at"), "created_at is %.40q, expected a time such as 2026-01-31T12:00:00Z",
				created)
		}
		b["created_at"] = created
	}
	if note := history(texts); note != "" {
		comment := map[string]any{"author": "glitchlab", "text": note}
		if created := b["created_at"]; created != nil {
			comment["created_at"] = created
		}
		b["comments"] = []any{comment}
	}
	i.bead = b
	return i
}

// status returns the status of a bead. A task that was in progress is open: what worked at it is gone.
func (r *reader) status(status string, at place) (bead string, parked bool) {
	switch status {
	case "", "pending", "in_progress", "deferred":
		return "open", false
	case "completed":
		return "closed", false
	case "failed":
		return "blocked", true
	case "skipped":
		return "blocked", false
	}
	r.errorf(at, "status is %.40q, expected pending, in_progress, completed, failed, skipped or deferred", status)
	return "", false
}

// priority returns the priority of a task for one of GLITCHLAB, whose 25 is the next less urgent one.
func (r *reader) priority(text string, at place) int {
	if text == "" {
		return task.MaxPriority // it is 100 by default
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.errorf(at, "priority is %.40q, expected an integer", text)
	}
	return min(max(n/25, 0), task.MaxPriority)
}

func (r *reader) depends(f field) (all []dependency) {
	list, ok := f.value.(*ast.SequenceNode)
	if _, null := f.value.(*ast.NullNode); !ok && !null {
		r.errorf(f.at, "depends_on is not a list of ids")
	}
	if list == nil {
		return nil
	}
	for _, n := range list.Values {
		at := placeOf(n.GetToken())
		id, ok := text(n)
		if !ok || id == "" {
			r.errorf(at, "depends_on is not a list of ids")
			continue
		}
		all = append(all, dependency{id, at})
	}
	return all
}

// prefix is what GLITCHLAB puts in front of the ids of subtasks, and not of those that they depend on.
const prefix = "gl-"

// link writes the dependencies of all tasks, which must be in the file.
func (r *reader) link(items []*item) {
	ids := make(map[string]place, len(items))
	for _, i := range items {
		if first, twice := ids[i.id]; twice && i.id != "" {
			r.errorf(i.at, "%s is already in line %d", i.id, first.line)
		}
		ids[i.id] = i.at
	}
	for _, i := range items {
		links := map[string]any{}
		for _, d := range i.depends {
			id := d.id
			if _, there := ids[id]; !there {
				id = prefix + id
			}
			if _, there := ids[id]; !there {
				r.errorf(d.at, "%.40s depends on %.40q, which is not in the file; add that task, or remove it here",
					i.id, d.id)
				continue
			}
			links[id] = map[string]any{"issue_id": i.id, "depends_on_id": id, "type": "blocks"}
		}
		var all []any
		for _, id := range slices.Sorted(maps.Keys(links)) {
			all = append(all, links[id])
		}
		if all != nil && i.bead != nil {
			i.bead["dependencies"] = all
		}
	}
}

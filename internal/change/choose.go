package change

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/change/pattern"
)

// KindRule chooses a kind for tasks. All of its conditions have to hold; one without conditions
// chooses for every task.
type KindRule struct {
	Kind Kind
	// Labels: the task has at least one of them.
	Labels []string
	// Priorities: the task has one of them.
	Priorities []int
	// Paths: the task names files, and all of them match.
	Paths *pattern.List
}

// TaskFacts are the facts about a task that choose its kind.
type TaskFacts struct {
	Labels   []string
	Priority int
	// Paths are the files that the task names, if it does.
	Paths []string
	// Explicit is the kind that the task itself asks for, if it does.
	Explicit Kind
	// ByPerson means that a person has set Explicit. Others, such as an agent that adds a task,
	// can only make it stricter.
	ByPerson bool
}

// Choose returns the kind of a task, and why: what a person has set, else the first rule that matches, else
// fallback, made stricter by what the task asks for.
func Choose(rules []KindRule, fallback Kind, t TaskFacts) (kind Kind, why string) {
	if t.ByPerson && t.Explicit != "" {
		return t.Explicit, "a person has set it on the task"
	}
	kind, why = fallback, "no rule matches: the default"
	for i, r := range rules {
		if conditions, ok := r.match(t); ok {
			kind, why = r.Kind, fmt.Sprintf("rule %d matches (%s)", i+1, conditions)
			break
		}
	}
	if t.Explicit == "" || t.Explicit == kind {
		return kind, why
	}
	if t.Explicit == Maintenance {
		return Maintenance, fmt.Sprintf("the task asks for it, which is stricter than %s", kind)
	}
	return kind, fmt.Sprintf("%s; the task asks for %s, which only a person may set", why, t.Explicit)
}

// match reports whether all conditions hold, and names them.
func (r KindRule) match(t TaskFacts) (conditions string, ok bool) {
	var held []string
	if len(r.Labels) > 0 {
		i := slices.IndexFunc(r.Labels, func(l string) bool { return slices.Contains(t.Labels, l) })
		if i < 0 {
			return "", false
		}
		held = append(held, "label "+quoteName(r.Labels[i]))
	}
	if len(r.Priorities) > 0 {
		if !slices.Contains(r.Priorities, t.Priority) {
			return "", false
		}
		held = append(held, fmt.Sprintf("priority %d", t.Priority))
	}
	if r.Paths != nil {
		for _, name := range t.Paths {
			if _, ok := r.Paths.Match(path.Clean(name)); !ok {
				return "", false
			}
		}
		if len(t.Paths) == 0 {
			return "", false
		}
		held = append(held, "paths")
	}
	if held == nil {
		return "every task", true
	}
	return strings.Join(held, ", "), true
}

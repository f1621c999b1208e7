package backlog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxTitle bounds a title in bytes.
const maxTitle = 200

// title returns the first line of an objective, cut off if it is long.
func title(objective string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(objective), "\n")
	if first = strings.TrimSpace(first); len(first) <= maxTitle {
		return first
	}
	cut := maxTitle
	for !utf8.RuneStart(first[cut]) {
		cut--
	}
	return first[:cut] + "…"
}

// description returns the text of a task: the objective if it is more than the title, and what the
// agent should know.
func description(texts map[string]string) string {
	var parts []string
	if objective := strings.TrimSpace(texts["objective"]); objective != title(objective) {
		parts = append(parts, objective)
	}
	for _, section := range []struct{ name, heading string }{
		{"definition_of_done", "Definition of Done"}, {"constraints", "Constraints"}, {"acceptance", "Acceptance"},
		{"risk", "Risk"}, {"files_hint", "Files"},
	} {
		if text := strings.TrimSpace(texts[section.name]); text != "" {
			parts = append(parts, "## "+section.heading+"\n\n"+text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// history returns what has happened to a task, for the next attempt; empty if nothing has.
func history(texts map[string]string) string {
	var parts []string
	for _, part := range []struct{ name, heading string }{
		{"pr_url", "Pull request"}, {"error", "Error"}, {"outcome_context", "Outcome"},
	} {
		if text := strings.TrimSpace(texts[part.name]); text != "" {
			parts = append(parts, part.heading+": "+strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	if status := texts["status"]; parts != nil || status == "in_progress" || status == "deferred" {
		parts = append([]string{"In GLITCHLAB it was " + status + "."}, parts...)
	}
	return strings.Join(parts, "\n")
}

// lines returns a value as lines of text: a text as it is, the elements of a list, the members of an
// object.
func lines(value any, indent string) string {
	var all []string
	add := func(label string, v any) {
		text := lines(v, indent+"  ")
		switch v.(type) {
		case []any, map[string]any:
			all = append(all, indent+strings.TrimSpace(label), text)
		default:
			all = append(all, strings.TrimRight(indent+label+strings.TrimSpace(text), " "))
		}
	}
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		for _, one := range v {
			add("- ", one)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			add(key+": ", v[key])
		}
	default:
		return indent + fmt.Sprint(v)
	}
	return strings.Join(all, "\n")
}

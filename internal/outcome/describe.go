package outcome

import (
	"fmt"
	"strings"
)

// Describe returns the outcome as a text of several lines, for people and for the next attempt. It
// is not sanitized for terminals.
func (r Report) Describe() string {
	var b strings.Builder
	b.WriteString(r.String())
	add := func(name, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, "\n%s: %s", name, strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	list := func(name string, texts []string) {
		if len(texts) > 0 {
			fmt.Fprintf(&b, "\n%s:", name)
		}
		for _, text := range texts {
			fmt.Fprintf(&b, "\n- %s", strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
		}
	}
	if r.Context != nil {
		add("Summary", r.Summary)
		add("Approach", r.Context.Approach)
		list("Discoveries", r.Context.Discoveries)
		add("Recommendation", r.Context.Recommendation)
		add("Files explored", strings.Join(r.Context.Explored.Files, ", "))
		add("Dependencies", strings.Join(r.Context.Explored.Dependencies, ", "))
		add("Notes", r.Context.Explored.Notes)
	}
	list("Evidence", r.Evidence.Lines())
	if r.Condition != nil {
		add("Waits for", fmt.Sprintf("%s %s", r.Condition.Kind, r.Condition.What))
	}
	add("Question", r.Question)
	return b.String()
}

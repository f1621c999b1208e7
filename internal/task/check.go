package task

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Check returns an ErrInvalid if a field of the task is missing, too large or malformed.
func (t *Task) Check() error {
	if err := CheckID(t.ID); err != nil {
		return err
	}
	if strings.TrimSpace(t.Title) == "" {
		return fmt.Errorf("%w: the title is missing", ErrInvalid)
	}
	for _, text := range []struct {
		name, text string
		most       int
	}{
		{"title", t.Title, MaxTitle}, {"type", t.Type, MaxName}, {"pool", t.Pool, MaxName},
		{"assignee", t.Assignee, MaxName}, {"origin", t.Origin, MaxName}, {"reason", t.Reason, MaxReason},
		{"creator", t.CreatedBy, MaxName}, {"criterion", t.DoneWhen, MaxDoneWhen},
		{fixCheck, t.Fixes, MaxFixes},
	} {
		lines := text.name == "reason" || text.name == "criterion"
		if err := CheckText(text.name, text.text, text.most, lines); err != nil {
			return err
		}
	}
	if t.Fixes != "" {
		if _, err := setting.Words(t.Fixes); err != nil {
			return fmt.Errorf("%w: the check of a fix has %w", ErrInvalid, err)
		}
	}
	if t.Mode != "" {
		if err := checkOneOf("mode", t.Mode, pipeline.Modes()...); err != nil {
			return err
		}
	}
	if err := checkOneOf("status", t.Status, Statuses()...); err != nil {
		return err
	}
	if t.IfDependencyFails != "" {
		if err := checkOneOf("rule for a failed dependency", t.IfDependencyFails, DependencyRules()...); err != nil {
			return err
		}
	}
	switch {
	case t.MaxClaims < 0 || t.MaxClaims > spec.MaxClaims:
		return fmt.Errorf("%w: max_claims is %d, expected 1 to %d, or 0 for what the file says",
			ErrInvalid, t.MaxClaims, spec.MaxClaims)
	case t.Priority < 0 || t.Priority > MaxPriority:
		return fmt.Errorf("%w: the priority is %d, expected 0 (most urgent) to %d", ErrInvalid, t.Priority, MaxPriority)
	case len(t.Labels) > MaxLabels:
		return fmt.Errorf("%w: it has %d labels, at most %d are allowed", ErrInvalid, len(t.Labels), MaxLabels)
	case len(t.DependsOn)+len(t.Links) > MaxDepends:
		return fmt.Errorf("%w: it has %d dependencies and links, at most %d are allowed", ErrInvalid,
			len(t.DependsOn)+len(t.Links), MaxDepends)
	}
	for _, label := range t.Labels {
		if label == "" {
			return fmt.Errorf("%w: a label is empty", ErrInvalid)
		}
		if err := CheckText("label", label, MaxName, false); err != nil {
			return err
		}
	}
	for _, id := range t.DependsOn {
		if err := CheckID(id); err != nil {
			return err
		}
		if id == t.ID {
			return fmt.Errorf("%w: %s depends on itself", ErrInvalid, id)
		}
	}
	if t.Parent != "" {
		if err := CheckID(t.Parent); err != nil {
			return err
		}
		if t.Parent == t.ID {
			return fmt.Errorf("%w: %s is its own parent", ErrInvalid, t.ID)
		}
	}
	return nil
}

// CheckText returns an ErrInvalid if a text is too long, not UTF-8, or not plain text in one line.
// With lines set, it may have several lines.
func CheckText(name, text string, most int, lines bool) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("%w: the %s has %d bytes, at most %d are allowed", ErrInvalid, name, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Errorf("%w: the %s is not UTF-8", ErrInvalid, name)
	case !lines && strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%w: the %s is not one line of plain text: %.80q", ErrInvalid, name, text)
	}
	return nil
}

// checkOneOf returns an ErrInvalid unless a word is one of the known ones.
func checkOneOf[S ~string](name string, word S, known ...S) error {
	if slices.Contains(known, word) {
		return nil
	}
	words := make([]string, len(known))
	for i, s := range known {
		words[i] = string(s)
	}
	hint := ""
	if near := suggest.Nearest(string(word), words); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("%w: the %s is %.40q, expected %s%s", ErrInvalid, name, word, strings.Join(words, ", "), hint)
}

// Sorted returns the strings sorted, without empty ones and duplicates; nil if none are left.
func Sorted(all []string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return nil
	}
	return all
}

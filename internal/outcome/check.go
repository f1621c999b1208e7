package outcome

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/suggest"
)

// Error reports why a Report is not a valid outcome.
type Error struct {
	Kind    Kind     // empty if it is not valid
	Missing []string // fields, as paths: "context.approach"
	Wrong   []string // other problems, each with its field and what was expected
}

func (e *Error) Error() string {
	return strings.TrimSpace("outcome "+string(e.Kind)) + ": " + e.problems()
}

// problems returns everything that is missing or wrong, in a line; empty if nothing is.
func (e *Error) problems() string {
	parts := e.Wrong
	if len(e.Missing) > 0 {
		parts = slices.Concat([]string{"missing " + strings.Join(e.Missing, ", ")}, e.Wrong)
	}
	return strings.Join(parts, "; ")
}

// maxWrong bounds the problems in an error, since a few are enough to learn from.
const maxWrong = 5

func (e *Error) require(ok bool, field string) {
	if !ok && len(e.Missing) < 20 {
		e.Missing = append(e.Missing, field)
	}
}

func (e *Error) addWrong(format string, args ...any) {
	if len(e.Wrong) < maxWrong {
		e.Wrong = append(e.Wrong, fmt.Sprintf(format, args...))
	}
}

// notBlank reports whether a text has more than white space.
func notBlank(s string) bool { return strings.TrimSpace(s) != "" }

// check returns an *Error with all problems of a report, nil if there are none.
func check(r Report) error {
	e := &Error{}
	if !slices.Contains(Kinds(), r.Kind) {
		addUnknown(e, "kind", r.Kind, Kinds())
		return e
	}
	e.Kind = r.Kind
	switch {
	case r.Context != nil:
		checkContext(e, *r.Context)
	case r.Kind != Completed:
		e.Missing = append(e.Missing, "context.approach", "context.obstacle")
	}
	waits := r.Context != nil && r.Context.Obstacle.Kind == MissingPrerequisite
	e.require(r.Kind != Deferred || r.NotBefore != nil || waits, "not_before")
	e.require(r.Kind != Decomposed || len(r.Subtasks) > 0, "subtasks")
	e.require(r.Kind != Blocked || r.Condition != nil, "condition")
	e.require(r.Kind != Escalated || notBlank(r.Question), "question")
	e.notAllowed(r.NotBefore != nil, "not_before", Deferred, Retryable)
	e.notAllowed(len(r.Subtasks) > 0, "subtasks", Decomposed)
	e.notAllowed(r.Condition != nil, "condition", Blocked)
	e.notAllowed(r.Question != "", "question", Escalated)
	if r.Condition != nil {
		e.condition(*r.Condition, ConditionKinds())
	}
	checkSubtasks(e, r.Subtasks)
	r.Evidence.check(e)
	if r.NotBefore != nil && (r.NotBefore.Year() < 1 || r.NotBefore.Year() > 9999) {
		e.addWrong("not_before is in the year %d, expected one from 1 to 9999", r.NotBefore.Year())
	}
	r.texts(func(field, text string) {
		if !utf8.ValidString(text) {
			e.addWrong("%s is not UTF-8", field)
		}
	})
	if len(e.Missing) == 0 && len(e.Wrong) == 0 {
		e.checkSize(r)
	}
	if e.problems() == "" {
		return nil
	}
	return e
}

// notAllowed adds a problem if a field is set that the kind does not use: it would be ignored.
func (e *Error) notAllowed(there bool, field string, of ...Kind) {
	if there && !slices.Contains(of, e.Kind) {
		e.addWrong("%s belongs to %s", field, strings.Join(words(of), " and "))
	}
}

func addUnknown[S ~string](e *Error, field string, got S, known []S) {
	if got == "" {
		e.Missing = append(e.Missing, field)
		return
	}
	text := fmt.Sprintf("unknown %s %.40q, expected one of %s", field, got, strings.Join(words(known), ", "))
	if near := suggest.Nearest(string(got), words(known)); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	e.addWrong("%s", text)
}

func words[S ~string](all []S) []string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return words
}

func checkContext(e *Error, c Context) {
	e.require(notBlank(c.Approach), "context.approach")
	if c.Obstacle == (Obstacle{}) {
		e.require(false, "context.obstacle")
		return
	}
	c.Obstacle.check(e)
}

func checkSubtasks(e *Error, subtasks []Subtask) {
	ids := make(map[string]int, len(subtasks)) // in lower case
	for i, s := range subtasks {
		at := fmt.Sprintf("subtasks[%d]", i)
		e.require(notBlank(s.Objective), at+".objective")
		e.require(s.ID != "", at+".id")
		if s.ID == "" {
			continue
		}
		if !validID(s.ID) {
			e.addWrong("%s.id is %.80q, expected a letter or digit and then up to 63 letters, digits, - and _",
				at, s.ID)
		}
		if other, twice := ids[strings.ToLower(s.ID)]; twice {
			e.addWrong("%s.id %.80q is that of subtasks[%d], too", at, s.ID, other)
		}
		ids[strings.ToLower(s.ID)] = i
	}
	waits := make([]int, len(subtasks))     // number of subtasks to do first
	waiters := make([][]int, len(subtasks)) // subtasks that wait for it
	for i, s := range subtasks {
		for _, id := range s.DependsOn {
			other, ok := ids[strings.ToLower(id)]
			if !ok {
				e.addWrong("subtasks[%d].depends_on names %.80q, which is none of the subtasks", i, id)
				continue
			}
			waits[i]++
			waiters[other] = append(waiters[other], i)
		}
	}
	var done []int
	for i, n := range waits {
		if n == 0 {
			done = append(done, i)
		}
	}
	for next := 0; next < len(done); next++ {
		for _, i := range waiters[done[next]] {
			if waits[i]--; waits[i] == 0 {
				done = append(done, i)
			}
		}
	}
	if len(done) < len(subtasks) {
		i := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
		e.addWrong("subtasks[%d] %.80q waits for itself, through depends_on", i, subtasks[i].ID)
	}
}

func validID(id string) bool {
	for i, r := range id {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && (i == 0 || r != '-' && r != '_') {
			return false
		}
	}
	return len(id) <= 64
}

// checkSize adds a problem that names the largest part of a report that is too long.
func (e *Error) checkSize(r Report) {
	data, err := json.Marshal(r)
	if err != nil {
		e.addWrong("%v", err)
		return
	}
	if len(data) <= MaxBytes {
		return
	}
	part, longest := "", 0
	sizes := map[string]int{}
	r.texts(func(field, text string) {
		top, _, _ := strings.Cut(field, "[")
		if sizes[top] += len(text); sizes[top] > longest || sizes[top] == longest && top < part {
			part, longest = top, sizes[top]
		}
	})
	e.addWrong("%s", errTooLong(len(data), part))
}

func errTooLong(n int, part string) string {
	text := fmt.Sprintf("has %d bytes as JSON, expected at most %d", n, MaxBytes)
	if part != "" {
		text += "; the longest part of it is " + part
	}
	return text
}

package outcome

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/suggest"
)

// Error is why an outcome cannot be made.
type Error struct {
	Kind    Kind     // as far as it is known
	Missing []string // fields, as paths: "context.approach"
	Wrong   []string // what else is not right, each with its field and what was expected
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("outcome")
	if e.Kind != "" {
		fmt.Fprintf(&b, " %s", e.Kind)
	}
	sep := ": "
	if len(e.Missing) > 0 {
		fmt.Fprintf(&b, "%smissing %s", sep, strings.Join(e.Missing, ", "))
		sep = "; "
	}
	for _, w := range e.Wrong {
		b.WriteString(sep + w)
		sep = "; "
	}
	return b.String()
}

// maxWrong bounds an error: who has a hundred subtasks wrong learns enough from a few.
const maxWrong = 5

func (e *Error) need(ok bool, field string) {
	if !ok && len(e.Missing) < 20 {
		e.Missing = append(e.Missing, field)
	}
}

func (e *Error) wrong(format string, args ...any) {
	if len(e.Wrong) < maxWrong {
		e.Wrong = append(e.Wrong, fmt.Sprintf(format, args...))
	}
}

// filled: a field with nothing but blanks says nothing.
func filled(s string) bool { return strings.TrimSpace(s) != "" }

// check says everything that is wrong with the fields, nil if nothing is.
func check(f Report) error {
	e := &Error{}
	if !slices.Contains(Kinds(), f.Kind) {
		unknown(e, "kind", f.Kind, Kinds())
		return e
	}
	e.Kind = f.Kind
	switch {
	case f.Context != nil:
		checkContext(e, *f.Context)
	case f.Kind != Completed:
		e.Missing = append(e.Missing, "context.approach", "context.obstacle")
	}
	waits := f.Context != nil && f.Context.Obstacle.Kind == MissingPrerequisite
	e.need(f.Kind != Deferred || f.NotBefore != nil || waits, "not_before")
	e.need(f.Kind != Decomposed || len(f.Subtasks) > 0, "subtasks")
	e.need(f.Kind != Blocked || f.Condition != nil, "condition")
	e.need(f.Kind != Escalated || filled(f.Question), "question")
	e.foreign(f.NotBefore != nil, "not_before", Deferred, Retryable)
	e.foreign(len(f.Subtasks) > 0, "subtasks", Decomposed)
	e.foreign(f.Condition != nil, "condition", Blocked)
	e.foreign(f.Question != "", "question", Escalated)
	if f.Condition != nil {
		if kinds := []ConditionKind{TaskDone, ServiceUp, PersonHas}; !slices.Contains(kinds, f.Condition.Kind) {
			unknown(e, "condition.kind", f.Condition.Kind, kinds)
		}
		e.need(filled(f.Condition.What), "condition.what")
	}
	checkSubtasks(e, f.Subtasks)
	if f.NotBefore != nil && (f.NotBefore.Year() < 1 || f.NotBefore.Year() > 9999) {
		e.wrong("not_before is in the year %d, expected one from 1 to 9999", f.NotBefore.Year())
	}
	for field, text := range f.texts() {
		if !utf8.ValidString(text) {
			e.wrong("%s is not UTF-8", field)
		}
	}
	if len(e.Missing) == 0 && len(e.Wrong) == 0 {
		e.checkSize(f)
	}
	if len(e.Missing) == 0 && len(e.Wrong) == 0 {
		return nil
	}
	return e
}

// foreign: what another kind means would be passed over in silence.
func (e *Error) foreign(there bool, field string, of ...Kind) {
	if there && !slices.Contains(of, e.Kind) {
		e.wrong("%s belongs to %s", field, join(of, " and "))
	}
}

func unknown[S ~string](e *Error, field string, got S, all []S) {
	if got == "" {
		e.Missing = append(e.Missing, field)
		return
	}
	text := fmt.Sprintf("unknown %s %.40q, expected one of %s", field, got, join(all, ", "))
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	if near := suggest.Nearest(string(got), names); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	e.wrong("%s", text)
}

func join[S ~string](all []S, sep string) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(string(s))
	}
	return b.String()
}

func checkContext(e *Error, c Context) {
	e.need(filled(c.Approach), "context.approach")
	if c.Obstacle == (Obstacle{}) {
		e.need(false, "context.obstacle")
		return
	}
	c.Obstacle.check(e)
}

func checkSubtasks(e *Error, subtasks []Subtask) {
	ids := make(map[string]int, len(subtasks)) // in lower case
	for i, s := range subtasks {
		at := fmt.Sprintf("subtasks[%d]", i)
		e.need(filled(s.Objective), at+".objective")
		e.need(s.ID != "", at+".id")
		if s.ID == "" {
			continue
		}
		if !validID(s.ID) {
			e.wrong("%s.id is %.80q, expected a letter or digit and then up to 63 letters, digits, - and _", at, s.ID)
		}
		if other, twice := ids[strings.ToLower(s.ID)]; twice {
			e.wrong("%s.id %.80q is that of subtasks[%d], too", at, s.ID, other)
		}
		ids[strings.ToLower(s.ID)] = i
	}
	waits := make([]int, len(subtasks))   // how many must be done before
	frees := make([][]int, len(subtasks)) // who waits for it
	for i, s := range subtasks {
		for _, id := range s.DependsOn {
			other, ok := ids[strings.ToLower(id)]
			if !ok {
				e.wrong("subtasks[%d].depends_on names %.80q, which is none of the subtasks", i, id)
				continue
			}
			waits[i]++
			frees[other] = append(frees[other], i)
		}
	}
	var free []int
	for i, n := range waits {
		if n == 0 {
			free = append(free, i)
		}
	}
	done := 0
	for ; len(free) > 0; done++ {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, j := range frees[i] {
			if waits[j]--; waits[j] == 0 {
				free = append(free, j)
			}
		}
	}
	if done < len(subtasks) {
		i := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
		e.wrong("subtasks[%d] %.80q waits for itself, through depends_on", i, subtasks[i].ID)
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

// checkSize names the longest part of what is too long.
func (e *Error) checkSize(f Report) {
	data, err := json.Marshal(f)
	if err != nil {
		e.wrong("%v", err)
		return
	}
	if len(data) <= MaxBytes {
		return
	}
	part, longest := "", 0
	sizes := map[string]int{}
	for field, text := range f.texts() {
		top, _, _ := strings.Cut(field, "[")
		if sizes[top] += len(text); sizes[top] > longest || sizes[top] == longest && top < part {
			part, longest = top, sizes[top]
		}
	}
	e.wrong("%s", tooLong(len(data), part))
}

func tooLong(n int, part string) string {
	text := fmt.Sprintf("has %d bytes as JSON, expected at most %d", n, MaxBytes)
	if part != "" {
		text += "; the longest part of it is " + part
	}
	return text
}

package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Bounds on what outcomes may add to a project.
const (
	MaxSubtasks = 20  // of one outcome
	MaxDepth    = 3   // of decompositions below one another
	MaxScope    = 100 // of all tasks below a decomposed one
)

// maxSubtaskTitle bounds the title that is taken from the objective of a subtask, in bytes.
const maxSubtaskTitle = 200

// scope returns the decomposed tasks above a task, the nearest first. They and all that is below the last of them are
// the scope of the task.
func (x *Index) scope(r *Record) (all []*Record) {
	for at := x.get(r.Parent); at != nil && at.Decomposed && len(all) <= MaxDepth; at = x.get(at.Parent) {
		all = append(all, at)
	}
	return all
}

// stoppedBy returns the escalated tasks because of which a task cannot be claimed.
func (x *Index) stoppedBy(r *Record) []string {
	for _, above := range x.scope(r) {
		if len(above.StoppedBy) > 0 {
			return above.StoppedBy
		}
	}
	return nil
}

// scopeChanged reports whether a change of a task changes the scope of those below.
func scopeChanged(before, after *Record) bool {
	switch {
	case after == nil:
		return false
	case before == nil:
		return after.Decomposed
	}
	return before.Decomposed != after.Decomposed || after.Decomposed && before.Parent != after.Parent ||
		len(before.StoppedBy) != len(after.StoppedBy)
}

// below returns how many tasks there are below a decomposed one, as deep as decompositions go.
func (x *Index) below(id string, depth int) (n int) {
	for child := range x.children[id] {
		if n++; n > MaxScope {
			return n
		}
		if r := x.get(child); r != nil && r.Decomposed && depth < MaxDepth {
			n += x.below(child, depth+1)
		}
	}
	return n
}

// requeueBelow moves what is below a task to the right heaps, after its scope has changed.
func (x *Index) requeueBelow(id string, depth int) {
	if depth > MaxDepth {
		return
	}
	for child := range x.children[id] {
		x.requeue(child)
		if r := x.get(child); r != nil && r.Decomposed {
			x.requeueBelow(child, depth+1)
		}
	}
}

// stopScope stops the scope of an escalated task.
func (s *Step) stopScope(r *Record) {
	above := s.state.index.scope(r)
	if len(above) == 0 {
		return
	}
	top := *above[len(above)-1]
	top.StoppedBy = Sorted(append(top.StoppedBy[:len(top.StoppedBy):len(top.StoppedBy)], r.ID))
	s.set(top.ID, &top)
}

// resumeScope removes a task from those that stop its scope.
func (s *Step) resumeScope(r *Record) {
	for _, above := range s.state.index.scope(r) {
		if slices.Contains(above.StoppedBy, r.ID) {
			top := *above
			top.StoppedBy = without(top.StoppedBy, []string{r.ID})
			s.set(top.ID, &top)
		}
	}
}

// decompose divides a task into subtasks. They inherit what says who does them, and how urgent they are.
func (s *Step) decompose(r *Record, actor Actor, subtasks []outcome.Subtask) error {
	x := s.state.index
	above := x.scope(r)
	top := r.ID
	if len(above) > 0 {
		top = above[len(above)-1].ID
	}
	switch {
	case len(subtasks) > MaxSubtasks:
		return fmt.Errorf("%w: there are %d subtasks, at most %d are allowed", ErrInvalid, len(subtasks), MaxSubtasks)
	case len(above) >= MaxDepth:
		return fmt.Errorf("%w: %s is %d decompositions below %s, the maximum; do it, or escalate it", ErrInvalid, r.ID,
			len(above), top)
	case x.below(top, 0)+len(subtasks) > MaxScope:
		return fmt.Errorf("%w: %s has %d tasks below it, and may have %d; do %s, or escalate it", ErrInvalid, top,
			x.below(top, 0), MaxScope, r.ID)
	}
	r.Decomposed = true
	s.set(r.ID, r) // so that the subtasks are part of its scope
	ids := map[string]string{}
	made := make([]*Record, len(subtasks))
	for i, sub := range subtasks {
		child, err := s.state.draft(actor, Draft{
			Title: subtaskTitle(sub), Type: r.Type, Priority: &r.Priority, Labels: r.Labels, Pool: r.Pool,
			Assignee: r.Assignee, Parent: r.ID, Ephemeral: r.Ephemeral, MaxClaims: r.MaxClaims,
			Origin: cut("decomposed:" + r.ID), Mode: r.Mode,
		})
		if err != nil {
			return err
		}
		made[i], ids[strings.ToLower(sub.ID)] = child, child.ID
	}
	for i, sub := range subtasks {
		child := made[i]
		var on []string
		for _, id := range sub.DependsOn {
			on = append(on, ids[strings.ToLower(id)])
		}
		child.DependsOn = Sorted(on)
		text := sub.Objective
		if done := strings.TrimSpace(sub.DefinitionOfDone); done != "" {
			text += "\n\nDefinition of done: " + done
		}
		if err := CheckText("text", text, MaxText, true); err != nil {
			return err
		}
		s.write(TextPart, child.ID, []byte(text))
		if err := s.save(child, actor, Created, ""); err != nil {
			return err
		}
	}
	final := *r
	return s.save(&final, actor, Divided, fmt.Sprintf("into %d subtasks", len(subtasks)))
}

// subtaskTitle returns the first line of an objective, which may be cut off.
func subtaskTitle(sub outcome.Subtask) string {
	title, _, _ := strings.Cut(strings.TrimSpace(sub.Objective), "\n")
	title = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || 0x80 <= r && r < 0xA0 {
			return ' '
		}
		return r
	}, title)
	return plaintext.Cut(title, maxSubtaskTitle)
}

// rollUp ends the parent of a task that has just been closed, if it was decomposed into that task and others that are
// all closed by now. If some of them are not completed, a person decides. One with a criterion can be claimed again.
func (s *Step) rollUp(closed *Record) error {
	x := s.state.index
	parent := x.get(closed.Parent)
	if parent == nil || !parent.Decomposed || parent.closed() || parent.Claim != nil || x.openCount[parent.ID] > 0 {
		return nil
	}
	if len(x.scope(parent)) > MaxDepth { // imported: one step could not end all above, so agents close them
		return nil
	}
	total := len(x.children[parent.ID])
	var failed []string
	for child := range x.children[parent.ID] {
		if r := x.get(child); r != nil && !r.completed() {
			failed = append(failed, child)
		}
	}
	r, by := *parent, Actor{Name: controller}
	if len(failed) == 0 && r.DoneWhen != "" { // an agent shows how the whole meets its criterion
		r.Decomposed, r.Reason = false, fmt.Sprintf("its %d subtasks are completed; it needs evidence", total)
		return s.save(&r, by, Released, r.Reason)
	}
	if len(failed) == 0 {
		return s.close(&r, by, Completed, fmt.Sprintf("its %d subtasks are completed", total))
	}
	failed = Sorted(failed)
	r.Status, r.NotBefore = Parked, time.Time{}
	r.Reason = fmt.Sprintf("%d of its %d subtasks are not completed: %s", len(failed), total,
		strings.Join(failed, ", "))
	r.Question = &Question{Text: "It was divided, and " + r.Reason + ". How does it go on?", At: now()}
	return s.save(&r, by, Escalated, r.Reason)
}

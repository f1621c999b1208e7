package task

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Create creates a task. If one was created under the same key before, it returns that one, even
// if it is closed by now, and fresh is false.
func (s *Step) Create(actor Actor, d Draft) (t Task, fresh bool, err error) {
	if err := cmp.Or(CheckText("text", d.Text, MaxText, true), CheckText("key", d.Key, MaxName, false),
		s.state.agents.check(actor), onlyPeople(actor, fixCheck, "", &d.Fixes),
		onlyPeople(actor, pipelineMode, "", &d.Mode)); err != nil {
		return t, false, err
	}
	if id, made := s.state.index.keys[d.Key]; made && d.Key != "" {
		return s.state.Show(s.state.Record(id)), false, nil
	}
	r, err := s.state.draft(actor, d)
	if err != nil {
		return t, false, err
	}
	if d.Text != "" {
		s.write(TextPart, r.ID, []byte(d.Text))
	}
	if err := s.save(r, actor, Created, ""); err != nil {
		return t, false, err
	}
	return s.state.Show(r), true, nil
}

// draft returns the record of a new task.
func (s *State) draft(actor Actor, d Draft) (*Record, error) {
	if err := s.index.checkCapacity(); err != nil {
		return nil, err
	}
	status := cmp.Or(d.Status, Open)
	if err := checkOneOf("status of a new task", status, Open, Blocked, Deferred); err != nil {
		return nil, err
	}
	r := &Record{Task: Task{
		Title: strings.TrimSpace(d.Title), DoneWhen: strings.TrimSpace(d.DoneWhen),
		Fixes: strings.TrimSpace(d.Fixes), Mode: d.Mode,
		Type: cmp.Or(d.Type, "task"), Status: status,
		Priority: DefaultPriority, Labels: Sorted(d.Labels), Pool: d.Pool, Assignee: d.Assignee,
		IfDependencyFails: d.IfDependencyFails,
		NotBefore:         d.NotBefore, Ephemeral: d.Ephemeral, Origin: d.Origin, MaxClaims: d.MaxClaims,
		CreatedAt: now(), CreatedBy: actor.String(),
	}, Key: d.Key}
	set(&r.Priority, d.Priority)
	if r.IfDependencyFails == WaitForIt {
		r.IfDependencyFails = "" // the default
	}
	var err error
	if r.DependsOn, err = s.resolveAll(d.DependsOn); err != nil {
		return nil, err
	}
	if r.Parent, err = s.resolveParent(d.Parent); err != nil {
		return nil, err
	}
	r.ID, r.Number = s.ids.next(func(id string) bool { return s.Record(id) != nil })
	return r, nil
}

// Edit changes a task. An agent cannot change a task that another one has claimed.
func (s *Step) Edit(actor Actor, id string, e Edit) (Task, error) {
	if e.Text != nil {
		if err := CheckText("text", *e.Text, MaxText, true); err != nil {
			return Task{}, err
		}
	}
	return s.change(actor, id, func(r *Record) error {
		if err := cmp.Or(checkHolder(actor, r), checkCriterion(actor, r, e.DoneWhen),
			onlyPeople(actor, fixCheck, r.Fixes, e.Fixes),
			onlyPeople(actor, pipelineMode, r.Mode, e.Mode)); err != nil {
			return err
		}
		before := *r
		if e.Status != nil && !actor.Person() {
			switch {
			case before.Status == Parked:
				return errParked(&before)
			case before.Claim != nil:
				return fmt.Errorf("%w: %s is in progress at %s; say how the attempt has ended, with: coppice agent "+
					"outcome deferred or blocked", ErrConflict, r.ID, before.Claim.name())
			}
		}
		if e.Status != nil && r.Claim != nil {
			s.recordAttempt(r, takenBack(actor, "has set the status to "+string(*e.Status)), actor.String())
		}
		if e.Parent != nil {
			s.resumeScope(r)
		}
		if err := s.state.edit(r, e); err != nil {
			return err
		}
		if e.Text != nil {
			s.write(TextPart, r.ID, []byte(*e.Text))
		} else if equal(&before.Task, &r.Task) {
			return errUnchanged
		}
		if e.Status != nil {
			s.settle(r)
			if actor.Person() && r.Status == Open {
				r.forget()
			}
		}
		return s.save(r, actor, Edited, editedFields(e))
	})
}

func (s *State) edit(r *Record, e Edit) (err error) {
	set(&r.Title, e.Title)
	set(&r.Type, e.Type)
	set(&r.Priority, e.Priority)
	set(&r.MaxClaims, e.MaxClaims)
	set(&r.Pool, e.Pool)
	set(&r.Assignee, e.Assignee)
	set(&r.NotBefore, e.NotBefore)
	if set(&r.IfDependencyFails, e.IfDependencyFails); r.IfDependencyFails == WaitForIt {
		r.IfDependencyFails = "" // the default
	}
	set(&r.DoneWhen, e.DoneWhen)
	set(&r.Fixes, e.Fixes)
	set(&r.Mode, e.Mode)
	r.Title, r.DoneWhen, r.Fixes = strings.TrimSpace(r.Title), strings.TrimSpace(r.DoneWhen), strings.TrimSpace(r.Fixes)
	if e.Status != nil {
		if err := checkOneOf("new status", *e.Status, Open, Blocked, Deferred); err != nil {
			return fmt.Errorf("%w; to claim or close a task, use the claim and close commands", err)
		}
		if r.closed() {
			return errClosed(r, "coppice task reopen "+r.ID)
		}
		r.Status, r.Claim = *e.Status, nil
	}
	if e.Parent != nil {
		if r.Parent, err = s.resolveParent(*e.Parent); err != nil {
			return err
		}
	}
	remove, err := s.ids.among(e.RemoveDepends, r.DependsOn)
	if err != nil {
		return err
	}
	more, err := s.resolveAll(e.AddDepends)
	if err != nil {
		return err
	}
	r.DependsOn = Sorted(slices.Concat(without(r.DependsOn, remove), more))
	r.Labels = Sorted(slices.Concat(without(r.Labels, e.RemoveLabels), e.AddLabels))
	return nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// checkHolder returns an ErrConflict if an agent may not change a task, since another one has
// claimed it. People may change any task.
func checkHolder(actor Actor, r *Record) error {
	if c := r.Claim; c != nil && !actor.Person() && (c.By != actor.Path || c.Incarnation != actor.Incarnation) {
		return fmt.Errorf("%w: %s is in progress at %s since %s", ErrConflict, r.ID, c.name(),
			c.At.Format(time.RFC3339))
	}
	return nil
}

func (c *Holder) name() string {
	if c.Incarnation == 0 {
		return c.By
	}
	return fmt.Sprintf("%s, incarnation %d", c.By, c.Incarnation)
}

func errClosed(r *Record, next string) error {
	how := string(cmp.Or(r.Outcome, Completed))
	return fmt.Errorf("%w: %s is closed (%s by %s at %s); open it again with: %s", ErrConflict, r.ID, how,
		cmp.Or(r.ClosedBy, "somebody"), r.ClosedAt.Format(time.RFC3339), next)
}

// maxCommentKeys bounds the keys of comments that a task remembers.
const maxCommentKeys = 4

// Comment adds a comment to a task. If one of the last comments had the same key, nothing is
// added. The key may be empty.
func (s *Step) Comment(actor Actor, id, text, key string) (Task, error) {
	if strings.TrimSpace(text) == "" {
		return Task{}, fmt.Errorf("%w: the comment is empty", ErrInvalid)
	}
	if err := cmp.Or(CheckText("comment", text, MaxComment, true), CheckText("key", key, MaxName, false)); err != nil {
		return Task{}, err
	}
	return s.change(actor, id, func(r *Record) error {
		if key != "" && slices.Contains(r.CommentKeys, key) {
			return errUnchanged
		}
		if r.Comments >= MaxComments {
			return fmt.Errorf("%w: %s has %d comments, the maximum; continue in a child task",
				ErrFull, r.ID, r.Comments)
		}
		s.AddComment(r, SavedComment{
			Comment: Comment{By: actor.String(), Incarnation: actor.Incarnation, At: now(), Text: text},
		})
		if key != "" {
			r.CommentKeys = append(slices.Clone(r.CommentKeys[max(0, len(r.CommentKeys)-maxCommentKeys+1):]), key)
		}
		return s.save(r, actor, Commented, "")
	})
}

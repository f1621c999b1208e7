package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Draft is a task that is to be made.
type Draft struct {
	_ struct{} `open:"true" doc:"What is to be known of a new task."`

	Title     string    `json:"title" doc:"One line, at most 2000 bytes."`
	Text      string    `json:"text,omitempty" doc:"At most 256 KiB."`
	Type      string    `json:"type,omitempty" doc:"task if it is left out."`
	Priority  *int      `json:"priority,omitempty" minimum:"0" maximum:"4" doc:"2 if it is left out."`
	Status    Status    `json:"status,omitempty" enum:"open,blocked,deferred" doc:"open if it is left out."`
	Labels    []string  `json:"labels,omitempty" doc:"At most 50."`
	Pool      string    `json:"pool,omitempty" doc:"Whose agents may do it."`
	Assignee  string    `json:"assignee,omitempty" doc:"Who is to do it."`
	Parent    string    `json:"parent,omitempty" doc:"The task that it is a part of."`
	DependsOn []string  `json:"depends_on,omitempty" doc:"At most 200."`
	NotBefore time.Time `json:"not_before,omitzero" doc:"When it can be claimed at the earliest."`
	Ephemeral bool      `json:"ephemeral,omitempty" doc:"To be removed some time after its end."`
	Origin    string    `json:"origin,omitempty" doc:"What makes it."`
	// MaxClaims is how many claims may fail before the task is parked; 0 is
	// what the file says.
	MaxClaims int `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"It is parked after so many failed claims; 0 is what the file says."`
	// Key is what the maker calls this task: what is made again under the same
	// key, because an answer was lost, is made once, as long as it is kept.
	Key string `json:"key,omitempty" doc:"What is made again under the same key is made once."`
}

// errSame: it is so already, and nothing is to be written.
var errSame = errors.New("it is so already")

// change replaces a task by what how makes of a copy, on behalf of someone.
func (q *Queue) change(ctx context.Context, who Who, id string, how func(*step, *record) error) (t Task, err error) {
	err = q.update(ctx, func(s *step) error {
		if err := q.alive(who); err != nil {
			return err
		}
		r, err := q.find(id)
		if err != nil {
			return err
		}
		after := *r
		switch err := how(s, &after); {
		case errors.Is(err, errSame):
			t = q.index.shown(r)
			return nil
		case err != nil:
			return err
		}
		t = q.index.shown(q.index.get(r.ID))
		return nil
	})
	return t, err
}

// save checks a task and makes it part of a step, with what is to be told of it.
// What it waits for must not wait for it.
func (s *step) save(r *record, who Who, kind Kind, note string) error {
	if err := r.check(); err != nil {
		return err
	}
	before := s.q.index.get(r.ID)
	if r.UpdatedAt = now(); before != nil && !r.UpdatedAt.After(before.UpdatedAt) {
		r.UpdatedAt = before.UpdatedAt.Add(time.Nanosecond) // the clock was set back
	}
	s.put(r)
	if before == nil || before.Parent != r.Parent || !slices.Equal(before.DependsOn, r.DependsOn) {
		if err := s.q.refuseCircle(r.ID); err != nil {
			return err
		}
	}
	s.event(kind, before, r, who, note)
	return nil
}

// refuseCircle is an error that names the circle that a task is part of.
func (q *Queue) refuseCircle(id string) error {
	if way := q.index.circle(id); way != nil {
		const most = 20
		if len(way) > most {
			way = slices.Concat(way[:most-2], []string{"..."}, way[len(way)-1:])
		}
		return fmt.Errorf("%w: tasks would wait for each other in a circle: %s (a task waits for those it depends "+
			"on, and for its children)", ErrInvalid, strings.Join(way, " -> "))
	}
	return nil
}

// Create makes a task. Where one was made under the same key before, it is that
// one, whatever became of it, and fresh is false.
func (q *Queue) Create(ctx context.Context, who Who, d Draft) (t Task, fresh bool, err error) {
	if err := checkText("text", d.Text, MaxText, true); err != nil {
		return t, false, err
	}
	if err := checkText("key", d.Key, MaxName, false); err != nil {
		return t, false, err
	}
	err = q.update(ctx, func(s *step) error {
		fresh = false
		if err := q.alive(who); err != nil {
			return err
		}
		if id, made := q.index.keys[d.Key]; made && d.Key != "" {
			t = q.index.shown(q.index.get(id))
			return nil
		}
		r, err := q.draft(who, d)
		if err != nil {
			return err
		}
		if d.Text != "" {
			s.also(store.Op{Kind: store.Put, Key: q.textKey(r.ID), Value: []byte(d.Text)})
		}
		if err := s.save(r, who, Created, ""); err != nil {
			return err
		}
		t, fresh = q.index.shown(r), true
		return nil
	})
	return t, fresh && err == nil, err
}

// draft makes the record of a new task.
func (q *Queue) draft(who Who, d Draft) (*record, error) {
	if len(q.index.entries) >= MaxTasks {
		return nil, fmt.Errorf("%w: there are %d, which is as many as are kept", ErrFull, len(q.index.entries))
	}
	switch d.Status {
	case "", Open, Blocked, Deferred:
	default:
		return nil, fmt.Errorf("%w: a new task is open, blocked or deferred, not %.40q%s", ErrInvalid, d.Status,
			meant(string(d.Status), []Status{Open, Blocked, Deferred}))
	}
	r := &record{Task: Task{
		Title: strings.TrimSpace(d.Title), Type: cmp.Or(d.Type, "task"), Status: cmp.Or(d.Status, Open),
		Priority: DefaultPriority, Labels: sorted(d.Labels),
		Pool: d.Pool, Assignee: d.Assignee, NotBefore: d.NotBefore, Ephemeral: d.Ephemeral, Origin: d.Origin,
		MaxClaims: d.MaxClaims,
		CreatedAt: now(), CreatedBy: who.String(),
	}, Key: d.Key}
	if d.Priority != nil {
		r.Priority = *d.Priority
	}
	var err error
	if r.DependsOn, err = q.all(d.DependsOn); err != nil {
		return nil, err
	}
	if d.Parent != "" {
		parent, err := q.parent(d.Parent)
		if err != nil {
			return nil, err
		}
		r.Parent = parent
	}
	r.ID, r.Number = q.next()
	return r, nil
}

// next is the id and the number of a new task.
func (q *Queue) next() (string, uint64) {
	for {
		q.number++
		id := q.prefix + "-" + ending(q.number-1)
		if q.index.get(id) == nil { // an import may have brought it
			return id, q.number
		}
	}
}

// all are the tasks that ids mean.
func (q *Queue) all(ids []string) ([]string, error) {
	var all []string
	for _, id := range ids {
		r, err := q.find(id)
		if err != nil {
			return nil, err
		}
		all = append(all, r.ID)
	}
	return sorted(all), nil
}

// parent is a task that can have children.
func (q *Queue) parent(id string) (string, error) {
	r, err := q.find(id)
	if err != nil {
		return "", err
	}
	if r.closed() {
		return "", fmt.Errorf("%w: %s is closed, and a parent is not before its children; open it first: "+
			"coppice task reopen %[2]s", ErrConflict, r.ID)
	}
	return r.ID, nil
}

// Edit is what is to be different about a task. What is nil stays as it is.
type Edit struct {
	_ struct{} `open:"true" doc:"What is left out stays as it is."`

	Title         *string    `json:"title,omitempty" doc:"One line."`
	Text          *string    `json:"text,omitempty" doc:"At most 256 KiB."`
	Type          *string    `json:"type,omitempty" doc:"Any word."`
	Status        *Status    `json:"status,omitempty" enum:"open,blocked,deferred" doc:"Who has claimed it loses it."`
	Priority      *int       `json:"priority,omitempty" minimum:"0" maximum:"4" doc:"0 is the most urgent."`
	MaxClaims     *int       `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"It is parked after so many failed claims; 0 is what the file says."`
	Pool          *string    `json:"pool,omitempty" doc:"Empty for none."`
	Assignee      *string    `json:"assignee,omitempty" doc:"Empty for none."`
	Parent        *string    `json:"parent,omitempty" doc:"Empty for none."`
	NotBefore     *time.Time `json:"not_before,omitempty" doc:"0001-01-01T00:00:00Z for none."`
	AddLabels     []string   `json:"add_labels,omitempty" doc:"Labels it is to have."`
	RemoveLabels  []string   `json:"remove_labels,omitempty" doc:"Labels it is not to have."`
	AddDepends    []string   `json:"add_depends,omitempty" doc:"Tasks it is to depend on."`
	RemoveDepends []string   `json:"remove_depends,omitempty" doc:"Tasks it is not to depend on."`
}

// Edit changes a task. An agent cannot change what somebody else has claimed.
func (q *Queue) Edit(ctx context.Context, who Who, id string, e Edit) (Task, error) {
	if e.Text != nil {
		if err := checkText("text", *e.Text, MaxText, true); err != nil {
			return Task{}, err
		}
	}
	return q.change(ctx, who, id, func(s *step, r *record) error {
		if err := mayChange(who, r); err != nil {
			return err
		}
		before, kind, note := *r, Edited, edited(e)
		if err := q.edit(r, e); err != nil {
			return err
		}
		if e.Status != nil {
			switch {
			case who.Person() && r.Status == Open:
				r.forgetFailures(who)
			case before.Status == Parked && !who.Person():
				return parkedAlready(&before)
			case before.Claim != nil && !who.Person() && r.Status == Open:
				if s.countFailure(r, who.String()+" has given it back") {
					kind, note = Withheld, r.Reason
				}
			}
		}
		if e.Text != nil {
			s.also(store.Op{Kind: store.Put, Key: q.textKey(r.ID), Value: []byte(*e.Text)})
		} else if same(&before.Task, &r.Task) {
			return errSame
		}
		return s.save(r, who, kind, note)
	})
}

func (q *Queue) edit(r *record, e Edit) (err error) {
	set(&r.Title, e.Title)
	set(&r.Type, e.Type)
	set(&r.Priority, e.Priority)
	set(&r.MaxClaims, e.MaxClaims)
	set(&r.Pool, e.Pool)
	set(&r.Assignee, e.Assignee)
	set(&r.NotBefore, e.NotBefore)
	r.Title = strings.TrimSpace(r.Title)
	if e.Status != nil {
		switch *e.Status {
		case Open, Blocked, Deferred:
		default:
			return fmt.Errorf("%w: the status can be made open, blocked or deferred, not %.40q; claim and close "+
				"are commands of their own", ErrInvalid, *e.Status)
		}
		if r.closed() {
			return closedAlready(r, "coppice task reopen "+r.ID)
		}
		r.Status, r.Claim = *e.Status, nil
	}
	switch {
	case e.Parent == nil:
	case *e.Parent == "":
		r.Parent = ""
	default:
		if r.Parent, err = q.parent(*e.Parent); err != nil {
			return err
		}
	}
	remove, err := q.named(e.RemoveDepends, r.DependsOn)
	if err != nil {
		return err
	}
	more, err := q.all(e.AddDepends)
	if err != nil {
		return err
	}
	r.DependsOn = sorted(slices.Concat(without(r.DependsOn, remove), more))
	r.Labels = sorted(slices.Concat(without(r.Labels, e.RemoveLabels), e.AddLabels))
	return nil
}

// named are those that ids mean, which may be gone, of those that are there.
func (q *Queue) named(ids, there []string) ([]string, error) {
	var all []string
	for _, id := range ids {
		full := q.prefix + "-" + id
		switch {
		case slices.Contains(there, id):
			all = append(all, id)
		case slices.Contains(there, full):
			all = append(all, full)
		default:
			return nil, fmt.Errorf("%w: it does not depend on %.100q", ErrInvalid, id)
		}
	}
	return all, nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// same reports whether nothing has been changed.
func same(a, b *Task) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// edited says what an edit is about.
func edited(e Edit) string {
	var all []string
	for name, there := range map[string]bool{
		"title": e.Title != nil, "text": e.Text != nil, "type": e.Type != nil, "status": e.Status != nil,
		"priority": e.Priority != nil,
		"pool":     e.Pool != nil, "assignee": e.Assignee != nil, "parent": e.Parent != nil,
		"not before": e.NotBefore != nil, "max claims": e.MaxClaims != nil,
		"labels": len(e.AddLabels)+len(e.RemoveLabels) > 0, "dependencies": len(e.AddDepends)+len(e.RemoveDepends) > 0,
	} {
		if there {
			all = append(all, name)
		}
	}
	return strings.Join(sorted(all), ", ")
}

// mayChange: people may do everything, and so may who has claimed a task. Others
// leave it alone.
func mayChange(who Who, r *record) error {
	if c := r.Claim; c != nil && !who.Person() && (c.By != who.Path || c.Incarnation != who.Incarnation) {
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

func closedAlready(r *record, next string) error {
	how := string(cmp.Or(r.Outcome, Completed))
	return fmt.Errorf("%w: %s is closed (%s by %s at %s); open it again with: %s", ErrConflict, r.ID, how,
		cmp.Or(r.ClosedBy, "somebody"), r.ClosedAt.Format(time.RFC3339), next)
}

// keptKeys is how many requests of comments a task remembers.
const keptKeys = 4

// Comment adds what somebody says to a task. With the key of one of the last
// comments, which may be empty for none, it has been said already.
func (q *Queue) Comment(ctx context.Context, who Who, id, text, key string) (Task, error) {
	if strings.TrimSpace(text) == "" {
		return Task{}, fmt.Errorf("%w: the comment is empty", ErrInvalid)
	}
	if err := cmp.Or(checkText("comment", text, MaxComment, true), checkText("key", key, MaxName, false)); err != nil {
		return Task{}, err
	}
	return q.change(ctx, who, id, func(s *step, r *record) error {
		if key != "" && slices.Contains(r.Said, key) {
			return errSame
		}
		if r.Comments >= MaxComments {
			return fmt.Errorf("%w: %s has %d comments, which is as many as are kept; write on in a new "+
				"task that is a child of it", ErrFull, r.ID, r.Comments)
		}
		c := said{Comment: Comment{By: who.String(), Incarnation: who.Incarnation, At: now(), Text: text}}
		s.also(q.comment(r, c))
		if key != "" {
			r.Said = append(slices.Clone(r.Said[max(0, len(r.Said)-keptKeys+1):]), key)
		}
		return s.save(r, who, Commented, "")
	})
}

// said is a comment as it is stored.
type said struct {
	Comment
	Brought json.RawMessage `json:"brought,omitempty"` // what else an import has said of it
}

// comment counts a comment and is what writes it.
func (q *Queue) comment(r *record, c said) store.Op {
	value, _ := json.Marshal(c) // texts and a time
	op := store.Op{Kind: store.Put, Key: q.commentKey(r.ID, r.Comments), Value: value}
	r.Comments++
	return op
}

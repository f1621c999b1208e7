package work

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/store"
)

// ImportReport is what became of the beads of an import.
type ImportReport struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"` // that are here, and no older
}

// fate is what becomes of a bead.
type fate int

const (
	unchanged fate = iota
	created
	updated
)

// Import makes tasks of beads, with their ids. A task that is there already is
// replaced only by what is newer. Those that are waited for have to come before
// those that wait for them, as in Plan.Order: each bead becomes one step, and
// what has been written by an import that is cut off is sound. What fails is
// named by its id, and what comes after it is not done.
func (q *Queue) Import(ctx context.Context, who Who, beads []*Bead) (report ImportReport, err error) {
	fates := make([]fate, len(beads))
	done := 0 // beads whose fate is known
	for done < len(beads) && err == nil {
		var steps []*step
		for i := done; i < len(beads) && err == nil; i++ {
			var s *step
			var f fate
			if s, f, err = q.bring(ctx, who, beads[i]); err == nil {
				fates[i] = f
				steps = append(steps, s)
			}
		}
		for _, s := range steps {
			e := s.wait(ctx)
			if errors.Is(e, errAgain) {
				err = nil // what comes after it was decided on what is not so
				break
			}
			if e != nil {
				err = e
				break
			}
			done++
		}
		if err != nil && done < len(beads) {
			err = fmt.Errorf("%s: %w", beads[done].ID(), err)
		}
	}
	for _, f := range fates[:done] {
		switch f {
		case created:
			report.Created++
		case updated:
			report.Updated++
		default:
			report.Unchanged++
		}
	}
	if n := report.Created + report.Updated; n > 0 {
		told := q.update(ctx, func(s *step) error {
			s.also(q.o.Also(Event{Kind: Imported, By: who, Of: n})...)
			return nil
		})
		if err == nil {
			err = told
		}
	}
	return report, err
}

// bring makes a task of a bead, in a step that may not be durable yet.
func (q *Queue) bring(ctx context.Context, who Who, b *Bead) (*step, fate, error) {
	for {
		var before *record
		if err := q.lock(ctx); err != nil {
			return nil, 0, err
		}
		before = q.index.get(b.task.ID)
		q.mu.Unlock()
		comments := b.comments
		if before != nil && newer(b, before) {
			var err error
			if comments, err = q.news(ctx, before, b.comments); err != nil {
				return nil, 0, err
			}
		}
		s, f, err := q.bringOn(ctx, who, b, before, comments)
		if err == nil || !errors.Is(err, errAgain) {
			return s, f, err
		}
	}
}

func newer(b *Bead, r *record) bool { return b.task.UpdatedAt.After(r.UpdatedAt) }

// news are comments that a task has not.
func (q *Queue) news(ctx context.Context, r *record, comments []said) ([]said, error) {
	if r.Comments == 0 || len(comments) == 0 {
		return comments, nil
	}
	there, err := q.comments(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(comments), func(c said) bool {
		return slices.ContainsFunc(there, func(old said) bool { return c.By == old.By && c.Text == old.Text && c.At.Equal(old.At) })
	}), nil
}

// bringOn is bring, as long as the task is as it was; errAgain if it is not.
func (q *Queue) bringOn(ctx context.Context, who Who, b *Bead, before *record, comments []said) (*step, fate, error) {
	if before != nil && !newer(b, before) {
		return q.bringNothing(ctx)
	}
	r := &record{Task: b.task, Brought: true}
	if before != nil {
		r.keep(before)
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = now()
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = r.CreatedAt
	}
	if n := r.Comments + len(comments); n > MaxComments {
		return nil, 0, fmt.Errorf("%w: it would have %d comments, at most %d are kept", ErrFull, n, MaxComments)
	}
	// What does not fit into one step is written before it. Nobody sees it
	// until the task says that there are so many comments.
	const some = stepOps - 10
	for {
		last := len(comments) <= some && size(comments) <= store.MaxValue/2
		n := len(comments)
		if !last {
			for n = 1; n < min(some, len(comments)) && size(comments[:n+1]) <= store.MaxValue/2; n++ {
			}
		}
		s, _, err := q.begin(ctx, func(s *step) error {
			if q.index.get(b.task.ID) != before {
				return errAgain
			}
			for _, c := range comments[:n] {
				s.also(q.comment(r, c))
			}
			if !last {
				return nil
			}
			return q.settle(s, r, b, before)
		})
		if err != nil {
			return nil, 0, err
		}
		if last {
			f := created
			if before != nil {
				f = updated
			}
			return s, f, nil
		}
		if err := s.wait(ctx); err != nil {
			return nil, 0, err
		}
		comments = comments[n:]
	}
}

// bringNothing is for a bead that changes nothing: it holds with what was decided before it.
func (q *Queue) bringNothing(ctx context.Context) (*step, fate, error) {
	s, _, err := q.begin(ctx, func(*step) error { return nil })
	if s == nil {
		s = &step{done: make(chan struct{})}
		close(s.done)
	}
	return s, unchanged, err
}

func size(comments []said) (n int) {
	for _, c := range comments {
		n += len(c.Text) + len(c.Brought) + 1<<10
	}
	return n
}

// keep keeps what is a task's own when a newer bead comes.
func (r *record) keep(before *record) {
	r.Number, r.Key, r.Said, r.Claims, r.Comments = before.Number, before.Key, before.Said, before.Claims, before.Comments
	if r.Pool == "" {
		r.Pool = before.Pool
	}
	if r.Origin == "" {
		r.Origin, r.Ephemeral = before.Origin, before.Ephemeral
	}
	if before.Claim != nil && !r.closed() { // who does it goes on
		r.Status, r.Claim, r.Assignee = before.Status, before.Claim, before.Assignee
	}
}

// settle puts the task of a bead into a step, with all that belongs to it.
func (q *Queue) settle(s *step, r *record, b *Bead, before *record) error {
	if before == nil {
		if len(q.index.entries) >= MaxTasks {
			return fmt.Errorf("%w: there are %d, which is as many as are kept", ErrFull, len(q.index.entries))
		}
		q.number++
		r.Number = q.number
	}
	if err := r.check(); err != nil {
		return err
	}
	s.put(r)
	if err := q.refuseCircle(r.ID); err != nil {
		return err
	}
	if b.text != "" || before != nil {
		s.also(store.Op{Kind: store.Put, Key: q.textKey(r.ID), Value: []byte(b.text)})
	}
	s.also(store.Op{Kind: store.Put, Key: q.broughtKey(r.ID), Value: plainJSON(b.rest)})
	return nil
}

// BeadPage is some tasks as beads.
type BeadPage struct {
	Beads []json.RawMessage `json:"beads"`
	Next  string            `json:"next,omitempty"` // what to ask for to get those after them; "" if there are none
}

// Bounds on a page.
const (
	pageTasks = 2000
	pageBytes = 8 << 20
)

// Export returns tasks as beads, in the order of their ids: those after one of
// them, "" for all. Each is as it was at some moment meanwhile.
func (q *Queue) Export(ctx context.Context, after string) (p BeadPage, err error) {
	var tasks []*record
	err = q.view(ctx, func(x *index) { tasks = x.following(after, pageTasks+1) })
	p.Beads = []json.RawMessage{}
	if err != nil || len(tasks) == 0 {
		return p, err
	}
	more := len(tasks) > pageTasks
	tasks = tasks[:min(len(tasks), pageTasks)]
	texts := values{q: q, of: q.textKey, after: after}
	brought := values{q: q, of: q.broughtKey, after: after}
	bytes := 0
	for i, r := range tasks {
		if bytes > pageBytes {
			p.Next = tasks[i-1].ID
			return p, nil
		}
		bead, err := q.export(ctx, r, &texts, &brought)
		if err != nil {
			return p, fmt.Errorf("%s: %w", r.ID, err)
		}
		bytes += len(bead)
		p.Beads = append(p.Beads, bead)
	}
	if more {
		p.Next = tasks[len(tasks)-1].ID
	}
	return p, nil
}

// following are the first so many tasks after an id, in the order of their ids.
func (x *index) following(after string, most int) []*record {
	var first line // the last of them at its head
	first.less = func(a, b *entry) bool { return a.ID > b.ID }
	for id, e := range x.entries {
		switch {
		case id <= after:
		case len(first.entries) < most:
			heap.Push(&first, &entry{record: e.record})
		case id < first.entries[0].ID:
			first.entries[0].record = e.record
			heap.Fix(&first, 0)
		}
	}
	tasks := make([]*record, len(first.entries))
	for i, e := range first.entries {
		tasks[i] = e.record
	}
	slices.SortFunc(tasks, func(a, b *record) int { return strings.Compare(a.ID, b.ID) })
	return tasks
}

func (q *Queue) export(ctx context.Context, r *record, texts, brought *values) (json.RawMessage, error) {
	text, err := texts.get(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	var kept object
	if r.Brought {
		value, err := brought.get(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if kept, err = parseObject(value); err != nil {
			q.complain(q.broughtKey(r.ID), err)
			kept = nil
		}
	}
	var comments []said
	if r.Comments > 0 {
		if comments, err = q.comments(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	return newBead(&r.Task, string(text), comments[:min(len(comments), r.Comments)], kept), nil
}

// values are what is stored of many tasks, one record each, in the order of
// their ids; it is read in portions.
type values struct {
	q       *Queue
	of      func(id string) string
	after   string // the id that was asked for last
	records []store.Record
	over    bool // there are no more than those
}

// get is what is stored of a task, nil if nothing is. Ids have to rise.
func (v *values) get(ctx context.Context, id string) ([]byte, error) {
	const some = 500
	key := v.of(id)
	for {
		for len(v.records) > 0 && v.records[0].Key < key {
			v.records = v.records[1:]
		}
		if len(v.records) > 0 || v.over {
			break
		}
		// Nothing before the one that is asked for is needed any more.
		from, prefix := v.of(v.after), strings.TrimSuffix(v.of(""), "/")
		if v.after == "" {
			from = ""
		}
		records, _, err := v.q.o.Store.Scan(ctx, prefix, from, some)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", prefix, err)
		}
		if v.over = len(records) == 0; !v.over {
			v.after = strings.TrimPrefix(records[len(records)-1].Key, prefix+"/")
		}
		v.records = records
	}
	if len(v.records) > 0 && v.records[0].Key == key {
		return v.records[0].Value, nil
	}
	return nil, nil
}

package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/store"
)

// BeadPage is some tasks as beads.
type BeadPage struct {
	_ struct{} `open:"true" doc:"Some tasks as beads."`

	Beads []json.RawMessage `json:"beads" doc:"Objects as in .beads/issues.jsonl, in the order of their ids."`
	Next  string            `json:"next,omitempty" doc:"What to ask for to get those after them; left out if there are none."`
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
	return least(func(yield func(*record) bool) {
		for id, e := range x.entries {
			if id > after && !yield(e.record) {
				return
			}
		}
	}, most, func(a, b *record) int { return strings.Compare(a.ID, b.ID) })
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
	content := string(text)
	if text == nil {
		content, _ = description(kept)
	}
	var comments []said
	if r.Comments > 0 {
		if comments, err = q.comments(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	return newBead(&r.Task, content, comments[:min(len(comments), r.Comments)], kept), nil
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
		return there(v.records[0]), nil
	}
	return nil, nil
}

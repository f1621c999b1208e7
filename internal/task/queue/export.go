package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/transfer"
)

// Bounds on a page of an export.
const (
	pageTasks = 2000
	pageBytes = 8 << 20
)

// Export returns one page of tasks as beads, sorted by id, starting after an id. Tasks that change
// meanwhile are of different moments.
func (q *Queue) Export(ctx context.Context, after string) (p task.BeadPage, err error) {
	var tasks []*task.Record
	err = q.View(ctx, func(s *task.State) { tasks = s.Following(after, pageTasks+1) })
	p.Beads = []json.RawMessage{}
	if err != nil || len(tasks) == 0 {
		return p, err
	}
	more := len(tasks) > pageTasks
	tasks = tasks[:min(len(tasks), pageTasks)]
	texts, brought := q.records.values(task.TextPart, after), q.records.values(task.ImportedPart, after)
	bytes := 0
	for i, r := range tasks {
		if bytes > pageBytes {
			p.Next = tasks[i-1].ID
			return p, nil
		}
		bead, err := q.records.export(ctx, r, texts, brought)
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

func (s *records) export(ctx context.Context, r *task.Record, texts, brought *values) (json.RawMessage, error) {
	text, err := texts.get(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	var kept []byte
	if r.Imported {
		if kept, err = brought.get(ctx, r.ID); err != nil {
			return nil, err
		}
		if kept == nil {
			kept = []byte{} // a missing part is an error
		}
	}
	var comments []task.SavedComment
	if r.Comments > 0 {
		if comments, err = s.comments(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	bead, err := transfer.Write(&r.Task, text, comments[:min(len(comments), r.Comments)], kept)
	if err != nil {
		s.logBadRecord(key(task.ImportedPart, r.ID), err)
	}
	return bead, nil
}

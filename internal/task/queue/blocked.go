package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// Block makes a task wait for a condition; see task.Step.Block.
func (q *Queue) Block(ctx context.Context, actor task.Actor, id string, c outcome.Condition, reason string) (task.Task,
	error) {
	last, err := q.lastEvent(ctx, &c)
	if err != nil {
		return task.Task{}, err
	}
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Block(actor, id, c, reason, last) })
}

// lastEvent returns the number of the last event of the log if a condition waits for one. The later ones count.
func (q *Queue) lastEvent(ctx context.Context, c *outcome.Condition) (uint64, error) {
	if c == nil || c.Kind != outcome.EventOccurs {
		return 0, nil
	}
	last, err := q.head(ctx)
	if err != nil {
		return 0, fmt.Errorf("finding the last event: %w", err)
	}
	return last, nil
}

// Unblock opens tasks whose conditions hold; see task.Step.Unblock.
func (q *Queue) Unblock(ctx context.Context, all []task.Wait, why string) error {
	const some = task.MaxStep / 8
	for part := range slices.Chunk(all, some) {
		err := q.Update(ctx, func(s *task.Step) error {
			for _, w := range part {
				if err := s.Unblock(w, why); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("opening blocked tasks: %w", err)
		}
	}
	return nil
}

// AskAbout asks a person about a task that waits for long; see task.Step.AskAbout.
func (q *Queue) AskAbout(ctx context.Context, w task.Wait, text string) error {
	return q.Update(ctx, func(s *task.Step) error { return s.AskAbout(w, text) })
}

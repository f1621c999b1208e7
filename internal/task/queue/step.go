package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// A step is one decision: changes that are written together. It takes effect in memory at once,
// so later decisions build on it. Its caller gets the answer when it is durable. One writer
// collects pending steps and writes them together. If that fails, these steps and all later ones
// are rolled back, and the later ones are decided again.
type step struct {
	*task.Step
	ops   []store.Op // on other keys than those of the records
	bytes int        // of ops

	done chan struct{} // closed when the outcome is known
	err  error         // errRetry: nothing was written; decide again
}

// errRetry means that a decision was based on steps that were rolled back.
var errRetry = errors.New("decide again")

// size returns the number of operations of the step.
func (s *step) size() int { return len(s.Changes) + len(s.ops) }

// addOps adds the operations of the step next to the records, and those that also returns for its events.
func (s *step) addOps(also func(task.Event) []store.Op) error {
	for _, w := range s.Writes {
		s.ops = append(s.ops, writeOp(w))
	}
	if also != nil {
		for _, e := range s.Events {
			s.ops = append(s.ops, also(e)...)
		}
	}
	for _, op := range s.ops {
		s.bytes += len(op.Key) + len(op.Value)
	}
	if n := s.size(); n > task.MaxStep {
		return fmt.Errorf("%w: a step of %d ops, at most %d are allowed", store.ErrInvalid, n, task.MaxStep)
	}
	return nil
}

// wait returns when the outcome of a step is known.
func (s *step) wait(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
	}
}

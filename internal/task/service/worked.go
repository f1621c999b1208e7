package service

import (
	"context"
	"sync"

	"github.com/coppice-dev/coppice/internal/task"
)

// worked has, by the path of an agent, what the last incarnation of it that has claimed a task has claimed.
type worked struct {
	mu     sync.Mutex
	byPath map[string]claimedTasks
}

type claimedTasks struct {
	incarnation uint64
	first       string // ID
	several     bool
}

// note takes note of a claim.
func (w *worked) note(h *task.Holder, id string) {
	if h == nil || h.Incarnation == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byPath == nil {
		w.byPath = map[string]claimedTasks{}
	}
	c := w.byPath[h.By]
	if c.incarnation != h.Incarnation {
		c = claimedTasks{h.Incarnation, id, false}
	}
	c.several = c.several || c.first != id
	w.byPath[h.By] = c
}

// load takes note of the claims that the last daemon has left.
func (s *Service) load(ctx context.Context) error {
	all, err := s.queue.List(ctx, task.Filter{Statuses: []string{string(task.InProgress)}}, 0, "")
	for _, t := range all {
		s.worked.note(t.Claim, t.ID)
	}
	return err
}

// Worked returns the ID of the task that an incarnation has claimed, also after it has closed it; empty if it has
// claimed none, or several. It does not know what was closed before the daemon has started.
func (s *Service) Worked(path string, incarnation uint64) string {
	s.worked.mu.Lock()
	defer s.worked.mu.Unlock()
	if c := s.worked.byPath[path]; c.incarnation == incarnation && !c.several {
		return c.first
	}
	return ""
}

// Claims reports whether an agent has claimed a task now.
func (s *Service) Claims(ctx context.Context, path, id string) bool {
	t, err := s.queue.Find(ctx, id)
	return err == nil && t.Claim != nil && t.Claim.By == path
}

// Unpark opens a task that is parked.
func (s *Service) Unpark(ctx context.Context, id, reason string) error {
	t, err := s.queue.Find(ctx, id)
	if err != nil || t.Status != task.Parked {
		return apiError(err)
	}
	_, err = s.queue.Retry(ctx, task.Actor{Name: task.People}, id, reason)
	return apiError(err)
}

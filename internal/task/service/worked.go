package service

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// worked keeps, by the path of an agent, what the last incarnation of it that has claimed a task has claimed. A record
// is written together with the claim, so that the next daemon knows what was closed before it started.
type worked struct {
	mu     sync.Mutex
	lives  map[string]string // IDs of the current incarnations, by path
	byPath map[string]claimedTasks
}

// claimedTasks lists what an incarnation has claimed, as it is stored.
type claimedTasks struct {
	Agent       string `json:"agent"`
	Incarnation uint64 `json:"incarnation"`
	Life        string `json:"life"`              // tells incarnations with the same number apart
	Task        string `json:"task"`              // ID of the first
	Attempt     int    `json:"attempt"`           // the first at that; 0 if there are several
	Several     bool   `json:"several,omitempty"` // tasks
}

// workedPrefix is the prefix of the keys of these records.
const workedPrefix = "work/worked"

// begin takes note of the current incarnation of an agent. What an earlier one with the same number has claimed is
// forgotten.
func (w *worked) begin(who token.Caller, life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lives == nil {
		w.lives = map[string]string{}
	}
	w.lives[who.Path] = life
	switch c := w.byPath[who.Path]; {
	case c.Incarnation != who.Incarnation || c.Life == life:
	case c.Life == "": // of an earlier version
		c.Life = life
		w.byPath[who.Path] = c
	default:
		delete(w.byPath, who.Path)
	}
}

// note takes note of a claim, and reports whether it is a new one.
func (w *worked) note(h *task.Holder, id string, attempt int) (c claimedTasks, isNew bool) {
	if h == nil || h.Incarnation == 0 {
		return c, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byPath == nil {
		w.byPath = map[string]claimedTasks{}
	}
	c, life := w.byPath[h.By], w.lives[h.By]
	before := c
	if c.Incarnation != h.Incarnation || c.Life != life {
		c = claimedTasks{h.By, h.Incarnation, life, id, attempt, false}
	}
	if c.Task != id || c.Attempt != attempt {
		c.Attempt = 0
	}
	c.Several = c.Several || c.Task != id
	w.byPath[h.By] = c
	return c, c != before
}

// noted takes note of an event, and returns the operations that store what an agent has claimed with it.
func (w *worked) noted(e task.Event) []store.Op {
	if e.Kind != task.Claimed {
		return nil
	}
	c, isNew := w.note(e.Task.Claim, e.Task.ID, e.Task.Claims)
	if !isNew {
		return nil
	}
	value, _ := json.Marshal(c) // cannot fail for these types
	return []store.Op{{Kind: store.Put, Key: workedPrefix + "/" + store.PathKey(c.Agent), Value: value}}
}

// load reads what the last daemon has stored. Earlier versions have stored nothing but the claims themselves.
func (s *Service) load(ctx context.Context) error {
	s.worked.byPath = map[string]claimedTasks{}
	for r, err := range store.All(ctx, s.o.Store, workedPrefix) {
		if err != nil {
			return fmt.Errorf("reading which tasks agents have claimed: %w", err)
		}
		var c claimedTasks
		if err := json.Unmarshal(r.Value, &c); err != nil {
			s.o.Logger.Warn("cannot read which tasks an agent has claimed", "key", r.Key, "error", err)
			continue
		}
		s.worked.byPath[c.Agent] = c
	}
	all, err := s.queue.List(ctx, task.Filter{Statuses: []string{string(task.InProgress)}}, 0, "")
	for _, t := range all {
		if t.Claim != nil && s.worked.byPath[t.Claim.By].Incarnation != t.Claim.Incarnation {
			s.worked.note(t.Claim, t.ID, t.Claims)
		}
	}
	return err
}

// Attempt returns the ID of the task that an incarnation has claimed, also after it has closed it, and the number of
// its attempt at that. The ID is empty if it has claimed none, or several; the number is 0 if there were several
// attempts.
func (s *Service) Attempt(path string, incarnation uint64) (id string, attempt int) {
	s.worked.mu.Lock()
	defer s.worked.mu.Unlock()
	if c := s.worked.byPath[path]; c.Incarnation == incarnation && !c.Several {
		return c.Task, c.Attempt
	}
	return "", 0
}

// Worked returns the ID of the task that an incarnation has claimed; see Attempt.
func (s *Service) Worked(path string, incarnation uint64) string {
	id, _ := s.Attempt(path, incarnation)
	return id
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
	_, err = s.queue.Change(ctx, func(step *task.Step) (task.Task, error) {
		return step.Retry(task.Actor{Name: task.People}, id, reason)
	})
	return apiError(err)
}

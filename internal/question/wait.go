package question

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Get returns a question; of an agent, if one is given.
func (s *Service) Get(agent, id string) (q Question, err error) {
	n, err := parseID(id)
	if err != nil {
		return Question{}, err
	}
	s.ledger.View(func() {
		var r *record
		if r, err = s.find(agent, n); err == nil {
			q = r.Question
		}
	})
	return q, err
}

// Wait returns a question of an agent once it has ended.
func (s *Service) Wait(ctx context.Context, agent, id string) (Question, error) {
	n, err := parseID(id)
	if err != nil {
		return Question{}, err
	}
	woken := make(chan struct{}, 1)
	s.mu.Lock()
	if s.waiters[n] == nil {
		s.waiters[n] = make(map[chan struct{}]bool)
	}
	s.waiters[n][woken] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.waiters[n], woken); len(s.waiters[n]) == 0 {
			delete(s.waiters, n)
		}
	}()
	for {
		q, err := s.Get(agent, id)
		if err != nil || q.State != Open {
			return q, err
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return q, context.Cause(ctx)
		}
	}
}

// Waited reports whether a call of Wait for a question is in progress.
func (s *Service) Waited(id string) bool {
	n, err := parseID(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && len(s.waiters[n]) > 0
}

// List returns the questions of an agent, or of all agents if it is empty, in the order in which
// they were asked. Unless all is set, it returns only open ones.
func (s *Service) List(agent string, all bool) []Question {
	var list []Question
	s.ledger.View(func() {
		var numbers []uint64
		for from, byAgent := range s.byAgent {
			if agent == "" || agent == from {
				numbers = append(numbers, byAgent...)
			}
		}
		slices.Sort(numbers)
		for _, n := range numbers {
			if q := s.ledger.Get(n); all || q.State == Open {
				list = append(list, q.Question)
			}
		}
	})
	return list
}

// Pending returns the oldest open question of an agent, and the number of open ones.
func (s *Service) Pending(agent string) (oldest Question, open int) {
	s.ledger.View(func() {
		for _, n := range s.byAgent[agent] {
			if q := s.ledger.Get(n); q.State == Open {
				if open == 0 {
					oldest = q.Question
				}
				open++
			}
		}
	})
	return oldest, open
}

// Bounds on the pause between attempts to end a question.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
)

// watch ends questions at their deadlines, with one timer for the earliest.
func (s *Service) watch(ctx context.Context) {
	defer close(s.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry := time.Duration(0)
	for ctx.Err() == nil {
		wait := time.Hour
		n, due, ok := s.earliest()
		if ok {
			wait = time.Until(due)
		}
		if wait <= 0 {
			_, err := s.end(ctx, "", id(n), func(q Question) (Question, error) { return q.expire(now()) })
			if err == nil || errors.Is(err, ErrEnded) || errors.Is(err, ErrNotFound) {
				retry = 0
				continue
			}
			if retry == 0 && ctx.Err() == nil {
				s.o.Logger.Warn("cannot save that a question has reached its deadline; retrying", "question", id(n),
					"error", err)
			}
			retry = min(max(2*retry, minRetry), maxRetry)
			wait = retry
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-s.changed:
		case <-timer.C:
		}
	}
}

// earliest returns the open question with the earliest deadline.
func (s *Service) earliest() (n uint64, due time.Time, ok bool) {
	s.ledger.View(func() {
		for number, at := range s.due {
			if !ok || at.Before(due) || at.Equal(due) && number < n {
				n, due, ok = number, at, true
			}
		}
	})
	return n, due, ok
}

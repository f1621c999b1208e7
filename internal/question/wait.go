package question

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Get returns a question, of that agent if one is given.
func (d *Desk) Get(agent, id string) (q Question, err error) {
	n, err := parseID(id)
	if err != nil {
		return Question{}, err
	}
	d.ledger.View(func() {
		r, e := d.find(agent, n)
		if err = e; err == nil {
			q = r.Question
		}
	})
	return q, err
}

// Wait returns a question of an agent when it is not open any more.
func (d *Desk) Wait(ctx context.Context, agent, id string) (Question, error) {
	n, err := parseID(id)
	if err != nil {
		return Question{}, err
	}
	woken := make(chan struct{}, 1)
	d.mu.Lock()
	if d.waiters[n] == nil {
		d.waiters[n] = make(map[chan struct{}]bool)
	}
	d.waiters[n][woken] = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.waiters[n], woken); len(d.waiters[n]) == 0 {
			delete(d.waiters, n)
		}
	}()
	for {
		q, err := d.Get(agent, id)
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

// Waited reports whether somebody waits for a question now.
func (d *Desk) Waited(id string) bool {
	n, err := parseID(id)
	d.mu.Lock()
	defer d.mu.Unlock()
	return err == nil && len(d.waiters[n]) > 0
}

// List returns the questions of an agent, or of all if it is "": those that are
// open, or all that are kept. They are in the order in which they were asked.
func (d *Desk) List(agent string, all bool) []Question {
	var list []Question
	d.ledger.View(func() {
		for from, numbers := range d.asked {
			if agent != "" && from != agent {
				continue
			}
			for _, n := range numbers {
				if q := d.ledger.Get(n); all || q.State == Open {
					list = append(list, q.Question)
				}
			}
		}
	})
	slices.SortFunc(list, func(a, b Question) int {
		if len(a.ID) != len(b.ID) { // numbers without leading zeros
			return len(a.ID) - len(b.ID)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Pending returns the oldest open question of an agent, and how many it has.
func (d *Desk) Pending(agent string) (oldest Question, open int) {
	d.ledger.View(func() {
		for _, n := range d.asked[agent] {
			if q := d.ledger.Get(n); q.State == Open {
				if open == 0 {
					oldest = q.Question
				}
				open++
			}
		}
	})
	return oldest, open
}

// Pace of a deadline that the store does not take.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
)

// watch ends questions at their deadlines: one timer, for the earliest.
func (d *Desk) watch(ctx context.Context) {
	defer close(d.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry := time.Duration(0)
	for ctx.Err() == nil {
		n, due, ok := d.earliest()
		wait := time.Hour
		if ok {
			wait = time.Until(due)
		}
		if wait <= 0 {
			_, err := d.end(ctx, "", id(n), func(q Question) (Question, error) { return q.lapse(now()) })
			if err == nil || errors.Is(err, ErrEnded) || errors.Is(err, ErrNotFound) {
				retry = 0
				continue
			}
			if retry == 0 && ctx.Err() == nil {
				d.o.Logger.Warn("the deadline of a question has passed and cannot be written yet", "question", id(n), "error", err)
			}
			retry = min(max(2*retry, minRetry), maxRetry)
			wait = retry
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-d.changed:
		case <-timer.C:
		}
	}
}

// earliest is the open question whose deadline comes first.
func (d *Desk) earliest() (n uint64, due time.Time, ok bool) {
	d.ledger.View(func() {
		for number, at := range d.due {
			if !ok || at.Before(due) || at.Equal(due) && number < n {
				n, due, ok = number, at, true
			}
		}
	})
	return n, due, ok
}

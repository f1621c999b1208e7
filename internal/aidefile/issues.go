package aidefile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Ticket is an open issue.
type Ticket struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Body   string `json:"body"`
}

// Task returns the task for an agent.
func (t Ticket) Task() string { return t.Title + "\n\n" + t.Body }

// mark returns a hash that identifies a task.
func mark(task string) string {
	sum := sha256.Sum256([]byte(task))
	return hex.EncodeToString(sum[:8])
}

// Queue holds the issues for which an agent has started runs. No second run is started for
// an issue that stays open and unchanged, whether the run succeeded or not: an agent that
// fails would use up a budget at each poll, and one that could not close the issue would do
// the work twice. A run is started again if the text of the issue changes, its label is
// removed and added again, the agent is reset, or the run was stopped before its end.
//
// A Queue is stored as JSON for the next daemon.
type Queue struct {
	taken map[int]*taken
}

type taken struct {
	Mark string `json:"mark"`           // of its text
	Over bool   `json:"over,omitempty"` // its run has ended and none follows
}

// Next returns the first open issue without a run. whole is set if the list is complete, so
// that all other issues can be dropped.
func (q *Queue) Next(open []Ticket, whole bool) (Ticket, bool) {
	open = slices.Clone(open)
	slices.SortFunc(open, func(a, b Ticket) int { return a.Number - b.Number })
	if whole {
		maps.DeleteFunc(q.taken, func(n int, _ *taken) bool {
			_, found := slices.BinarySearchFunc(open, n, func(t Ticket, n int) int { return t.Number - n })
			return !found
		})
	}
	for _, t := range open {
		if known := q.taken[t.Number]; known == nil || known.Mark != mark(t.Task()) {
			return t, true
		}
	}
	return Ticket{}, false
}

// Take records that a run was started for an issue, with its task.
func (q *Queue) Take(number int, task string) {
	if q.taken == nil {
		q.taken = map[int]*taken{}
	}
	q.taken[number] = &taken{Mark: mark(task)}
}

// End records that the run for an issue has ended and none follows.
func (q *Queue) End(number int) {
	if t := q.taken[number]; t != nil {
		t.Over = true
	}
}

// Free lets an issue whose run was stopped be taken again, unless it had ended before.
func (q *Queue) Free(number int) {
	if t := q.taken[number]; t != nil && !t.Over {
		delete(q.taken, number)
	}
}

// FreeAll frees all issues except one.
func (q *Queue) FreeAll(but int) {
	for n := range q.taken {
		if n != but {
			q.Free(n)
		}
	}
}

// Reset drops all issues, and returns their number.
func (q *Queue) Reset() int {
	n := len(q.taken)
	clear(q.taken)
	return n
}

// MarshalJSON implements json.Marshaler.
func (q *Queue) MarshalJSON() ([]byte, error) { return json.Marshal(q.taken) }

// UnmarshalJSON implements json.Unmarshaler.
func (q *Queue) UnmarshalJSON(text []byte) error {
	var all map[int]*taken
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	maps.DeleteFunc(all, func(_ int, t *taken) bool { return t == nil })
	q.taken = all
	return nil
}

// ParseTickets parses the output of `gh issue list --json number,title,body`.
func ParseTickets(text []byte) ([]Ticket, error) {
	var all []Ticket
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the list of issues cannot be read: %w", err)
	}
	all = slices.DeleteFunc(all, func(t Ticket) bool { return t.Number <= 0 })
	return all, nil
}

package aidefile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Ticket is an open issue.
type Ticket struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Body   string `json:"body"`
}

// Task is what an agent is told about it.
func (t Ticket) Task() string { return t.Title + "\n\n" + t.Body }

// mark is what a task is recognised by.
func mark(task string) string {
	sum := sha256.Sum256([]byte(task))
	return hex.EncodeToString(sum[:8])
}

// Queue is the issues of an agent that runs were started for. One is not
// started again while it stays open and as it is, whether it was done or not:
// an agent that cannot do it would spend a budget each time somebody looks, and
// one that has done it and could not close it would do it again. It is started
// again after its text was changed, its label was taken and given again, or the
// agent was reset; and where its run was stopped before its end.
//
// It is kept as JSON, so that the next daemon knows what this one has done.
type Queue struct {
	taken map[int]*taken
}

type taken struct {
	Mark string `json:"mark"`           // of its text
	Over bool   `json:"over,omitempty"` // its run has ended, and none follows
}

// Next is the first of the open issues that no run was started for. whole says
// that these are all: then what is not among them is forgotten.
func (q *Queue) Next(open []Ticket, whole bool) (Ticket, bool) {
	open = slices.Clone(open)
	slices.SortFunc(open, func(a, b Ticket) int { return a.Number - b.Number })
	for n := range q.taken {
		if _, found := slices.BinarySearchFunc(open, n, func(t Ticket, n int) int { return t.Number - n }); whole &&
			!found {
			delete(q.taken, n)
		}
	}
	for _, t := range open {
		if known := q.taken[t.Number]; known == nil || known.Mark != mark(t.Task()) {
			return t, true
		}
	}
	return Ticket{}, false
}

// Take notes that a run was started for an issue, with its task.
func (q *Queue) Take(number int, task string) {
	if q.taken == nil {
		q.taken = map[int]*taken{}
	}
	q.taken[number] = &taken{Mark: mark(task)}
}

// End notes that what was started for an issue is over.
func (q *Queue) End(number int) {
	if t := q.taken[number]; t != nil {
		t.Over = true
	}
}

// Free has an issue started again whose run was stopped, unless that was over before.
func (q *Queue) Free(number int) {
	if t := q.taken[number]; t != nil && !t.Over {
		delete(q.taken, number)
	}
}

// FreeAll frees all issues but one.
func (q *Queue) FreeAll(but int) {
	for n := range q.taken {
		if n != but {
			q.Free(n)
		}
	}
}

// Reset forgets all of them, and says how many they were.
func (q *Queue) Reset() int {
	n := len(q.taken)
	clear(q.taken)
	return n
}

// MarshalJSON writes what is known.
func (q *Queue) MarshalJSON() ([]byte, error) { return json.Marshal(q.taken) }

// UnmarshalJSON reads what MarshalJSON has written.
func (q *Queue) UnmarshalJSON(text []byte) error {
	var all map[int]*taken
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for n, t := range all {
		if t == nil {
			delete(all, n)
		}
	}
	q.taken = all
	return nil
}

// ParseTickets reads what `gh issue list --json number,title,body` prints.
func ParseTickets(text []byte) ([]Ticket, error) {
	var all []Ticket
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the list of issues cannot be read: %w", err)
	}
	all = slices.DeleteFunc(all, func(t Ticket) bool { return t.Number <= 0 })
	return all, nil
}

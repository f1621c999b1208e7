package aide

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

func mark(task string) string {
	sum := sha256.Sum256([]byte(task))
	return hex.EncodeToString(sum[:])
}

// Queue is the issues of an agent. One that a run was started for is not
// started again while it stays open and as it is: an agent that cannot do it
// would spend a budget each time somebody looks. It is after its text was
// changed, its label was taken and given again, or the agent was reset.
type Queue struct {
	taken map[int]string
}

// Next is the first of the open issues that no run was started for.
func (q *Queue) Next(open []Ticket) (Ticket, bool) {
	for n := range q.taken {
		if !slices.ContainsFunc(open, func(t Ticket) bool { return t.Number == n }) {
			delete(q.taken, n)
		}
	}
	slices.SortFunc(open, func(a, b Ticket) int { return a.Number - b.Number })
	for _, t := range open {
		if q.taken[t.Number] != mark(t.Task()) {
			return t, true
		}
	}
	return Ticket{}, false
}

// Take notes that a run was started for an issue, with its task.
func (q *Queue) Take(number int, task string) {
	if q.taken == nil {
		q.taken = map[int]string{}
	}
	q.taken[number] = mark(task)
}

// Reset forgets which were taken.
func (q *Queue) Reset() { clear(q.taken) }

// ParseTickets reads what `gh issue list --json number,title,body` prints.
func ParseTickets(text []byte) ([]Ticket, error) {
	var all []Ticket
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the list of issues cannot be read: %w", err)
	}
	all = slices.DeleteFunc(all, func(t Ticket) bool { return t.Number <= 0 })
	return all, nil
}

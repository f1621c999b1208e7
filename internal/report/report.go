// Package report sums up a period of a project for a person: what needs a decision, what became of
// tasks, what ran and what it cost. Gather asks for what is known, and New makes a Report of it.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

// Bounds of a Report.
const (
	// MaxShown bounds the entries of a list.
	MaxShown = 50
	// MaxListed bounds the tasks of one kind that are asked for, and so the totals.
	MaxListed = 20_000
	// MaxEvents bounds the events of agents that are counted.
	MaxEvents = 100_000

	maxTitle = 200 // bytes of a title, name or command
	maxText  = 400 // bytes of a reason, question or recommendation
)

// Report is a period of a project. Its JSON form is stable: fields are added, not changed. Texts
// are single lines without control characters, cut at 400 bytes, titles and names at 200.
type Report struct {
	Project string    `json:"project"`
	Since   time.Time `json:"since"` // start of the period
	Until   time.Time `json:"until"` // end of the period, when the report was made
	Serving bool      `json:"serving"`
	// Ready and InProgress count tasks at the end of the period.
	Ready      int `json:"ready"`
	InProgress int `json:"in_progress"`
	// Needs lists what waits for a person now: problems, then questions, parked tasks and mail.
	Needs List[Need] `json:"needs"`
	// Completed and Cancelled list tasks that were closed in the period, the last one first.
	Completed List[Task] `json:"completed"`
	Cancelled List[Task] `json:"cancelled"`
	// Tried lists tasks of which an attempt has ended in the period, and that are not closed, by
	// priority.
	Tried List[Task] `json:"tried"`
	// Waiting lists other tasks that are blocked or deferred, by priority.
	Waiting List[Waiting] `json:"waiting"`
	Cost    Cost          `json:"cost"`
	Runs    Runs          `json:"runs"`
}

// List is the beginning of a list.
type List[T any] struct {
	Total int `json:"total"`
	// AtLeast says that there may be more than Total.
	AtLeast bool `json:"at_least,omitempty"`
	Shown   []T  `json:"shown"` // at most MaxShown
}

// More returns how many entries are not shown.
func (l List[T]) More() int { return l.Total - len(l.Shown) }

// Need is something that waits for a person.
type Need struct {
	Subject string    `json:"subject"` // a path, a question such as q-7, a task, or daemon, project, store, inbox
	State   string    `json:"state"`   // such as crash_loop, quarantined, question, parked
	Text    string    `json:"text"`
	From    string    `json:"from,omitempty"`   // the agent or other sender of a question
	NextAt  time.Time `json:"next_at,omitzero"` // when it goes on without a person
	Command string    `json:"command"`          // the command that helps
}

// Task is a task that was closed or tried in the period.
type Task struct {
	ID       string      `json:"id"`
	Title    string      `json:"title"`
	Status   task.Status `json:"status"`
	By       string      `json:"by,omitempty"`      // the agent or person that has closed it or tried it last
	Attempts int         `json:"attempts"`          // of any time
	Seconds  float64     `json:"seconds,omitempty"` // that the last 200 attempts have taken together
	EndedAt  time.Time   `json:"ended_at"`          // when it was closed, or its last attempt has ended
	// Outcome, Obstacle and Recommendation are those of the last attempt.
	Outcome        outcome.Kind `json:"outcome,omitempty"`
	Obstacle       string       `json:"obstacle,omitempty"`
	Recommendation string       `json:"recommendation,omitempty"`
	// Reason is the reason of the last change, such as the summary of an agent.
	Reason string `json:"reason,omitempty"`
	// Change is the change that the evidence of the last attempt names.
	Change *Change `json:"change,omitempty"`
}

// Change is a change of a git repository.
type Change struct {
	Branch      string `json:"branch,omitempty"`
	Commit      string `json:"commit,omitempty"`
	Files       int    `json:"files,omitempty"`
	Insertions  int    `json:"insertions,omitempty"` // lines
	Deletions   int    `json:"deletions,omitempty"`
	PullRequest string `json:"pull_request,omitempty"` // URL
}

// newChange returns the change that evidence names; nil if it names none.
func newChange(e *outcome.Evidence) *Change {
	if e == nil {
		return nil
	}
	c := Change{Branch: name(e.Branch), Commit: name(e.Commit), Files: e.Files, Insertions: e.Insertions,
		Deletions: e.Deletions, PullRequest: text(e.PullRequest)}
	if c == (Change{}) {
		return nil
	}
	return &c
}

// shortCommit is the number of digits of a commit for people.
const shortCommit = 10

// String returns the change in a line, such as "main 1b2c3d4e5f, 2 files +10 -3"; empty for nil.
func (c *Change) String() string {
	if c == nil {
		return ""
	}
	where := strings.TrimSpace(c.Branch + " " + c.Commit[:min(len(c.Commit), shortCommit)])
	parts := []string{where}
	if c.Files > 0 {
		parts = append(parts, fmt.Sprintf("%s +%d -%d", plaintext.Plural(c.Files, "file"), c.Insertions, c.Deletions))
	}
	parts = append(parts, c.PullRequest)
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// Waiting is a task that is blocked or deferred.
type Waiting struct {
	ID     string      `json:"id"`
	Title  string      `json:"title"`
	Status task.Status `json:"status"`
	For    string      `json:"for,omitempty"`  // what it waits for
	Until  time.Time   `json:"until,omitzero"` // the earliest time at which it goes on
}

// Cost sums up calls of language models. A number that is not known of any call is missing. Days
// count as a whole, so it begins with the day on which the period begins.
type Cost struct {
	Since  string         `json:"since"` // local dates, both included
	Until  string         `json:"until"`
	Total  cost.Row       `json:"total"`
	Agents List[cost.Row] `json:"agents"` // those with the most tokens first
}

// Runs counts what agents did in the period, as far as the event log reaches back.
type Runs struct {
	Count
	// Until is the time of the last event that is counted, if there were more than MaxEvents.
	Until  time.Time   `json:"until,omitzero"`
	Agents List[Agent] `json:"agents"` // those with the most failures first
}

// Count counts what agents did.
type Count struct {
	Starts   int `json:"starts"`
	Restarts int `json:"restarts"` // of the starts
	Failures int `json:"failures"` // failed runs, and failed starts
	Lost     int `json:"lost"`     // runs of which it is not known how they ended
}

// Agent counts what one agent did.
type Agent struct {
	Path string `json:"path"`
	Count
	LastFailure string    `json:"last_failure,omitempty"`
	FailedAt    time.Time `json:"failed_at,omitzero"`
}

// Package task defines tasks and their rules. A task is a durable piece of work that one
// incarnation of an agent does at a time. A State decides without a store. Package queue stores
// tasks, package pools decides when the tasks of a pool are paused, package transfer reads and writes
// beads, and package service handles the routes that are declared here.
//
// A task is ready when it is open, its time has come, its dependencies are completed and its
// children closed. Dependencies never form a cycle. A claim belongs to one incarnation, and is an
// attempt at the task. How the attempt ends decides what becomes of the task; see route.
package task

import (
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// Limits. Errors about them wrap ErrInvalid or ErrFull.
const (
	MaxTitle    = 2000      // bytes of a title
	MaxText     = 256 << 10 // bytes of a text
	MaxComment  = 64 << 10  // bytes of a comment
	MaxComments = 1000      // comments of a task
	MaxReason   = 4 << 10   // bytes of a reason
	MaxDoneWhen = 4 << 10   // bytes of the criterion by which a task is done
	MaxFixes    = 4 << 10   // bytes of the command that proves a fix
	MaxName     = 256       // bytes of a pool, an assignee, a type, a label, a key, an id
	MaxLabels   = 50        // labels of a task
	MaxDepends  = 200       // dependencies and other links of a task
	MaxTasks    = 1_000_000 // tasks of a project
	MaxHeld     = 100       // tasks that one incarnation holds at a time
)

// Priorities: 0 is the most urgent one.
const (
	MaxPriority     = 4
	DefaultPriority = 2
)

// Errors. They are wrapped with the details.
var (
	ErrNotFound = errors.New("no such task")
	ErrInvalid  = errors.New("invalid task")
	ErrConflict = errors.New("not possible now")
	ErrFull     = errors.New("too many tasks")
	// ErrNothing means that there is nothing to claim.
	ErrNothing = errors.New("no task is ready")
	// ErrStale means that the caller is not the current incarnation.
	ErrStale = errors.New("this incarnation has ended")
)

// Status is the stage of a task.
type Status string

// Statuses of a task.
const (
	Open       Status = "open"        // waits to be claimed
	InProgress Status = "in_progress" // claimed
	Blocked    Status = "blocked"     // until it is opened, for a reason that is not another task
	Deferred   Status = "deferred"    // until a time, or until it is opened
	Parked     Status = "parked"      // too many attempts have failed, or it was escalated; until a person opens it
	Closed     Status = "closed"
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Open, InProgress, Blocked, Deferred, Parked, Closed} }

// Outcome says how a task was closed. Tasks that earlier versions have closed may have others, such as
// failed. They are kept, and mean that the task was not completed.
type Outcome string

// Outcomes of a closed task.
const (
	Completed Outcome = "completed"
	Cancelled Outcome = "cancelled"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Completed, Cancelled} }

// DependencyRule says what becomes of a task if a task that it depends on is closed without being
// completed.
type DependencyRule string

// Rules about dependencies that are not completed.
const (
	WaitForIt    DependencyRule = "wait"     // until it is opened again and completed; the default
	CancelWithIt DependencyRule = "cancel"   // it is cancelled, too
	GoOnWithout  DependencyRule = "continue" // it may begin
)

// DependencyRules returns all rules.
func DependencyRules() []DependencyRule {
	return []DependencyRule{WaitForIt, CancelWithIt, GoOnWithout}
}

// Task is a piece of work. Times are of the wall clock.
type Task struct {
	_ struct{} `open:"true" doc:"A piece of work."`

	ID        string   `json:"id" doc:"Such as web-x4k; never reused."`
	Title     string   `json:"title" doc:"One line."`
	Type      string   `json:"type,omitempty" doc:"task, bug, feature, epic, chore, or any other word."`
	Status    Status   `json:"status" enum:"open,in_progress,blocked,deferred,parked,closed" doc:"A deferred task is open once its time has come."`
	DoneWhen  string   `json:"done_when,omitempty" doc:"The criterion by which it is done. Agents complete it only with evidence."`
	Fixes     string   `json:"fixes,omitempty" doc:"A command that has to fail before the task is done and to pass after it, see Words. Pipelines run it."`
	Mode      string   `json:"mode,omitempty" enum:"maintenance,evolution" doc:"The mode in which pipelines work at it; if it is missing they choose by their rules."`
	Priority  int      `json:"priority" minimum:"0" maximum:"4" doc:"0 is the most urgent."`
	Labels    []string `json:"labels,omitempty" doc:"Sorted."`
	Pool      string   `json:"pool,omitempty" doc:"The pool whose agents may claim it."`
	Assignee  string   `json:"assignee,omitempty" doc:"The agent or person that is to do it."`
	Parent    string   `json:"parent,omitempty" doc:"The task that waits for this one."`
	DependsOn []string `json:"depends_on,omitempty" doc:"Tasks that must be completed before it can be claimed."`
	// IfDependencyFails is empty for the default, WaitForIt.
	IfDependencyFails DependencyRule `json:"if_dependency_fails,omitempty" enum:"wait,cancel,continue" doc:"What becomes of it if a task that it depends on is cancelled. Default: wait."`
	Links             []Link         `json:"links,omitempty" doc:"Relations to other tasks, which block nothing."`
	// NotBefore is the earliest time at which the task can be claimed.
	NotBefore time.Time `json:"not_before,omitzero" doc:"Earliest time at which it can be claimed."`
	// Ephemeral tasks are removed some time after they are closed; see Purge.
	Ephemeral bool   `json:"ephemeral,omitempty" doc:"The task is removed some time after it is closed."`
	Origin    string `json:"origin,omitempty" doc:"Origin of the task, such as order:nightly."`
	// Claim is the current claim while the task is in progress.
	Claim  *Holder `json:"claim,omitempty"`
	Claims int     `json:"claims,omitempty" minimum:"0" doc:"Number of claims."`
	// Retries counts attempts that ended without a result, since a person last opened the task.
	// Pauses before the next attempt grow with it.
	Retries int `json:"retries,omitempty" minimum:"0" doc:"Number of attempts that ended without a result, since a person last opened the task."`
	// Decomposed says that its children are the subtasks into which it was divided. It is closed
	// with the last of them.
	Decomposed bool `json:"decomposed,omitempty" doc:"It was divided into its children, and is completed with the last of them."`
	// Condition unblocks a blocked task, and Question asks a person about it.
	Condition *outcome.Condition `json:"condition,omitempty" doc:"What a blocked task waits for."`
	Question  *Question          `json:"question,omitempty" doc:"What a person is asked about the task."`
	// BlockedAt is zero without a Condition, and for tasks that earlier versions have blocked.
	BlockedAt time.Time `json:"blocked_at,omitzero" doc:"Since when it waits for its condition."`
	// StoppedBy lists escalated subtasks of a decomposed task. No subtask can be claimed
	// meanwhile.
	StoppedBy []string `json:"stopped_by,omitempty" doc:"Escalated subtasks, because of which none of its subtasks can be claimed."`
	// FailedClaims counts claims that ended with a failure of their agent, since a person last
	// opened the task. MaxClaims is the number at which the task is parked; 0 means the
	// configured number.
	FailedClaims int `json:"failed_claims,omitempty" minimum:"0" doc:"Number of claims that ended with a failure of the agent, since a person last opened the task."`
	MaxClaims    int `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"Number of failed claims after which it is parked. Default: the configured number."`
	// LastAttemptAt is zero for tasks that only earlier versions have tried.
	LastAttemptAt time.Time `json:"last_attempt_at,omitzero" doc:"When the last attempt has ended."`
	Comments      int       `json:"comments,omitempty" minimum:"0" doc:"Number of comments."`
	CreatedAt     time.Time `json:"created_at" doc:"When it was created."`
	CreatedBy     string    `json:"created_by,omitempty" doc:"The agent or person."`
	UpdatedAt     time.Time `json:"updated_at" doc:"When it was last changed."`
	ClosedAt      time.Time `json:"closed_at,omitzero" doc:"When it was closed."`
	ClosedBy      string    `json:"closed_by,omitempty" doc:"The agent or person."`
	Outcome       Outcome   `json:"outcome,omitempty" enum:"completed,cancelled" doc:"How it was closed. Earlier versions knew failed, too."`
	Reason        string    `json:"reason,omitempty" doc:"Reason of the last close, release or reopen."`

	// These fields are derived from other tasks and the time, and not stored.
	Ready    bool     `json:"ready" doc:"It can be claimed now."`
	Paused   bool     `json:"paused,omitempty" doc:"It could be claimed, but its pool is paused."`
	WaitsFor []string `json:"waits_for,omitempty" doc:"Tasks that it waits for: dependencies, children, and escalated tasks of the same decomposition; at most 20."`
	Stuck    []string `json:"stuck,omitempty" doc:"Those of waits_for that are closed and were not completed: only a person can let it go on."`
}

// Link is a relation to another task.
type Link struct {
	_ struct{} `open:"true" doc:"A relation to another task."`

	Type string `json:"type" doc:"related, discovered-from, ..."`
	ID   string `json:"id" doc:"The other task."`
}

// Holder is the claim of an incarnation or a person on a task.
type Holder struct {
	_ struct{} `open:"true" doc:"A claim on a task."`

	By          string    `json:"by" doc:"Path of the agent, or name of the person."`
	Incarnation uint64    `json:"incarnation,omitempty" doc:"Of the agent."`
	Life        string    `json:"life,omitempty" doc:"Always empty."`
	At          time.Time `json:"at" doc:"Time of the claim."`
	Key         string    `json:"key,omitempty" doc:"Always empty."`
}

// Question asks a person about a task.
type Question struct {
	_ struct{} `schema:"TaskQuestion" open:"true" doc:"What a person is asked about a task."`

	Text string    `json:"text" doc:"The question."`
	At   time.Time `json:"at" doc:"When it came up."`
}

// Comment is a comment of an agent or a person.
type Comment struct {
	_ struct{} `open:"true" doc:"A comment on a task."`

	By          string    `json:"by" doc:"Path of the agent, or name of the person."`
	Incarnation uint64    `json:"incarnation,omitempty" doc:"Of the agent."`
	At          time.Time `json:"at" doc:"Time of the comment."`
	Text        string    `json:"text" doc:"The comment."`
}

// Detail is a task with its text, comments, attempts and children.
type Detail struct {
	_ struct{} `open:"true" doc:"A task with its text, comments, attempts and children."`

	Task     Task      `json:"task"`
	Text     string    `json:"text" doc:"The description."`
	Comments []Comment `json:"comments" doc:"Oldest first."`
	Attempts []Attempt `json:"attempts" doc:"Attempts that have ended, oldest first; the last 200."`
	Children []string  `json:"children" doc:"Ids of its children, at most 200."`
	Gate     *Gate     `json:"gate,omitempty" doc:"What it waits for, while a daemon runs."`
}

// Actor is an incarnation of an agent, or a person.
type Actor struct {
	Path        string // of an agent; "" for a person
	Incarnation uint64
	Name        string // of a person
}

// People is the name of a person who gives none.
const People = "people"

// controller is the actor of changes that the daemon makes on its own.
const controller = pools.Controller

func (w Actor) String() string {
	switch {
	case w.Path != "":
		return w.Path
	case w.Name != "":
		return w.Name
	}
	return People
}

// Person reports whether the actor is a person.
func (w Actor) Person() bool { return w.Path == "" }

// Life is one incarnation of an agent.
type Life struct {
	Incarnation uint64 // above zero
	// ID is unique to the incarnation. Numbers may repeat; IDs do not.
	ID string
}

// effective returns the status of a task at a time: an open or deferred task with a NotBefore is
// deferred until then, and open afterwards.
func (t *Task) effective(now time.Time) Status {
	if t.Status != Open && t.Status != Deferred || t.NotBefore.IsZero() {
		return t.Status
	}
	if now.Before(t.NotBefore) {
		return Deferred
	}
	return Open
}

func (t *Task) closed() bool { return t.Status == Closed }

// completed reports whether a task is closed as completed, which is also what no outcome means.
func (t *Task) completed() bool { return t.closed() && (t.Outcome == Completed || t.Outcome == "") }

// now returns the time as it is stored.
func now() time.Time { return time.Now().UTC().Round(0) }

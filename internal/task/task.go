// Package task defines tasks and their rules. A task is a durable piece of work that one
// incarnation of an agent does at a time. A State decides without a store. Package queue stores
// tasks, package transfer reads and writes beads, and package service handles the routes that are
// declared here.
//
// A task is ready when it is open, its time has come, and everything it waits for is closed: its
// dependencies and its children. Dependencies never form a cycle. A claim belongs to one
// incarnation; when that ends, its tasks are open again.
package task

import (
	"errors"
	"time"
)

// Limits. Errors about them wrap ErrInvalid or ErrFull.
const (
	MaxTitle    = 2000      // bytes of a title
	MaxText     = 256 << 10 // bytes of a text
	MaxComment  = 64 << 10  // bytes of a comment
	MaxComments = 1000      // comments of a task
	MaxReason   = 4 << 10   // bytes of a reason
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
	Parked     Status = "parked"      // too many claims have failed; until a person opens it
	Closed     Status = "closed"
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Open, InProgress, Blocked, Deferred, Parked, Closed} }

// Outcome is how a task was closed.
type Outcome string

// Outcomes of a closed task.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Completed, Failed, Cancelled} }

// Task is a piece of work. Times are of the wall clock.
type Task struct {
	_ struct{} `open:"true" doc:"A piece of work."`

	ID        string   `json:"id" doc:"Such as web-x4k; never reused."`
	Title     string   `json:"title" doc:"One line."`
	Type      string   `json:"type,omitempty" doc:"task, bug, feature, epic, chore, or any other word."`
	Status    Status   `json:"status" enum:"open,in_progress,blocked,deferred,parked,closed" doc:"A deferred task is open once its time has come."`
	Priority  int      `json:"priority" minimum:"0" maximum:"4" doc:"0 is the most urgent."`
	Labels    []string `json:"labels,omitempty" doc:"Sorted."`
	Pool      string   `json:"pool,omitempty" doc:"The pool whose agents may claim it."`
	Assignee  string   `json:"assignee,omitempty" doc:"The agent or person that is to do it."`
	Parent    string   `json:"parent,omitempty" doc:"The task that waits for this one."`
	DependsOn []string `json:"depends_on,omitempty" doc:"Tasks that must be closed before it can be claimed."`
	Links     []Link   `json:"links,omitempty" doc:"Relations to other tasks, which block nothing."`
	// NotBefore is the earliest time at which the task can be claimed.
	NotBefore time.Time `json:"not_before,omitzero" doc:"Earliest time at which it can be claimed."`
	// Ephemeral tasks are removed some time after they are closed; see Purge.
	Ephemeral bool   `json:"ephemeral,omitempty" doc:"The task is removed some time after it is closed."`
	Origin    string `json:"origin,omitempty" doc:"Origin of the task, such as order:nightly."`
	// Claim is the current claim while the task is in progress.
	Claim  *Holder `json:"claim,omitempty"`
	Claims int     `json:"claims,omitempty" minimum:"0" doc:"Number of claims."`
	// FailedClaims counts claims that ended with a failure of their agent, since a person last
	// opened the task. MaxClaims is the number at which the task is parked; 0 means the
	// configured number.
	FailedClaims int       `json:"failed_claims,omitempty" minimum:"0" doc:"Number of claims that ended with a failure of the agent, since a person last opened the task."`
	MaxClaims    int       `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"Number of failed claims after which it is parked. Default: the configured number."`
	Comments     int       `json:"comments,omitempty" minimum:"0" doc:"Number of comments."`
	CreatedAt    time.Time `json:"created_at" doc:"When it was created."`
	CreatedBy    string    `json:"created_by,omitempty" doc:"The agent or person."`
	UpdatedAt    time.Time `json:"updated_at" doc:"When it was last changed."`
	ClosedAt     time.Time `json:"closed_at,omitzero" doc:"When it was closed."`
	ClosedBy     string    `json:"closed_by,omitempty" doc:"The agent or person."`
	Outcome      Outcome   `json:"outcome,omitempty" enum:"completed,failed,cancelled" doc:"How it was closed."`
	Reason       string    `json:"reason,omitempty" doc:"Reason of the last close, release or reopen."`

	// These fields are derived from other tasks and the time, and not stored.
	Ready    bool     `json:"ready" doc:"It can be claimed now."`
	WaitsFor []string `json:"waits_for,omitempty" doc:"Open tasks that it waits for: dependencies and children; at most 20."`
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

// Comment is a comment of an agent or a person.
type Comment struct {
	_ struct{} `open:"true" doc:"A comment on a task."`

	By          string    `json:"by" doc:"Path of the agent, or name of the person."`
	Incarnation uint64    `json:"incarnation,omitempty" doc:"Of the agent."`
	At          time.Time `json:"at" doc:"Time of the comment."`
	Text        string    `json:"text" doc:"The comment."`
}

// Detail is a task with its text, comments and children.
type Detail struct {
	_ struct{} `open:"true" doc:"A task with its text, comments and children."`

	Task     Task      `json:"task"`
	Text     string    `json:"text" doc:"The description."`
	Comments []Comment `json:"comments" doc:"Oldest first."`
	Children []string  `json:"children" doc:"Ids of its children, at most 200."`
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
const controller = "controller"

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

// closed reports whether a task is closed, so others need not wait for it.
func (t *Task) closed() bool { return t.Status == Closed }

// now returns the time as it is stored.
func now() time.Time { return time.Now().UTC().Round(0) }

package task

import "github.com/coppice-dev/coppice/internal/task/pools"

// Event is a change of a task.
type Event struct {
	Kind Kind
	Task Task // after the change
	By   Actor
	Held *Holder // the claim before the change
	// Asks says that people were or are asked about the task.
	Asks bool
	// Waits says that the task has waited for a condition, or waits for one now.
	Waits bool
	// Pool is the pool of an event about one; nil for other events.
	Pool *pools.Pool
	// Attempt is the attempt that has ended with the change; nil if none has.
	Attempt *Attempt
	// Count is the number of tasks of an event about several.
	Count int
	Note  string // text for people; may be empty
}

// Kind is the kind of an Event.
type Kind string

// Kinds of events.
const (
	Created   Kind = "created"
	Edited    Kind = "edited"
	Commented Kind = "commented"
	Claimed   Kind = "claimed"
	Released  Kind = "released"   // back in the queue, maybe until a time
	HeldUp    Kind = "blocked"    // until a condition holds
	Divided   Kind = "decomposed" // into subtasks
	Escalated Kind = "escalated"  // until a person decides
	Ended     Kind = "closed"
	Withheld  Kind = "parked"
	Reopened  Kind = "reopened"
	// PoolIsPaused and PoolIsOpen are about the tasks of a pool.
	PoolIsPaused Kind = "pool_paused"
	PoolIsOpen   Kind = "pool_resumed"
	Imported     Kind = "imported" // several tasks
	Purged       Kind = "purged"   // several tasks
)

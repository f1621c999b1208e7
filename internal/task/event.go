package task

// Event is something that has happened to a task.
type Event struct {
	Kind Kind
	Task Task // afterwards
	By   Actor
	Held *Holder // the claim that the task had before
	// Count is how many tasks it happened to, where it is more than one.
	Count int
	Note  string // in words; may be empty
}

// Kind says what has happened.
type Kind string

// All of them.
const (
	Created   Kind = "created"
	Edited    Kind = "edited"
	Commented Kind = "commented"
	Claimed   Kind = "claimed"
	Released  Kind = "released"
	Ended     Kind = "closed"
	Withheld  Kind = "parked"
	Reopened  Kind = "reopened"
	Imported  Kind = "imported" // Count tasks at once
	Purged    Kind = "purged"   // Count tasks at once
)

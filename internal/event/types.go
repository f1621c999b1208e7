package event

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Type says what happened. The names are those of the documents that the
// system comes from, so that what people know of them stays true.
type Type string

// Types of events. The list is open: any dotted name may be appended.
const (
	// The daemon.
	ControllerStarted Type = "controller.started"
	ControllerStopped Type = "controller.stopped"
	ControllerAdopted Type = "controller.adopted" // found agents of its predecessor running
	ConfigLoaded      Type = "config.loaded"
	ConfigReloaded    Type = "config.reloaded"
	ConfigRejected    Type = "config.rejected" // the one before stays in force

	// Agents.
	AgentStarted     Type = "agent.started"
	AgentStartFailed Type = "agent.start_failed"
	AgentReady       Type = "agent.ready"
	AgentStopped     Type = "agent.stopped" // as it was told to
	AgentExited      Type = "agent.exited"  // by itself, cleanly
	AgentCrashed     Type = "agent.crashed"
	AgentRestarting  Type = "agent.restarting" // after a delay
	AgentQuarantined Type = "agent.quarantined"
	AgentReleased    Type = "agent.released" // from quarantine
	AgentGaveUp      Type = "agent.gave_up"
	AgentReset       Type = "agent.reset"
	AgentIdleKilled  Type = "agent.idle_killed"
	AgentIdleUnknown Type = "agent.idle_unknown" // its runtime cannot tell whether it is
	AgentSuspended   Type = "agent.suspended"
	AgentResumed     Type = "agent.resumed"
	AgentDraining    Type = "agent.draining"    // was asked to finish
	AgentDrained     Type = "agent.drained"     // and is stopped
	AgentDrainEnded  Type = "agent.drain_ended" // may go on
	AgentDrifted     Type = "agent.drifted"     // is not as it is declared any more
	AgentUpdated     Type = "agent.updated"     // new settings without a restart
	AgentLost        Type = "agent.lost"        // cannot be found any more
	AgentAdopted     Type = "agent.adopted"     // found running by a new daemon
	AgentAbandoned   Type = "agent.abandoned"
	AgentOverdue     Type = "agent.overdue"     // did not stop in time, and is killed; data is api.Overdue
	AgentRemoved     Type = "agent.removed"     // from the file, and stopped
	AgentClaimed     Type = "agent.claimed"     // an outcome, which is what the agent says and no more
	AgentHook        Type = "agent.hook"        // on_waking, on_start, on_resting or on_error has run
	AgentHookFailed  Type = "agent.hook_failed" // or has failed

	// Agents of Aidefiles.
	AgentFired         Type = "agent.fired"          // a run begins
	AgentFireSkipped   Type = "agent.fire_skipped"   // a trigger has fired, and none begins
	AgentTriggerFailed Type = "agent.trigger_failed" // it cannot be told whether a trigger is to fire

	// What agents say, and fail to say.
	AgentFinished         Type = "agent.finished" // what it was to finish, it says
	AgentRestartRequested Type = "agent.restart_requested"
	AgentRestartEnded     Type = "agent.restart_ended" // the request is dealt with
	AgentUnresponsive     Type = "agent.unresponsive"  // silent, or not getting on, for longer than it may
	AgentResponsive       Type = "agent.responsive"    // after that
	AgentNudged           Type = "agent.nudged"
	AgentCondemned        Type = "agent.condemned" // is ended as a failure

	// Pools.
	PoolScaled         Type = "pool.scaled" // another number of instances is wanted
	PoolCheckFailed    Type = "pool.check_failed"
	PoolCheckRecovered Type = "pool.check_recovered"
	PoolRetired        Type = "pool.retired"  // the file does not have it any more: its instances are asked to finish
	PoolReturned       Type = "pool.returned" // the file has it again before it was gone
	PoolRemoved        Type = "pool.removed"  // the last instance of one that was retired is gone

	// The project as a whole.
	ProjectSuspended Type = "project.suspended"
	ProjectResumed   Type = "project.resumed"

	// Supervisors.
	SupervisorStarted   Type = "supervisor.started"
	SupervisorStopped   Type = "supervisor.stopped"
	SupervisorEscalated Type = "supervisor.escalated"
	SupervisorPaused    Type = "supervisor.paused"
	SupervisorResumed   Type = "supervisor.resumed"
	SupervisorReleased  Type = "supervisor.released" // from quarantine

	// Beliefs of agents. What agents change themselves is no event.
	BeliefChanged  Type = "belief.changed"  // by a person
	BeliefUnusable Type = "belief.unusable" // is kept, and cannot be read or is of another type now

	// Orders.
	OrderFired     Type = "order.fired"
	OrderCompleted Type = "order.completed"
	OrderFailed    Type = "order.failed" // an attempt; another one may follow
	OrderSkipped   Type = "order.skipped"

	// Tasks; without their texts.
	TaskCreated   Type = "task.created"
	TaskEdited    Type = "task.edited"
	TaskCommented Type = "task.commented"
	TaskClaimed   Type = "task.claimed"
	TaskReleased  Type = "task.released" // is open again, by who had claimed it or because that incarnation is over
	TaskParked    Type = "task.parked"   // its claims have failed too often; a person has to look at it
	TaskClosed    Type = "task.closed"
	TaskReopened  Type = "task.reopened"
	TaskImported  Type = "task.imported" // many at once
	TaskPurged    Type = "task.purged"   // many at once

	// Mail, and questions to people; without what they say at length.
	MailSent          Type = "mail.sent"
	QuestionAsked     Type = "question.asked"
	QuestionAnswered  Type = "question.answered" // by a person, or by its default at its deadline
	QuestionExpired   Type = "question.expired"
	QuestionWithdrawn Type = "question.withdrawn"

	// Requests.
	AccessDenied Type = "access.denied" // an agent asked for what only people may do

	// Files that somebody has removed while they were in use, made anew.
	SocketRestored Type = "socket.restored"
	LockRestored   Type = "lock.restored"
	SlotRestored   Type = "slot.restored"
	StoreRestored  Type = "store.restored"

	// The store and the log itself.
	StoreDegraded   Type = "store.degraded"   // takes no writes; data is Degraded
	StoreDamaged    Type = "store.damaged"    // some of what was in it is lost
	StoreRecovered  Type = "store.recovered"  // takes writes again; data is Degraded
	EventsDropped   Type = "events.dropped"   // were never written; data is Dropped
	EventsCompacted Type = "events.compacted" // no longer kept, a reader came too late; data is Compacted
	EventsReset     Type = "events.reset"     // the log is not the one that the reader's cursor is from; data is Compacted
	Unreadable      Type = "events.unreadable"
	Unnamed         Type = "events.unnamed" // appended without a type
)

// Dropped is the data of EventsDropped: what the store would not take for so
// long that it did not fit into memory any more.
type Dropped struct {
	Count uint64    `json:"count"`
	First time.Time `json:"first"` // time of the first and last of them
	Last  time.Time `json:"last"`
}

// Degraded is the data of StoreDegraded and StoreRecovered.
type Degraded struct {
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

// Compacted is the data of EventsCompacted and EventsReset.
type Compacted struct {
	After uint64 `json:"after"` // the cursor of the reader
	Until uint64 `json:"until"` // the last event that is no longer kept, 0 if none
}

// Filter selects events. The zero value selects all.
type Filter struct {
	// Types are patterns as for path.Match, such as "agent.*"; one of them must match. None means all.
	Types []string
	// Path selects the node of that path and all below it. "" means all.
	Path string
}

// Query says which events a reader wants. The zero value is all that are kept.
type Query struct {
	Filter
	After  uint64 // only those with a greater number
	Epoch  string // in which After counts; "" is that of the log
	Last   int    // of those that are there, only the last so many; 0 is all
	Follow bool   // those that come, too
}

// Check returns what is wrong with the patterns, or nil.
func (f Filter) Check() error {
	for _, p := range f.Types {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("type pattern %q: %w (such as agent.crashed or agent.*)", p, err)
		}
	}
	return nil
}

// Match reports whether the event is selected. Events that say that a reader missed some always are.
func (f Filter) Match(e Event) bool {
	if e.Type == EventsCompacted || e.Type == EventsReset {
		return true
	}
	if below := strings.TrimSuffix(f.Path, "/"); below != "" && e.Path != below && !strings.HasPrefix(e.Path, below+"/") {
		return false
	}
	for _, p := range f.Types {
		if ok, _ := path.Match(p, string(e.Type)); ok {
			return true
		}
	}
	return len(f.Types) == 0
}

package event

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Type is the kind of an event, such as agent.crashed. Catalogue lists all types.
type Type string

// Types of events. Catalogue documents each of them.
const (
	// The daemon and its file.
	ControllerStarted Type = "controller.started"
	NodeLost          Type = "node.lost"
	ControllerStopped Type = "controller.stopped"
	ConfigReloaded    Type = "config.reloaded"
	ConfigRejected    Type = "config.rejected"
	ProjectSuspended  Type = "project.suspended"
	ProjectResumed    Type = "project.resumed"

	// Agents: what their supervisor does and sees.
	AgentStarted      Type = "agent.started"
	AgentStartFailed  Type = "agent.start_failed"
	AgentIgnored      Type = "agent.ignored"
	AgentAdopted      Type = "agent.adopted"
	AgentLost         Type = "agent.lost"
	AgentExited       Type = "agent.exited"
	AgentCrashed      Type = "agent.crashed"
	AgentStopping     Type = "agent.stopping"
	AgentStopped      Type = "agent.stopped"
	AgentChanged      Type = "agent.changed"
	AgentAbandoned    Type = "agent.abandoned"
	AgentReturned     Type = "agent.returned"
	AgentMisbehaved   Type = "agent.misbehaved"
	AgentLimitReached Type = "agent.limit_reached"
	AgentQuarantined  Type = "agent.quarantined"
	AgentGaveUp       Type = "agent.gave_up"
	AgentReleased     Type = "agent.released"
	AgentWaiting      Type = "agent.waiting"

	// Accounts of language models.
	QuotaParked   Type = "quota.parked"
	QuotaProbing  Type = "quota.probing"
	QuotaOpened   Type = "quota.opened"
	QuotaStopped  Type = "quota.stopped"
	QuotaSwitched Type = "quota.switched"

	BudgetReached Type = "budget.reached"
	BudgetRaised  Type = "budget.raised"
	BudgetOpened  Type = "budget.opened"

	CostCounted Type = "cost.counted"

	NotifySent   Type = "notify.sent"
	NotifyFailed Type = "notify.failed"

	// Agents: what is asked of them, and what the daemon does.
	AgentStartRequested Type = "agent.start_requested"
	AgentStopRequested  Type = "agent.stop_requested"
	AgentReset          Type = "agent.reset"
	AgentSuspended      Type = "agent.suspended"
	AgentResumed        Type = "agent.resumed"
	AgentDraining       Type = "agent.draining"
	AgentFinished       Type = "agent.finished"
	AgentDrained        Type = "agent.drained"
	AgentDrainEnded     Type = "agent.drain_ended"
	AgentDrifted        Type = "agent.drifted"
	AgentMoved          Type = "agent.moved"
	AgentRemoved        Type = "agent.removed"
	AgentOverdue        Type = "agent.overdue"
	AgentIdleKilled     Type = "agent.idle_killed"
	AgentIdleUnknown    Type = "agent.idle_unknown"
	AgentUnresponsive   Type = "agent.unresponsive"
	AgentResponsive     Type = "agent.responsive"
	AgentNudged         Type = "agent.nudged"
	AgentCondemned      Type = "agent.condemned"
	AgentHook           Type = "agent.hook"
	AgentHookFailed     Type = "agent.hook_failed"

	// Agents: what they ask for and say.
	AgentRestartRequested Type = "agent.restart_requested"
	AgentRestartEnded     Type = "agent.restart_ended"
	AgentClaimed          Type = "agent.claimed"

	// Agents of Aidefiles.
	AgentFired         Type = "agent.fired"
	AgentFireSkipped   Type = "agent.fire_skipped"
	AgentTriggerFailed Type = "agent.trigger_failed"

	// Pools.
	PoolScaled         Type = "pool.scaled"
	PoolCheckFailed    Type = "pool.check_failed"
	PoolCheckRecovered Type = "pool.check_recovered"
	PoolRetired        Type = "pool.retired"
	PoolReturned       Type = "pool.returned"
	PoolRemoved        Type = "pool.removed"

	// Supervisors.
	SupervisorStarted      Type = "supervisor.started"
	SupervisorStartFailed  Type = "supervisor.start_failed"
	SupervisorIgnored      Type = "supervisor.ignored"
	SupervisorAdopted      Type = "supervisor.adopted"
	SupervisorLost         Type = "supervisor.lost"
	SupervisorExited       Type = "supervisor.exited"
	SupervisorCrashed      Type = "supervisor.crashed"
	SupervisorWaiting      Type = "supervisor.waiting"
	SupervisorStopping     Type = "supervisor.stopping"
	SupervisorStopped      Type = "supervisor.stopped"
	SupervisorChanged      Type = "supervisor.changed"
	SupervisorAbandoned    Type = "supervisor.abandoned"
	SupervisorReturned     Type = "supervisor.returned"
	SupervisorMisbehaved   Type = "supervisor.misbehaved"
	SupervisorLimitReached Type = "supervisor.limit_reached"
	SupervisorQuarantined  Type = "supervisor.quarantined"
	SupervisorGaveUp       Type = "supervisor.gave_up"
	SupervisorReleased     Type = "supervisor.released"
	SupervisorPaused       Type = "supervisor.paused"
	SupervisorEnded        Type = "supervisor.ended"

	// Beliefs.
	BeliefChanged  Type = "belief.changed"
	BeliefUnusable Type = "belief.unusable"

	// Orders.
	OrderFired     Type = "order.fired"
	OrderCompleted Type = "order.completed"
	OrderFailed    Type = "order.failed"
	OrderSkipped   Type = "order.skipped"
	OrderPaced     Type = "order.paced"

	// Tasks, without their texts.
	TaskCreated     Type = "task.created"
	TaskEdited      Type = "task.edited"
	TaskCommented   Type = "task.commented"
	TaskClaimed     Type = "task.claimed"
	TaskReleased    Type = "task.released"
	TaskBlocked     Type = "task.blocked"
	TaskDecomposed  Type = "task.decomposed"
	TaskEscalated   Type = "task.escalated"
	TaskParked      Type = "task.parked"
	TaskClosed      Type = "task.closed"
	TaskReopened    Type = "task.reopened"
	TaskPoolPaused  Type = "task.pool_paused"
	TaskPoolResumed Type = "task.pool_resumed"
	TaskImported    Type = "task.imported"
	TaskPurged      Type = "task.purged"

	// Mail, and questions to people, without what they say at length.
	MailSent          Type = "mail.sent"
	QuestionAsked     Type = "question.asked"
	QuestionAnswered  Type = "question.answered"
	QuestionExpired   Type = "question.expired"
	QuestionWithdrawn Type = "question.withdrawn"

	// Requests.
	AccessDenied Type = "access.denied"

	// Files in use that were removed, and made again.
	SocketRestored Type = "socket.restored"
	LockRestored   Type = "lock.restored"
	SlotRestored   Type = "slot.restored"
	StoreRestored  Type = "store.restored"

	// The store and the log.
	StoreDegraded   Type = "store.degraded"
	StoreDamaged    Type = "store.damaged"
	StoreRecovered  Type = "store.recovered"
	EventsLost      Type = "events.lost"
	EventsDropped   Type = "events.dropped"
	EventsCompacted Type = "events.compacted"
	EventsReset     Type = "events.reset"
	Unreadable      Type = "events.unreadable"
	Unnamed         Type = "events.unnamed"
)

// Dropped is the data of EventsDropped: events that no longer fitted into memory while the store
// accepted no writes.
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
	// Types are patterns as for path.Match, such as "agent.*". One of them must match; none means
	// all.
	Types []string
	// Path selects a node and all nodes below it; "" means all.
	Path string
	// Since selects events that have happened at this time or later; zero means all.
	Since time.Time
}

// Query selects the events that a reader wants. The zero value selects all that are kept.
type Query struct {
	Filter
	After  uint64 // only those with a greater number
	Epoch  string // in which After counts; "" is that of the log
	Last   int    // the maximum number of existing events, counted from the end; 0 for all
	Follow bool   // also yield new events
}

// Check returns an error if a pattern is malformed. See CheckTypes.
func (f Filter) Check() error {
	for _, p := range f.Types {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("type pattern %q: %w (such as agent.crashed or agent.*)", p, err)
		}
	}
	return nil
}

// Match reports whether the filter selects an event. It always selects events that report a gap.
func (f Filter) Match(e Event) bool {
	if e.Type == EventsCompacted || e.Type == EventsReset {
		return true
	}
	if e.Time.Before(f.Since) {
		return false
	}
	if below := strings.TrimSuffix(f.Path, "/"); below != "" && e.Path != below &&
		!strings.HasPrefix(e.Path, below+"/") {
		return false
	}
	for _, p := range f.Types {
		if ok, _ := path.Match(p, string(e.Type)); ok {
			return true
		}
	}
	return len(f.Types) == 0
}

package event

import (
	"slices"
	"strings"
	"sync"
)

// Entry documents a type of events.
type Entry struct {
	Type   Type
	Doc    string   // when it is written
	Fields []string // of its data: the name, a space, and its meaning
}

// Section is a group of entries with a title.
type Section struct {
	Title   string
	Entries []Entry
}

// Descriptions of fields that many types share.
const (
	fieldReason   = "reason the rule or the cause behind it"
	fieldDecision = "decision `restart`, `held`, `left`, `forgotten` or `supervisor ends`"
	fieldDelay    = "delay_seconds the delay before the restart, if there is one"
	fieldAttempt  = "attempt the number of the restart since the last success, from 1"
	fieldExit     = "exit the kind of exit: `normal`, `shutdown`, `failure`, `killed`, `abandoned` or `lost`"
	fieldError    = "error the error, for people"
	fieldUptime   = "uptime_seconds the run time"
	fieldTook     = "start_seconds the duration of the start"
	fieldLimit    = "limit the limit that was reached"
	fieldFinished = "finished whether the agent has reported that it has finished"
	fieldTrigger  = "trigger the kind of the trigger"
	fieldEvidence = "evidence what shows it, if that was given: `branch`, `commit`, `base`, `pull_request`, " +
		"the number of `checks`, and of `checks_failed`"
	fieldIssue  = "issue the number of the issue, if the trigger is one"
	fieldCode   = "code the exit code of a process"
	fieldSignal = "signal the signal that ended a process, such as `SIGKILL`"
	fieldOutput = "last_output the last lines of the output"
	fieldSaid   = "announced whether the agent had reported `STOPPING=1`"
	fieldStatus = "status_text the last `STATUS=` of the agent"
	fieldErrno  = "errno the last `ERRNO=` of the agent"
	fieldLate   = "late `true` if it was observed later"
)

// commonFields returns the fields that many types share, each with one meaning.
func commonFields() []string {
	return []string{
		fieldError, fieldReason, fieldExit, fieldCode, fieldSignal, fieldOutput, fieldSaid, fieldStatus, fieldErrno,
		fieldLate,
		fieldUptime, fieldTook, fieldDecision, fieldDelay, fieldAttempt, fieldLimit, fieldFinished, fieldTrigger,
		fieldIssue,
	}
}

// Catalogue returns all types of events with their documentation. The log stores no others.
func Catalogue() []Section {
	return []Section{
		{"The daemon and the project", daemonEntries()},
		{"Agents: what their supervisor does and sees", childEntries()},
		{"Agents: what is asked of them, and what the daemon does", operationEntries()},
		{"Agents: what they ask for and say", agentEntries()},
		{"Agents of Aidefiles", aidefileEntries()},
		{"Quotas", quotaEntries()},
		{"Budgets", budgetEntries()},
		{"Costs", costEntries()},
		{"Notifications", notifyEntries()},
		{"Pools", poolEntries()},
		{"Supervisors", supervisorEntries()},
		{"Beliefs, tasks, mail and questions", recordEntries()},
		{"Orders", orderEntries()},
		{"The store, the log and the files of the daemon", storeEntries()},
	}
}

// retired maps types that earlier versions wrote or offered to the types that replace them.
func retired() map[Type]Type {
	return map[Type]Type{
		unknown:                AgentMisbehaved,
		"controller.adopted":   ControllerStarted,
		"config.loaded":        ControllerStarted,
		"agent.ready":          AgentStarted,
		"agent.restarting":     AgentCrashed,
		"agent.updated":        ConfigReloaded,
		"supervisor.escalated": SupervisorLimitReached,
		"supervisor.resumed":   AgentResumed,
	}
}

// unknown is the only retired type that the log of an earlier version may contain.
const unknown Type = "unknown"

// all returns the names of all types, in the order of the catalogue.
var all = sync.OnceValue(func() (names []string) {
	for _, s := range Catalogue() {
		for _, e := range s.Entries {
			names = append(names, string(e.Type))
		}
	}
	return names
})

var declared = sync.OnceValue(func() map[Type]bool {
	types := make(map[Type]bool)
	for _, name := range all() {
		types[Type(name)] = true
	}
	return types
})

// Types returns all types of events, in the order of the catalogue.
func Types() []string { return slices.Clone(all()) }

// Declared reports whether a type is in the catalogue.
func (t Type) Declared() bool { return declared()[t] }

func daemonEntries() []Entry {
	return []Entry{
		{ControllerStarted, "a daemon has started, and adopted the running agents of its predecessor",
			[]string{"pid its process", "adopted the number of adopted agents", "version its version"}},
		{ControllerStopped, "a daemon has shut down", nil},
		{NodeLost, "the lease of a node of the fleet has ended while agents had their place on it; they are started " +
			"elsewhere when they have had time to stop", []string{"node its name"}},
		{ConfigReloaded, "a changed configuration is in use", []string{
			"revision of the configuration", "added the number of new nodes", "removed the number of removed nodes",
			"renewed the number of restarted agents",
			"later the number of agents that restart when they have finished their work, or their limit has room",
			"amended the number of agents that changed without a restart",
			"paths the paths of each kind"}},
		{ConfigRejected, "a changed configuration has errors, and the last one stays in use",
			[]string{"revision of the rejected configuration", "reason the errors"}},
		{ProjectSuspended, "a person has suspended the project", nil},
		{ProjectResumed, "a person has resumed the project", nil},
		{AccessDenied, "an agent was refused a request that only people may make; at most once a minute for each",
			[]string{"pid the requesting process", "request the method and path",
				"times the number of refusals since the last such event"}},
	}
}

func childEntries() []Entry {
	exit := []string{fieldExit, fieldError}
	end := []string{fieldExit, fieldError, fieldUptime, fieldDecision, fieldReason, fieldDelay, fieldAttempt,
		fieldCode, fieldSignal, fieldOutput, fieldSaid, fieldStatus, fieldErrno, fieldLate}
	limit := []string{fieldLimit, fieldExit, fieldError}
	return []Entry{
		{AgentStarted, "an incarnation runs, and is ready",
			[]string{"restart whether it is a restart", fieldTook, fieldLate}},
		{AgentStartFailed, "an incarnation could not be started, or was not ready in time",
			[]string{fieldError, fieldDecision, fieldReason, fieldDelay, fieldAttempt, fieldTook}},
		{AgentIgnored, "the start reported that the agent is not needed now", nil},
		{AgentAdopted, "a running incarnation was adopted from a daemon that was killed", nil},
		{AgentLost, "an incarnation is gone, and left no record of its exit", end},
		{AgentExited, "an incarnation has exited cleanly on its own", end},
		{AgentCrashed, "an incarnation has failed; the decision is what follows", end},
		{AgentStopping, "the agent is asked to stop", []string{fieldReason}},
		{AgentStopped, "the agent has stopped after a stop request",
			[]string{fieldExit, fieldError, fieldReason, fieldUptime, fieldLate}},
		{AgentChanged, "a command has changed the state of an agent that does not run",
			[]string{"state the new state", fieldReason}},
		{AgentAbandoned, "an incarnation could not be killed, and was cut off",
			[]string{"waited_seconds the time of the wait"}},
		{AgentReturned, "an abandoned incarnation has ended", exit},
		{AgentMisbehaved, "stopping or killing an incarnation has panicked, which is a bug in Coppice",
			[]string{fieldError}},
		{AgentLimitReached, "a restart has reached a limit that escalates", limit},
		{AgentQuarantined, "a limit holds the restart until it has room again", append(limit,
			"until the end of the quarantine", "cause the reason for a restart that the quarantine delays")},
		{AgentGaveUp, "a limit holds the restart until the agent is reset", limit},
		{AgentReleased, "an agent that was held by a limit may start", []string{fieldReason}},
		{AgentWaiting, "the agent waits until a time, such as the reset of a quota, and no limit counts it", end},
	}
}

func operationEntries() []Entry {
	ladder := []string{"cause the timeout that has passed", fieldReason}
	return []Entry{
		{AgentStartRequested, "a person has asked for a start", nil},
		{AgentStopRequested, "a person has asked for a stop", nil},
		{AgentReset, "a person has reset the counters of an agent or a supervisor",
			[]string{"issues the number of issues that are handled again, of an agent of an Aidefile"}},
		{AgentSuspended, "an agent or a supervisor was suspended by a person, or by the file", nil},
		{AgentResumed, "a person has resumed an agent or a supervisor", nil},
		{AgentDraining, "the agent was asked to finish",
			[]string{fieldReason, "until the time at which it is stopped at the latest"}},
		{AgentFinished, "the agent reports that it has finished", nil},
		{AgentDrained, "a drain has ended, and the agent is stopped", []string{fieldFinished}},
		{AgentDrainEnded, "a drain has ended, and the agent continues or is restarted", []string{fieldFinished}},
		{AgentDrifted, "the agent runs with another configuration than declared, and is restarted", []string{
			fieldReason, "fields the changed fields", "within_seconds the time that it has to finish first"}},
		{AgentMoved, "the agent cannot stay on its node of the fleet, and is started again on another one", []string{
			fieldReason, "within_seconds the time that it has to finish first"}},
		{AgentRemoved, "the agent is no longer declared or needed by its pool, and was removed", nil},
		{AgentOverdue, "the agent did not stop in time, and is killed", []string{
			"path its path", "pid its process, 0 if that had ended", "waited_seconds the time of the wait"}},
		{AgentIdleKilled, "the agent was idle for longer than its `idle_timeout`, and is stopped", []string{
			"idle_seconds the idle time", "idle_timeout_seconds the allowed idle time"}},
		{AgentIdleUnknown, "the runtime of the agent cannot tell whether it is idle", []string{"runtime its runtime"}},
		{AgentUnresponsive, "the agent sent no heartbeat, or made no progress, within its timeout", append(ladder,
			"process the state of its process", "output_age_seconds the age of its last output",
			"claim its last progress report")},
		{AgentResponsive, "an agent that was unresponsive is responsive again", nil},
		{AgentNudged, "the agent was nudged", []string{"how the kind of nudge", "text its text", fieldError}},
		{AgentCondemned, "the agent is killed as a failure, because it stays unresponsive", ladder},
		{AgentHook, "a hook of the agent has run", hookFields()},
		{AgentHookFailed, "a hook of the agent has failed", append(hookFields(), fieldError)},
	}
}

func hookFields() []string {
	return []string{"hook its name", "seconds its duration", fieldOutput}
}

func agentEntries() []Entry {
	return []Entry{
		{AgentRestartRequested, "the agent, a person or an order has asked for a restart; see the actor",
			[]string{"reason the cause, if the agent has given one"}},
		{AgentRestartEnded, "the restart that an agent has asked for is done, or is no longer due", nil},
		{AgentClaimed, "the agent has reported an outcome of its work, which is not checked", []string{
			"kind of the outcome", "summary its summary", "revision the number of revisions", fieldEvidence}},
	}
}

func aidefileEntries() []Entry {
	return []Entry{
		{AgentFired, "a trigger starts a run of the agent",
			[]string{fieldTrigger, fieldIssue, "task the first line of its task"}},
		{AgentFireSkipped, "a trigger has fired, but no run starts",
			[]string{fieldTrigger, fieldIssue, fieldReason, "missed the number of missed times of a schedule"}},
		{AgentTriggerFailed, "a trigger cannot be checked, or can be checked again",
			[]string{fieldTrigger, fieldError, "recovered whether it can be checked again"}},
	}
}

func quotaEntries() []Entry {
	fields := []string{
		"pool its name: that of a [[quota]], a command line, or the path of an agent", "state of the pool",
		"obstacle that has closed it: usage_limit, authentication or billing", "error what was reported",
		"agent that has met it", "until when an agent may try", "reset when the limit ends, as was reported",
		"reset_from where that was reported"}
	return []Entry{
		{QuotaParked, "the quota of an account is used up: its agents wait", fields},
		{QuotaProbing, "an agent tries first whether the account serves again", fields},
		{QuotaOpened, "the account serves again, and its agents start", fields},
		{QuotaStopped, "an account has no valid login, or no money: its agents wait for a person", fields},
		{QuotaSwitched, "an agent goes on with another account", []string{"from the account that it used last",
			"to the one that it uses now", fieldReason}},
	}
}

func budgetEntries() []Entry {
	fields := []string{"budget its name", "per day, run or task", "used what is used of its limits",
		"raised how often it was raised today", "agents that it has parked, if it is per run",
		"tasks that it has parked, if it is per task"}
	return []Entry{
		{BudgetReached, "a budget is used up: what it covers is ended, and waits", fields},
		{BudgetRaised, "a person allows as much again", fields},
		{BudgetOpened, "a budget has room again, and its agents start", fields},
	}
}

func costEntries() []Entry {
	return []Entry{
		{CostCounted, "a call of a language model by an agent has ended, and what it has used is in the ledger",
			[]string{"cli its command line", "model that was called", "session of the command line",
				"task that the agent has worked at, and `attempt`: its number", "calls their number, if several " +
					"are counted at once",
				"usage what was used: `input`, `cache_read`, `cache_write` and `output` tokens, and `dollars` as the " +
					"command line estimates them; missing if that is not known"}},
	}
}

func notifyEntries() []Entry {
	return []Entry{
		{NotifySent, "a message to people was delivered", []string{"notify its [[notify]]", "via the way",
			"message `needs` or `report`", "id of the message", "needs how many needs of a person it lists"}},
		{NotifyFailed, "a message to people was not delivered, and is tried again", []string{"notify its [[notify]]",
			"via the way", fieldError, "failures since a message was delivered", "retry_at when it is tried again"}},
	}
}

func poolEntries() []Entry {
	return []Entry{
		{PoolScaled, "the desired number of instances has changed", []string{
			"from the number before", "to the number now", "answer of the check",
			"answered whether the check has answered"}},
		{PoolCheckFailed, "the check of a pool has failed, and the pool keeps its size",
			[]string{fieldError, "size the desired number of instances"}},
		{PoolCheckRecovered, "the check of a pool answers again", []string{"answer of the check"}},
		{PoolRetired, "the file no longer has the pool: its instances are asked to finish", nil},
		{PoolReturned, "the file has the pool again before its last instance has ended", nil},
		{PoolRemoved, "the last instance of a retired pool has ended", nil},
	}
}

// supervisorEntries returns the entries of agents for supervisors, and two that only supervisors
// have.
func supervisorEntries() (entries []Entry) {
	for _, e := range childEntries() {
		ofAgent := string(e.Type)
		ofSupervisor := "supervisor." + strings.TrimPrefix(ofAgent, "agent.")
		entries = append(entries, Entry{Type(ofSupervisor), "as `" + ofAgent + "`, of a supervisor", nil})
	}
	return append(entries,
		Entry{SupervisorPaused, "a limit has paused the supervisor: nothing below it starts until a person resumes it",
			[]string{fieldLimit, fieldExit, fieldError}},
		Entry{SupervisorEnded, "the root has ended", []string{fieldExit, fieldError}})
}

func recordEntries() []Entry {
	task := []string{
		"id of the task", "title its title", "status its status", "priority its priority", "type its type",
		"pool and `assignee`, `parent`, `labels`, `origin`: the task's, if it has them",
		"outcome of a task that is closed"}
	ended := append(slices.Clone(task), "attempt number of the attempt that has ended, if one has",
		"attempt_began_at when it has begun",
		"attempt_outcome its outcome, and `obstacle`: the kind of what prevented it", fieldEvidence,
		"not_before the time until which the task waits, if it does")
	question := []string{"id of the question", "question its first line"}
	count := []string{"count their number"}
	pool := []string{"pool its name", "state of its tasks: open, paused or probes",
		"probe_at when a task is tried without a person, if it is"}
	return []Entry{
		{BeliefChanged, "a person has changed beliefs of an agent; changes by the agent itself make no events",
			[]string{"set the names of the changed beliefs", "removed the names of the removed beliefs"}},
		{BeliefUnusable, "a stored belief cannot be read, or has another type than declared",
			[]string{"name of the belief"}},
		{TaskCreated, "a task was created", task},
		{TaskEdited, "a task was changed", task},
		{TaskCommented, "a task got a comment", task},
		{TaskClaimed, "an agent has claimed a task", task},
		{TaskReleased, "an attempt at a task has ended without a result; the task is back in the queue, maybe from " +
			"a time on", ended},
		{TaskBlocked, "an attempt at a task has ended: the task is blocked until a condition holds", ended},
		{TaskDecomposed, "an attempt at a task has ended: the task was divided into subtasks", ended},
		{TaskEscalated, "a task waits for the decision of a person", ended},
		{TaskParked, "the attempts at a task have failed too often; it waits for a person", ended},
		{TaskClosed, "a task was closed", ended},
		{TaskReopened, "a closed task was opened again", task},
		{TaskPoolPaused, "no task of a pool is claimed: too many have failed, or a person has paused it", pool},
		{TaskPoolResumed, "the tasks of a pool are claimed again: all of them, or one first, which decides", pool},
		{TaskImported, "tasks were imported", count},
		{TaskPurged, "tasks that were closed long ago were removed", count},
		{MailSent, "a message was sent", []string{
			"id of the message", "from the sender", "to the recipient", "subject its subject",
			"size of its text in bytes"}},
		{QuestionAsked, "an agent asks people", append(question,
			"options the answers to choose from", "deadline of the question", "default the answer at the deadline")},
		{QuestionAnswered, "a question was answered, by a person or by its default at its deadline", append(question,
			"by the person, or `deadline`", "answer the answer, if it is one of the options")},
		{QuestionExpired, "the deadline of a question has passed without an answer", question},
		{QuestionWithdrawn, "an agent has withdrawn a question", question},
	}
}

func orderEntries() []Entry {
	run := []string{"order its name", "run the run's name", "attempt of the run, from 1", "reason for the run",
		"events the number of events that have fired it", "causes orders that have led to the run"}
	over := append(slices.Clone(run), "status of the run", "again true if another attempt follows",
		"duration_ms its duration", "started_at when its attempt has begun", "ended_at when that has ended", fieldCode,
		fieldSignal, fieldError, "task the created task")
	return []Entry{
		{OrderFired, "a run of an order starts", run},
		{OrderCompleted, "a run of an order has succeeded", over},
		{OrderFailed, "an attempt of a run has failed; another one may follow", over},
		{OrderSkipped, "an order was due, but did not fire", []string{"order its name", "reason for that"}},
		{OrderPaced, "events fire an order too often, and fire it at a slower pace from now on",
			[]string{"order its name", "reason the pace"}},
	}
}

func storeEntries() []Entry {
	const again = " was removed while it was in use, and was created again"
	degraded := []string{fieldError, "since the start of the outage"}
	cursor := []string{"after the reader's cursor", "until the last event that is no longer kept, 0 if there is none"}
	return []Entry{
		{SocketRestored, "the socket of the daemon" + again, nil},
		{LockRestored, "the lock file of the daemon" + again, nil},
		{SlotRestored, "a file of the slot of an agent" + again, nil},
		{StoreRestored, "the file of the store was created again, or a backup was restored", nil},
		{StoreDegraded, "the store accepts no writes; events are kept in memory", degraded},
		{StoreDamaged, "records in the store are lost", nil},
		{StoreRecovered, "the store accepts writes again", degraded},
		{EventsLost, "events are missing here, because too many came at once", []string{"count their number"}},
		{EventsDropped, "events were never written, because the store accepted none",
			[]string{"count their number", "first the time of the first one", "last the time of the last one"}},
		{EventsCompacted, "the events after a reader's cursor are no longer kept", cursor},
		{EventsReset, "the cursor of a reader is from another log", cursor},
		{Unreadable, "the record of an event is damaged", nil},
		{Unnamed, "an event has no type of this list, which is a bug in Coppice", nil},
	}
}

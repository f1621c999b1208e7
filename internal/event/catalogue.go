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
	fieldAttempt  = "attempt which restart it is since the last success, from 1"
	fieldExit     = "exit how it ended: `normal`, `shutdown`, `failure`, `killed`, `abandoned` or `lost`"
	fieldError    = "error the error, for people"
	fieldUptime   = "uptime_seconds how long it had run"
	fieldLimit    = "limit the limit that was reached"
	fieldFinished = "finished whether the agent has said that it has finished"
	fieldTrigger  = "trigger the kind of the trigger"
	fieldIssue    = "issue the number of the issue, if the trigger is one"
	fieldCode     = "code the exit code of a process"
	fieldSignal   = "signal the signal that ended a process, such as `SIGKILL`"
	fieldOutput   = "last_output the last lines of the output"
	fieldSaid     = "announced whether the agent had said that it stops"
	fieldStatus   = "status_text what the agent said of itself last"
	fieldErrno    = "errno the error number that the agent said last"
	fieldLate     = "late `true` if it was noticed later"
)

// commonFields returns the fields that many types share, each with one meaning.
func commonFields() []string {
	return []string{
		fieldError, fieldReason, fieldExit, fieldCode, fieldSignal, fieldOutput, fieldSaid, fieldStatus, fieldErrno,
		fieldLate,
		fieldUptime, fieldDecision, fieldDelay, fieldAttempt, fieldLimit, fieldFinished, fieldTrigger, fieldIssue,
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
		{ControllerStarted, "a daemon starts, and has taken over the agents of its predecessor that run",
			[]string{"pid its process", "adopted how many agents it has taken over", "version its version"}},
		{ControllerStopped, "a daemon ends in order", nil},
		{ConfigReloaded, "a changed configuration is in force", []string{
			"revision the configuration's", "added how many nodes are new", "removed how many are gone",
			"renewed how many agents were restarted",
			"later how many restart when they have finished their work, or their limit has room",
			"amended how many changed without a restart",
			"paths the paths of each kind"}},
		{ConfigRejected, "a changed configuration has errors, and the last one stays in force",
			[]string{"revision the rejected one's", "reason the errors"}},
		{ProjectSuspended, "a person has suspended the project", nil},
		{ProjectResumed, "a person has resumed the project", nil},
		{AccessDenied, "an agent has asked for what only people may do; once a minute for each request", []string{
			"pid the process that asked", "request the method and path", "times how often since the last such event"}},
	}
}

func childEntries() []Entry {
	exit := []string{fieldExit, fieldError}
	end := []string{fieldExit, fieldError, fieldUptime, fieldDecision, fieldReason, fieldDelay, fieldAttempt,
		fieldCode, fieldSignal, fieldOutput, fieldSaid, fieldStatus, fieldErrno, fieldLate}
	limit := []string{fieldLimit, fieldExit, fieldError}
	return []Entry{
		{AgentStarted, "an incarnation runs, and is ready",
			[]string{"restart whether it is a restart", fieldLate}},
		{AgentStartFailed, "an incarnation could not be started, or was not ready in time",
			[]string{fieldError, fieldDecision, fieldReason, fieldDelay, fieldAttempt}},
		{AgentIgnored, "a start found that the agent is not needed now", nil},
		{AgentAdopted, "an incarnation ran already, and was taken over from a daemon that was killed", nil},
		{AgentLost, "an incarnation should have run, and has left nothing", end},
		{AgentExited, "an incarnation ended well, unasked", end},
		{AgentCrashed, "an incarnation ended as a failure; the decision says what follows", end},
		{AgentStopping, "the agent is asked to stop", []string{fieldReason}},
		{AgentStopped, "the agent has stopped as it was asked to",
			[]string{fieldExit, fieldError, fieldReason, fieldLate}},
		{AgentChanged, "a command has changed the state of an agent that does not run",
			[]string{"state the new state", fieldReason}},
		{AgentAbandoned, "an incarnation could not be killed, and was cut off",
			[]string{"waited_seconds how long it was waited for"}},
		{AgentReturned, "an abandoned incarnation has ended after all", exit},
		{AgentMisbehaved, "stopping or killing an incarnation has panicked, which is a mistake in Coppice",
			[]string{fieldError}},
		{AgentLimitReached, "a restart was one too many for a limit that escalates", limit},
		{AgentQuarantined, "a limit holds the restart until it has room again", append(limit,
			"until the end of the quarantine", "cause why the patrol may not restart it")},
		{AgentGaveUp, "a limit holds the restart until the agent is reset", limit},
		{AgentReleased, "an agent that was held by a limit may start", []string{fieldReason}},
	}
}

func operationEntries() []Entry {
	ladder := []string{"cause what has run out", fieldReason}
	return []Entry{
		{AgentStartRequested, "a person has asked for a start", nil},
		{AgentStopRequested, "a person has asked for a stop", nil},
		{AgentReset, "a person has reset the counters of an agent or a supervisor",
			[]string{"issues how many issues are taken again, of an agent of an Aidefile"}},
		{AgentSuspended, "an agent or a supervisor was suspended by a person, or by the file", nil},
		{AgentResumed, "a person has resumed an agent or a supervisor", nil},
		{AgentDraining, "the agent was asked to finish",
			[]string{fieldReason, "until when it is stopped at the latest"}},
		{AgentFinished, "the agent says that it has finished what it was asked to", nil},
		{AgentDrained, "a drain has ended, and the agent is stopped", []string{fieldFinished}},
		{AgentDrainEnded, "a drain has ended, and the agent goes on or is started again", []string{fieldFinished}},
		{AgentDrifted, "the agent is not as it is declared, and is started again", []string{
			fieldReason, "fields what has changed", "within_seconds how long it may take to finish first"}},
		{AgentRemoved, "the agent is no longer in the file or wanted by its pool, and is gone", nil},
		{AgentOverdue, "the agent did not stop in time, and is killed", []string{
			"path its path", "pid its process, 0 if that had ended", "waited_seconds how long it was waited for"}},
		{AgentIdleKilled, "the agent was idle for longer than its `idle_timeout`, and is stopped", []string{
			"idle_seconds how long it was idle", "idle_timeout_seconds how long it may be"}},
		{AgentIdleUnknown, "the runtime of the agent cannot tell whether it is idle", []string{"runtime its runtime"}},
		{AgentUnresponsive, "the agent was silent, or made no progress, for longer than it may", append(ladder,
			"process what its process does", "output_age_seconds how old its last output is",
			"claim what it last said of its progress")},
		{AgentResponsive, "an agent that was unresponsive gets on again", nil},
		{AgentNudged, "the agent was nudged", []string{"how the way", "text the words", fieldError}},
		{AgentCondemned, "the agent is ended as a failure, since it does not get on", ladder},
		{AgentHook, "a hook of the agent has run", hookFields()},
		{AgentHookFailed, "a hook of the agent has failed", append(hookFields(), fieldError)},
	}
}

func hookFields() []string {
	return []string{"hook its name", "seconds how long it took", fieldOutput}
}

func agentEntries() []Entry {
	return []Entry{
		{AgentRestartRequested, "the agent, a person or an order has asked for a restart; the actor says which",
			[]string{"reason the cause, if the agent has given one"}},
		{AgentRestartEnded, "the restart that an agent has asked for is done, or is no longer due", nil},
		{AgentClaimed, "the agent has stated an outcome of its work, which is not checked", []string{
			"kind of the outcome", "summary its summary", "revision how often it was revised"}},
	}
}

func aidefileEntries() []Entry {
	return []Entry{
		{AgentFired, "a trigger starts a run of the agent",
			[]string{fieldTrigger, fieldIssue, "task the first line of its task"}},
		{AgentFireSkipped, "a trigger has fired, and no run starts",
			[]string{fieldTrigger, fieldIssue, fieldReason, "missed how many times of a schedule have passed"}},
		{AgentTriggerFailed, "a trigger cannot be looked at, or can be again",
			[]string{fieldTrigger, fieldError, "recovered whether it can be looked at again"}},
	}
}

func poolEntries() []Entry {
	return []Entry{
		{PoolScaled, "another number of instances is wanted", []string{
			"from the number before", "to the number now", "answer what the check said",
			"answered whether it has said anything"}},
		{PoolCheckFailed, "the check of a pool has failed, and the pool keeps its size",
			[]string{fieldError, "size how many instances are wanted"}},
		{PoolCheckRecovered, "the check of a pool answers again", []string{"answer its answer"}},
		{PoolRetired, "the file no longer has the pool: its instances are asked to finish", nil},
		{PoolReturned, "the file has the pool again before it was gone", nil},
		{PoolRemoved, "the last instance of a retired pool is gone", nil},
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
		Entry{SupervisorPaused, "a limit lets nothing start below the supervisor until a person resumes it",
			[]string{fieldLimit, fieldExit, fieldError}},
		Entry{SupervisorEnded, "the root has ended", []string{fieldExit, fieldError}})
}

func recordEntries() []Entry {
	task := []string{
		"id of the task", "title its title", "status its status", "priority its priority", "type its type",
		"pool and `assignee`, `parent`, `labels`, `origin`: the task's, if it has them",
		"outcome of a task that is closed"}
	question := []string{"id of the question", "question its first line"}
	count := []string{"count how many"}
	return []Entry{
		{BeliefChanged, "a person has changed beliefs of an agent; changes by the agent are no events",
			[]string{"set the names of those that were set", "removed the names of those that were removed"}},
		{BeliefUnusable, "a belief is kept, and cannot be read or is of another type now",
			[]string{"name of the belief"}},
		{TaskCreated, "a task was created", task},
		{TaskEdited, "a task was changed", task},
		{TaskCommented, "a task got a comment", task},
		{TaskClaimed, "an agent has claimed a task", task},
		{TaskReleased, "a claimed task is open again: it was given back, or its agent has ended", task},
		{TaskParked, "the claims of a task have failed too often, and a person has to look at it", task},
		{TaskClosed, "a task was closed", task},
		{TaskReopened, "a closed task was opened again", task},
		{TaskImported, "tasks were imported", count},
		{TaskPurged, "tasks that had ended long ago were removed", count},
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
	run := []string{"order its name", "run the run's name", "attempt of the run, from 1", "reason why it was fired",
		"events how many events have fired it", "causes orders that have led to the run"}
	over := append(slices.Clone(run), "status of the run", "again true if another attempt follows",
		"duration_ms how long it took", fieldCode, fieldSignal, fieldError, "task the task that it has made")
	return []Entry{
		{OrderFired, "a run of an order starts", run},
		{OrderCompleted, "a run of an order has succeeded", over},
		{OrderFailed, "an attempt of a run has failed; another one may follow", over},
		{OrderSkipped, "an order was due, and did not fire", []string{"order its name", "reason why it did not"}},
		{OrderPaced, "events have fired an order so often that they fire it at a slower pace from now on",
			[]string{"order its name", "reason what the pace is"}},
	}
}

func storeEntries() []Entry {
	const again = " was removed while it was in use, and was made again"
	degraded := []string{fieldError, "since when"}
	cursor := []string{"after the reader's cursor", "until the last event that is no longer kept, 0 if there is none"}
	return []Entry{
		{SocketRestored, "the socket of the daemon" + again, nil},
		{LockRestored, "the lock file of the daemon" + again, nil},
		{SlotRestored, "a file of the slot of an agent" + again, nil},
		{StoreRestored, "the file of the store was made again, or a backup was restored", nil},
		{StoreDegraded, "the store takes no writes; events are kept in memory", degraded},
		{StoreDamaged, "some of what was in the store is lost", nil},
		{StoreRecovered, "the store takes writes again", degraded},
		{EventsLost, "too many events came at once, and some are missing here", []string{"count how many"}},
		{EventsDropped, "events were never written, since the store took none",
			[]string{"count how many", "first the time of the first one", "last the time of the last one"}},
		{EventsCompacted, "a reader has come too late: the events after its cursor are no longer kept", cursor},
		{EventsReset, "the log is not the one that the reader's cursor is from", cursor},
		{Unreadable, "the record of an event is damaged, or is not one", nil},
		{Unnamed, "an event has no type of this list, which is a mistake in Coppice", nil},
	}
}

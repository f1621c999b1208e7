package metrics

import dto "github.com/prometheus/client_model/go"

// Metric documents a metric.
type Metric struct {
	Name   string
	Type   dto.MetricType
	Labels []string
	Help   string
}

// Section is a group of metrics with a title.
type Section struct {
	Title   string
	Metrics []Metric
}

// id is the place of a metric in the catalogue.
type id int

// Metrics, in the order of the catalogue.
const (
	buildInfo id = iota
	upSince
	reconcileLast
	reconcileDuration
	eventsTotal
	eventsDropped
	storeWritable
	storeBytes
	storeWrite
	storeTransactions
	storeRecords
	storeWritten
	fleetNodes
	nodeAgents

	agents
	agentsUnresponsive
	agentUp
	agentStarted
	agentProgress
	agentMemory
	agentCPU
	agentStarts
	agentStartFailures
	agentExits
	agentInWindow
	agentLimit
	supervisorInWindow
	supervisorLimit
	limitsReached
	restartDelay
	recovery

	tokens
	dollars
	calls
	unmeasured
	unpriced
	unknownStream

	budgetReached
	budgetRemaining
	quotaOpen
	quotaRetry
	quotaWaiting
	quotaUsed
	quotaReset

	questionsOpen
	questionOldest
	tasks
	ordersFailed
	orderSuccess

	metricCount
)

const (
	counter   = dto.MetricType_COUNTER
	gauge     = dto.MetricType_GAUGE
	histogram = dto.MetricType_HISTOGRAM
)

// Names of labels.
const (
	labelAgent      = "agent"
	labelSupervisor = "supervisor"
	labelAccount    = "account"
	labelOrder      = "order"
	labelNode       = "node"
)

// Catalogue returns all metrics except those of the Go runtime and of the process.
func Catalogue() []Section {
	c := catalogue()
	return []Section{
		{"The daemon", c[buildInfo:agents]},
		{"Agents and supervisors", c[agents:tokens]},
		{"Calls of language models", c[tokens:budgetReached]},
		{"Budgets and quotas", c[budgetReached:questionsOpen]},
		{"Questions, tasks and orders", c[questionsOpen:]},
	}
}

// catalogue returns the metrics by their ids.
func catalogue() []Metric {
	agent, supervisor, account := []string{labelAgent}, []string{labelSupervisor}, []string{labelAccount}
	window, order := []string{labelAccount, "window"}, []string{labelOrder}
	all := [metricCount]Metric{
		buildInfo: {"coppice_build_info", gauge, []string{"version", "go_version", "project"},
			"Always 1. The labels are the version of the daemon, that of Go, and the name of the project."},
		upSince: {"coppice_up_since_timestamp_seconds", gauge, nil,
			"When the daemon has started. All counters begin at 0 then."},
		reconcileLast: {"coppice_reconcile_last_timestamp_seconds", gauge, nil,
			"When the last reconciliation pass has ended. Missing before the first."},
		reconcileDuration: {"coppice_reconcile_duration_seconds", histogram, nil,
			"Duration of reconciliation passes. Actions go on after the pass that has begun them."},
		eventsTotal: {"coppice_events_total", counter, []string{"type"}, "Events that were written to the event log."},
		eventsDropped: {"coppice_events_dropped_total", counter, nil,
			"Events that were never written, because the store accepted none or too many came at once."},
		storeWritable: {"coppice_store_writable", gauge, nil,
			"Whether the store accepts writes, 1 or 0, as the last write has found it."},
		storeBytes: {"coppice_store_bytes", gauge, nil,
			"Size of the file of the store with its write-ahead log. Missing for a store in memory."},
		storeWrite: {"coppice_store_write_seconds", histogram, nil,
			"Duration of the writes of the store, each of which keeps all changes that came during the one before. " +
				"Nothing is counted for a store in memory."},
		storeTransactions: {"coppice_store_transactions_total", counter, nil,
			"Transactions that the daemon has written to the store, each of one or more records."},
		storeRecords: {"coppice_store_records_total", counter, nil,
			"Records that these have put, appended or deleted."},
		storeWritten: {"coppice_store_written_bytes_total", counter, nil,
			"Bytes of the keys and values of these records. What the store writes beyond that is not counted."},
		fleetNodes: {"coppice_nodes", gauge, []string{"state"},
			"Nodes of the fleet by state: ready, draining, lost or joined. Missing on one machine."},
		nodeAgents: {"coppice_node_agents", gauge, []string{labelNode},
			"Agents that run on the node, or have run there last. Missing on one machine."},

		agents: {"coppice_agents", gauge, []string{"state"}, "Agents by state, as coppice status counts them."},
		agentsUnresponsive: {"coppice_agents_unresponsive", gauge, nil,
			"Agents that have sent no heartbeat, or made no progress, within their timeout."},
		agentUp: {"coppice_agent_up", gauge, agent, "Whether the agent is running, 1 or 0."},
		agentStarted: {"coppice_agent_start_timestamp_seconds", gauge, agent,
			"When the running incarnation was started. Missing while none runs."},
		agentProgress: {"coppice_agent_last_progress_timestamp_seconds", gauge, agent,
			"When the agent has reported progress last. Missing for agents that report none."},
		agentMemory: {"coppice_agent_memory_bytes", gauge, agent,
			"Resident memory of the agent and all its descendants, as measured after the scrape before. Missing " +
				"while it does not run."},
		agentCPU: {"coppice_agent_cpu_seconds_total", counter, agent,
			"Processor time of the agent and all its descendants. Processes that end between two measurements are " +
				"counted as far as they were measured."},
		agentStarts: {"coppice_agent_starts_total", counter, []string{labelAgent, "reason"},
			"Incarnations that became ready, by reason: start, restart, or adoption from an earlier daemon."},
		agentStartFailures: {"coppice_agent_start_failures_total", counter, agent,
			"Incarnations that could not be started, or were not ready in time."},
		agentExits: {"coppice_agent_exits_total", counter, []string{labelAgent, "outcome"},
			"Ends of incarnations, by outcome: exited (clean), crashed, lost, stopped, waiting or abandoned."},
		agentInWindow: {"coppice_agent_restarts_in_window", gauge, agent,
			"What the limit of the agent counts now. Missing for agents without a limit of their own."},
		agentLimit: {"coppice_agent_restarts_limit", gauge, agent,
			"What the limit of the agent allows. Missing for agents without a limit of their own."},
		supervisorInWindow: {"coppice_supervisor_restarts_in_window", gauge, supervisor,
			"What the limit that the children of the supervisor share counts now. Missing if they share none."},
		supervisorLimit: {"coppice_supervisor_restarts_limit", gauge, supervisor,
			"What that limit allows. Missing if the children share none."},
		limitsReached: {"coppice_limits_reached_total", counter, []string{labelSupervisor, "on_limit"},
			"Limits of restarts that were reached, by what follows: escalate, quarantine, give_up or pause. " +
				"The supervisor is that of the agent, or the one that has reached a limit itself."},
		restartDelay: {"coppice_restart_delay_seconds", histogram, nil,
			"Delays before restarts, as decided after an exit."},
		recovery: {"coppice_recovery_seconds", histogram, nil,
			"Time from the crash of an agent until it was ready again. Stops and waits for a quota do not count."},

		tokens: {"coppice_tokens_total", counter, []string{labelAgent, "model", "type"},
			"Tokens of calls that have ended, by type: input, output, cache_read or cache_write."},
		dollars: {"coppice_cost_usd_total", counter, []string{labelAgent, "model"},
			"Dollars of calls that have ended, as their command lines estimate them."},
		calls: {"coppice_calls_total", counter, agent, "Calls of command lines of language models that have ended."},
		unmeasured: {"coppice_unmeasured_calls_total", counter, agent,
			"Calls whose tokens are not known. They are not in coppice_tokens_total."},
		unpriced: {"coppice_unpriced_calls_total", counter, agent,
			"Calls whose dollars are not known. They are not in coppice_cost_usd_total."},
		unknownStream: {"coppice_unknown_stream_events_total", counter, []string{"cli", "version"},
			"Objects in the output of command lines of language models whose kind is not known."},

		budgetReached: {"coppice_budget_reached", gauge, []string{"budget"}, "Whether the budget is used up, 1 or 0."},
		budgetRemaining: {"coppice_budget_remaining_ratio", gauge, []string{"budget", "limit"},
			"What is left of a limit of the budget, from 0 to 1, as far as its use is known."},
		quotaOpen: {"coppice_quota_open", gauge, account, "Whether agents may use the account, 1 or 0."},
		quotaRetry: {"coppice_quota_retry_timestamp_seconds", gauge, account,
			"When an agent tries the account again. Missing while it is open, or waits for a person."},
		quotaWaiting: {"coppice_quota_agents_waiting", gauge, account, "Agents that wait for the account."},
		quotaUsed: {"coppice_quota_used_ratio", gauge, window,
			"Share of a limit of the account that is used, from 0 to 1. Missing if it is not known."},
		quotaReset: {"coppice_quota_reset_timestamp_seconds", gauge, window,
			"When that limit of the account resets, as reported."},

		questionsOpen: {"coppice_questions_open", gauge, nil, "Questions to people without an answer."},
		questionOldest: {"coppice_question_oldest_timestamp_seconds", gauge, nil,
			"When the oldest open question was asked. Missing if none is open."},
		tasks: {"coppice_tasks", gauge, []string{"status"}, "Tasks by status."},
		ordersFailed: {"coppice_orders_failed_total", counter, order,
			"Attempts of runs of the order that have failed."},
		orderSuccess: {"coppice_order_last_success_timestamp_seconds", gauge, order,
			"When a run of the order has completed last. Missing if none is known."},
	}
	return all[:]
}

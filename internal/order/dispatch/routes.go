package dispatch

import (
	"time"

	"github.com/coppice-dev/coppice/internal/api"
)

// The routes of orders.
var (
	// List returns all orders, sorted by name.
	List = api.Route[api.None, []Info]{
		Method: "GET", Path: "/orders", For: api.People,
		ID: "orders", Summary: "All orders",
		Doc:     "By name.",
		Returns: "The orders.",
	}
	// Get returns an order.
	Get = api.Route[Name, Info]{
		Method: "GET", Path: "/order", For: api.People,
		ID: "order", Summary: "One order",
		Doc:     "With its gates and its last run.",
		Returns: "The order.",
	}
	// Check runs the check of an order and returns the order with the output of the check.
	Check = api.Route[Name, Info]{
		Method: "GET", Path: "/order/check", For: api.People,
		ID: "checkOrder", Summary: "Whether an order is due",
		Doc:     "This runs its check, if it has one. Nothing is fired.",
		Returns: "The order, and the output of its check.",
	}
	// Next returns when an order fires next.
	Next = api.Route[NextRequest, Times]{
		Method: "GET", Path: "/order/next", For: api.People,
		ID: "nextOrder", Summary: "When an order fires next",
		Doc:     "It is a conflict if the clock does not decide that.",
		Returns: "The times.",
	}
	// Runs returns the last runs of an order, newest first.
	Runs = api.Route[RunsRequest, []RunInfo]{
		Method: "GET", Path: "/order/runs", For: api.People,
		ID: "orderRuns", Summary: "The last runs of an order",
		Doc:     "The newest first, with their output.",
		Returns: "The runs.",
	}
	// GetRun returns a run, on request when it has ended.
	GetRun = api.Route[RunRequest, RunInfo]{
		Method: "GET", Path: "/order/run", For: api.People, Slow: true,
		ID: "orderRun", Summary: "One run",
		Doc:     "With its output.",
		Returns: "The run.",
	}
	// Act fires, stops, enables or disables an order.
	Act = api.Route[ActRequest, ActResult]{
		Method: "POST", Path: "/order/act", For: api.People,
		ID: "actOnOrder", Summary: "Run, stop, enable or disable an order",
		Doc:     "The answer does not wait for the end of a run.",
		Returns: "The result.",
	}
)

// Name names an order.
type Name struct {
	Name string `json:"name" maxLength:"1024" doc:"The order."`
}

// NextRequest asks for the next times of an order.
type NextRequest struct {
	Name  string `json:"name" maxLength:"1024" doc:"The order."`
	Count uint64 `json:"count,omitempty" doc:"How many times, 1000 at most; 5 if it is 0."`
}

// RunsRequest asks for the last runs of an order.
type RunsRequest struct {
	Name  string `json:"name" maxLength:"1024" doc:"The order."`
	Count uint64 `json:"count,omitempty" doc:"How many, 1000 at most; 20 if it is 0."`
}

// RunRequest asks for a run.
type RunRequest struct {
	ID   string `json:"id" maxLength:"1024" doc:"The run, such as r-7."`
	Wait bool   `json:"wait,omitempty" doc:"Answer when it has ended for good."`
}

// Info describes an order.
type Info struct {
	_ struct{} `schema:"Order" doc:"A command or a task that waits for its gates, and its state."`

	Name        string     `json:"name" doc:"Its name."`
	Description string     `json:"description,omitempty" doc:"Its purpose."`
	Exec        []string   `json:"exec,omitempty" doc:"The command that it runs."`
	Task        string     `json:"task,omitempty" doc:"The title of the task that it creates."`
	Pool        string     `json:"pool,omitempty" doc:"The pool of that task."`
	Match       string     `json:"match" doc:"Whether any or all of the gates must be open."`
	Gates       []GateInfo `json:"gates" doc:"Its gates."`
	Enabled     bool       `json:"enabled" doc:"Its gates may fire it."`
	ByHand      string     `json:"by_hand,omitempty" doc:"enabled or disabled, if a person has decided that."`
	Due         bool       `json:"due" doc:"It would fire now."`
	Reason      string     `json:"reason" doc:"Why it is due, or not."`
	NextAt      *time.Time `json:"next_at,omitempty" doc:"When the clock may open it next."`
	Running     int        `json:"running" minimum:"0" doc:"The number of its runs in progress."`
	Pending     int        `json:"pending" minimum:"0" doc:"The number of events that wait for its next run."`
	Runs        uint64     `json:"runs" doc:"The number of runs so far."`
	Skips       uint64     `json:"skips" doc:"The number of skipped firings."`
	Skipped     string     `json:"skipped,omitempty" doc:"Why it was skipped last."`
	SkippedAt   *time.Time `json:"skipped_at,omitempty" doc:"When it was skipped last."`
	Last        *RunInfo   `json:"last,omitempty"`
	Overlap     string     `json:"overlap" doc:"What happens if it fires during a run: skip, queue or allow."`
	CatchUp     bool       `json:"catch_up" doc:"Missed times are made up for by one run."`
	Timeout     float64    `json:"timeout_seconds" doc:"How long a run may take."`
	Retries     int        `json:"retries" minimum:"0" doc:"How often a failed run is tried again."`
	Dir         string     `json:"dir" doc:"Its working directory."`
	Source      string     `json:"source" doc:"Its place in a file: file:line:column."`
	Said        []string   `json:"said,omitempty" doc:"The output of its check."`
}

// GateInfo describes a gate of an order.
type GateInfo struct {
	_ struct{} `schema:"OrderGate" doc:"A gate of an order."`

	Kind   string     `json:"kind" doc:"cooldown, cron, condition, event or manual. Readers must expect others."`
	Text   string     `json:"text" doc:"The gate in words."`
	Open   bool       `json:"open" doc:"It is open."`
	Reason string     `json:"reason" doc:"Why it is, or not."`
	NextAt *time.Time `json:"next_at,omitempty" doc:"When the clock opens it next."`
}

// RunInfo describes a run of an order.
type RunInfo struct {
	_ struct{} `schema:"OrderRun" doc:"A run of an order."`

	ID        string     `json:"id" doc:"Such as r-7."`
	Order     string     `json:"order" doc:"Its order."`
	Status    string     `json:"status" doc:"running, retrying, completed, failed, timed out, stopped or interrupted. Readers must expect others."`
	Reason    string     `json:"reason" doc:"Why it was fired."`
	By        string     `json:"by,omitempty" doc:"The person or order that fired it; missing if its gates did."`
	Attempt   int        `json:"attempt" doc:"The last attempt, from 1."`
	FiredAt   time.Time  `json:"fired_at" doc:"When it was fired."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"When the last attempt began."`
	EndedAt   *time.Time `json:"ended_at,omitempty" doc:"When that ended."`
	RetryAt   *time.Time `json:"retry_at,omitempty" doc:"When the next one begins."`
	Duration  float64    `json:"duration_seconds" doc:"How long the last attempt took."`
	Code      *int       `json:"code,omitempty" doc:"Its exit code, if it has one."`
	Signal    string     `json:"signal,omitempty" doc:"The signal that ended it, if one did."`
	Error     string     `json:"error,omitempty" doc:"Why it has not completed."`
	Task      string     `json:"task,omitempty" doc:"The task that it has created."`
	Events    int        `json:"events,omitempty" minimum:"0" doc:"The number of events that were passed to it."`
	Output    []string   `json:"output,omitempty" doc:"The last lines of its output."`
}

// Times are the next times at which an order fires.
type Times struct {
	_ struct{} `schema:"OrderTimes" doc:"When an order fires next."`

	Times []time.Time `json:"times" doc:"In order."`
}

// Action is an action on an order.
type Action string

// Actions on an order.
const (
	RunOrder     Action = "run"     // fire it, whatever its gates say
	StopOrder    Action = "stop"    // stop its runs
	EnableOrder  Action = "enable"  // let its gates fire it
	DisableOrder Action = "disable" // let only people fire it
)

// Actions returns all actions.
func Actions() []Action { return []Action{RunOrder, StopOrder, EnableOrder, DisableOrder} }

// ActRequest asks for an action on an order.
type ActRequest struct {
	_ struct{} `schema:"OrderAct" doc:"An action on an order."`

	Name   string `json:"name" doc:"The order."`
	Action Action `json:"action" doc:"run, stop, enable or disable."`
	By     string `json:"by,omitempty" doc:"Name of the person who asks."`
}

// ActResult is the result of an action on an order.
type ActResult struct {
	_ struct{} `schema:"OrderActed" doc:"The result of an action on an order."`

	Run     string `json:"run,omitempty" doc:"The run that began."`
	Queued  bool   `json:"queued,omitempty" doc:"It runs when the run in progress has ended."`
	Stopped int    `json:"stopped,omitempty" minimum:"0" doc:"The number of runs that were asked to stop."`
}

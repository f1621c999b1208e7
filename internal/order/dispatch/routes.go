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
		Doc:     "What is known of it.",
		Returns: "The order.",
	}
	// Check runs the check of an order and returns the order with the output of the check.
	Check = api.Route[Name, Info]{
		Method: "GET", Path: "/order/check", For: api.People,
		ID: "checkOrder", Summary: "Whether an order is due",
		Doc:     "Its check is run for that, if it has one. Nothing is fired.",
		Returns: "The order, and what its check has said.",
	}
	// Next returns when an order fires next.
	Next = api.Route[NextRequest, Times]{
		Method: "GET", Path: "/order/next", For: api.People,
		ID: "nextOrder", Summary: "When an order fires next",
		Doc:     "As far as the clock decides that; if it does not, that is a conflict.",
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
		ID: "actOnOrder", Summary: "Do something with an order",
		Doc:     "Its answer does not wait for the end of a run.",
		Returns: "What has come of it.",
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
	_ struct{} `schema:"Order" doc:"A command or a task that waits for its gates, and how it gets on."`

	Name        string     `json:"name" doc:"Its name."`
	Description string     `json:"description,omitempty" doc:"What it is for."`
	Exec        []string   `json:"exec,omitempty" doc:"What it runs."`
	Task        string     `json:"task,omitempty" doc:"The title of the task that it makes."`
	Pool        string     `json:"pool,omitempty" doc:"The pool of that."`
	Match       string     `json:"match" doc:"any or all of the gates."`
	Gates       []GateInfo `json:"gates" doc:"What opens it."`
	Enabled     bool       `json:"enabled" doc:"Its gates may fire it."`
	ByHand      string     `json:"by_hand,omitempty" doc:"enabled or disabled, if a person has decided that."`
	Due         bool       `json:"due" doc:"It would be fired now."`
	Reason      string     `json:"reason" doc:"Why it is due, or not."`
	NextAt      *time.Time `json:"next_at,omitempty" doc:"When the clock may open it next."`
	Running     int        `json:"running" minimum:"0" doc:"How many of its runs go on."`
	Pending     int        `json:"pending" minimum:"0" doc:"How many events wait for it."`
	Runs        uint64     `json:"runs" doc:"How many runs ever began."`
	Skips       uint64     `json:"skips" doc:"How many firings were skipped."`
	Skipped     string     `json:"skipped,omitempty" doc:"Why it was skipped last."`
	SkippedAt   *time.Time `json:"skipped_at,omitempty" doc:"And when."`
	Last        *RunInfo   `json:"last,omitempty"`
	Overlap     string     `json:"overlap" doc:"What becomes of a firing while it runs: skip, queue or allow."`
	CatchUp     bool       `json:"catch_up" doc:"A time that was missed is made up for."`
	Timeout     float64    `json:"timeout_seconds" doc:"How long a run may take."`
	Retries     int        `json:"retries" minimum:"0" doc:"How often a run that has failed is tried again."`
	Dir         string     `json:"dir" doc:"Its working directory."`
	Source      string     `json:"source" doc:"Where it is written: file:line:column."`
	Said        []string   `json:"said,omitempty" doc:"What its check has just written."`
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
	Order     string     `json:"order" doc:"Of which order."`
	Status    string     `json:"status" doc:"running, retrying, completed, failed, timed out, stopped or interrupted. Readers must expect others."`
	Reason    string     `json:"reason" doc:"Why it was fired."`
	By        string     `json:"by,omitempty" doc:"Who fired it, if not its gates."`
	Attempt   int        `json:"attempt" doc:"The last attempt, from 1."`
	FiredAt   time.Time  `json:"fired_at" doc:"When it was fired."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"When the last attempt began."`
	EndedAt   *time.Time `json:"ended_at,omitempty" doc:"When that ended."`
	RetryAt   *time.Time `json:"retry_at,omitempty" doc:"When the next one begins."`
	Duration  float64    `json:"duration_seconds" doc:"How long the last attempt took."`
	Code      *int       `json:"code,omitempty" doc:"Its exit code, if it has one."`
	Signal    string     `json:"signal,omitempty" doc:"What ended it, if that was a signal."`
	Error     string     `json:"error,omitempty" doc:"Why it has not completed."`
	Task      string     `json:"task,omitempty" doc:"The task that it has made."`
	Events    int        `json:"events,omitempty" minimum:"0" doc:"How many events were handed over to it."`
	Output    []string   `json:"output,omitempty" doc:"The last lines that it wrote."`
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
	_ struct{} `schema:"OrderAct" doc:"What is to be done with an order."`

	Name   string `json:"name" doc:"The order."`
	Action Action `json:"action" doc:"run, stop, enable or disable."`
	By     string `json:"by,omitempty" doc:"Name of the person who asks."`
}

// ActResult is the result of an action on an order.
type ActResult struct {
	_ struct{} `schema:"OrderActed" doc:"What has come of it."`

	Run     string `json:"run,omitempty" doc:"The run that began."`
	Queued  bool   `json:"queued,omitempty" doc:"It runs when the run that goes on has ended."`
	Stopped int    `json:"stopped,omitempty" minimum:"0" doc:"How many runs were asked to stop."`
}

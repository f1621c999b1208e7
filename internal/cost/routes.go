package cost

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// Show reports what calls of language models have used.
var Show = api.Route[Request, Report]{
	Method: "GET", Path: "/cost", For: api.People,
	ID: "showCost", Summary: "Show what calls of language models have used",
	Doc: "Tokens and dollars as the command lines report them, by agent, account, task, pool, model or day. What " +
		"they do not report is unknown.",
	Returns: "The sums.",
}

// Request asks for a report.
type Request struct {
	By    By     `json:"by,omitempty" doc:"What is told apart: agent, account, task, pool, model or day. Default: agent."`
	Since string `json:"since,omitempty" doc:"First day: how long ago, such as 24h, or a date. Default: all that is kept."`
	Until string `json:"until,omitempty" doc:"Last day, in the same way. Default: today."`
}

// Report is what calls have used.
type Report struct {
	_     struct{} `schema:"CostReport" doc:"What calls of language models have used."`
	By    By       `json:"by" enum:"agent,account,task,pool,model,day" doc:"What the rows tell apart."`
	Since string   `json:"since" doc:"The first day, as a local date; empty if there is none."`
	Until string   `json:"until" doc:"The last day."`
	Rows  []Row    `json:"rows" doc:"By date if they are days, otherwise those with the most tokens first."`
	Total Row      `json:"total" doc:"The sum. A call that has used several models is counted once here."`
}

// Row is a row of a Report.
type Row struct {
	_              struct{} `schema:"CostRow" doc:"What some calls have used. A number that is known of no call is left out."`
	Name           string   `json:"name" doc:"Of the agent, account, task, pool, model or day; empty if there is none, or it is not known."`
	Calls          int64    `json:"calls" minimum:"0" doc:"Calls, with those in progress: the run of an Aidefile is one until it ends."`
	Running        int64    `json:"running" minimum:"0" doc:"Calls in progress. The sums have what they have used so far."`
	UnknownTokens  int64    `json:"unknown_tokens" minimum:"0" doc:"Calls whose tokens are not known, and not in the sums."`
	UnknownDollars int64    `json:"unknown_dollars" minimum:"0" doc:"Calls whose dollars are not known, and not in the sum."`
	Tokens         *int64   `json:"tokens,omitempty" doc:"Tokens that count: input, what was written to a cache, and output."`
	Input          *int64   `json:"input,omitempty" doc:"Input that was neither read from a cache nor written to one."`
	CacheRead      *int64   `json:"cache_read,omitempty" doc:"Input that was read from a cache."`
	CacheWrite     *int64   `json:"cache_write,omitempty" doc:"Input that was written to a cache."`
	Output         *int64   `json:"output,omitempty" doc:"Output, with reasoning."`
	Dollars        *float64 `json:"dollars,omitempty" doc:"Estimated by the command lines."`
	UnknownTurns   int64    `json:"unknown_turns" minimum:"0" doc:"Calls whose turns are not known, and not in the sum."`
	Turns          *int64   `json:"turns,omitempty" doc:"Answers of models."`
	Runs           int64    `json:"runs" minimum:"0" doc:"Runs of agents that have ended; 0 by model."`
	Seconds        float64  `json:"seconds" minimum:"0" doc:"That these have taken."`
}

// Register adds the handler to a server. It works without a daemon.
func (l *Ledger) Register(s *api.Server) {
	Show.Handle(s, func(ctx context.Context, _ token.Caller, req Request) (Report, error) {
		return l.Report(ctx, req.By, req.Since, req.Until, time.Now())
	})
}

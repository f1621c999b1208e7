package order

import "time"

// Counts summarizes the orders of a project.
type Counts struct {
	_ struct{} `schema:"OrderCounts" doc:"The orders in short."`

	Total    int        `json:"total" minimum:"0" doc:"How many there are."`
	Disabled int        `json:"disabled" minimum:"0" doc:"How many of them are disabled."`
	Running  int        `json:"running" minimum:"0" doc:"How many runs go on."`
	Failing  int        `json:"failing" minimum:"0" doc:"How many have not completed when they ran last."`
	NextAt   *time.Time `json:"next_at,omitempty" doc:"When the clock may open one next."`
	Next     string     `json:"next,omitempty" doc:"Which one."`
}

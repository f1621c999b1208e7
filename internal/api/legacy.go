package api

import (
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/event"
)

// This file has the routes of Daemon and Service, which no feature owns yet: each
// is described in openapi, and calls a method of the Daemon.

// routes returns those of Daemon.
func routes() []route {
	path := param{name: "path", kind: "string"}
	thePath := param{name: "path", kind: "string", required: true}
	follow := param{name: "follow", kind: "boolean"}
	all := []route{
		{method: "GET", path: "/v1/events", stream: true, answer: event.Event{}, serve: (*call).events, params: []param{
			{name: "after", kind: "integer"}, {name: "epoch", kind: "string"}, {name: "last", kind: "integer"},
			{name: "type", kind: "string", repeated: true}, path, follow}},
		{method: "GET", path: "/v1/logs", stream: true, answer: LogLine{}, serve: (*call).logs, params: []param{
			{name: "path", kind: "string", repeated: true}, {name: "n", kind: "integer"},
			{name: "since", kind: "string"},
			{name: "grep", kind: "string"}, {name: "after", kind: "string", repeated: true}, follow}},
		{method: "POST", path: "/v1/act", body: ActRequest{}, answer: Acted{}, serve: (*call).act},
		{method: "POST", path: "/v1/down", body: DownRequest{}, serve: (*call).down},
		{method: "POST", path: "/v1/attach", params: []param{thePath, {name: "watch", kind: "boolean"}}, stays: true,
			serve: (*call).attach},
	}
	return slices.Concat(all, agentRoutes(), vitalsRoutes(), drainRoutes(), patrolRoutes(),
		farewellRoutes(), unfinishedRoutes())
}

func (c *call) act() error {
	var req ActRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if req.Path == "" {
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	}
	if err := checkText(req.Path); err != nil {
		return fmt.Errorf("%w: path %w", ErrInvalid, err)
	}
	if !slices.Contains(Actions(), req.Action) {
		return fmt.Errorf("%w: action is %.100q, expected one of %v", ErrInvalid, req.Action, Actions())
	}
	done, err := c.service.Act(c.r.Context(), req.Path, req.Action)
	if err != nil {
		return err
	}
	done.Already = orEmpty(done.Already)
	return c.answer(done)
}

func (c *call) down() error {
	var req DownRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if err := c.service.Down(c.r.Context(), req.Keep); err != nil {
		return err
	}
	return c.done()
}

package api

import (
	"fmt"
	"slices"
)

// This file has the routes of Daemon and Service, which no feature owns yet: each
// is described in openapi, and calls a method of the Daemon.

// routes returns those of Daemon.
func routes() []route {
	all := []route{
		{method: "POST", path: "/v1/act", body: ActRequest{}, answer: Acted{}, serve: (*call).act},
		{method: "POST", path: "/v1/down", body: DownRequest{}, serve: (*call).down},
	}
	return slices.Concat(all, agentRoutes(), vitalsRoutes(),
		farewellRoutes())
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

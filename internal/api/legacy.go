package api

import (
	"slices"
)

// This file has the routes of Daemon and Service, which no feature owns yet: each
// is described in openapi, and calls a method of the Daemon.

// routes returns those of Daemon.
func routes() []route {
	return slices.Concat(agentRoutes(), vitalsRoutes())
}

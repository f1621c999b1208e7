package worker

import (
	"path"
	"slices"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pipeline"
)

// Assignment tells a worker what it works at, and with whom.
type Assignment struct {
	_ struct{} `schema:"PipelineAssignment" open:"true" doc:"What a worker of a pipeline works at."`

	Settings pipeline.Settings `json:"settings" doc:"The settings of the pipeline."`
	Workers  []string          `json:"workers" doc:"Paths of the agents, and of the pools whose instances are agents, that take the same tasks into the same branch. What they have reported of earlier attempts was checked as the caller checks."`
}

// Mine returns the settings of the pipeline that the calling agent is a worker of, and the other workers. They are
// those of the file as it is now, so a change of the file applies to the next attempt.
var Mine = api.Route[api.None, Assignment]{
	Method: "GET", Path: "/pipeline", For: api.Agents,
	ID: "pipeline", Summary: "Get the settings and workers of the pipeline that the calling agent works in",
	Returns: "The settings and workers.",
}

// isWorker reports whether the agent at a path is one of the workers, or an instance of a pool of workers.
func (a Assignment) isWorker(at string) bool {
	return slices.Contains(a.Workers, at) || slices.Contains(a.Workers, path.Dir(at))
}

package worker

import (
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pipeline"
)

// Mine returns the settings of the pipeline that the calling agent is a worker of. They are those of the file as it is
// now, so a change of the file applies to the next attempt.
var Mine = api.Route[api.None, pipeline.Settings]{
	Method: "GET", Path: "/pipeline", For: api.Agents,
	ID: "pipeline", Summary: "Get the settings of the pipeline that the calling agent works in",
	Returns: "The settings.",
}

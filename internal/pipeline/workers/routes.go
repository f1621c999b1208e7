package workers

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/task"
)

// The routes of pipelines. Their tasks are paused and resumed by task.ActOnPool, with the pool of Info.
var (
	// List returns all pipelines, sorted by name.
	List = api.Route[api.None, []Info]{
		Method: "GET", Path: "/pipelines", For: api.People,
		ID: "pipelines", Summary: "List the pipelines", Doc: "Ordered by name.", Returns: "The pipelines.",
	}
	// Get returns a pipeline with its settings, workers and last attempts.
	Get = api.Route[Name, Detail]{
		Method: "GET", Path: "/pipeline", For: api.People,
		ID: "showPipeline", Summary: "Get a pipeline with its settings, workers and last attempts",
		Returns: "The pipeline.",
	}
)

// Name names a pipeline.
type Name struct {
	Name string `json:"name" maxLength:"1024" doc:"Path of the agent or pool in the project; its name is enough if no other pipeline has the same."`
}

// Info describes a pipeline: an agent, or the agents of a pool.
type Info struct {
	_ struct{} `schema:"PipelineInfo" open:"true" doc:"A pipeline."`

	Name       string         `json:"name" doc:"Path of the agent or pool in the project."`
	Workers    int            `json:"workers" minimum:"0" doc:"Number of workers, whether they run or not."`
	AtWork     int            `json:"at_work" minimum:"0" doc:"Number of workers that make an attempt now."`
	Tasks      task.PoolTasks `json:"tasks" doc:"The pool whose tasks its workers claim."`
	Mode       string         `json:"mode" enum:"maintenance,evolution" doc:"The mode of tasks that no rule matches."`
	Repository string         `json:"repository" doc:"Absolute path of the git repository, or of a directory in it."`
	Branch     string         `json:"branch,omitempty" doc:"The branch that gets the changes; missing if that is the one that is checked out."`
}

// Detail has everything about a pipeline.
type Detail struct {
	_ struct{} `schema:"PipelineDetail" open:"true" doc:"A pipeline with its settings, workers and last attempts."`

	Pipeline Info              `json:"pipeline"`
	Settings pipeline.Settings `json:"settings" doc:"The settings in effect. A change of the file applies to the next attempt."`
	Stages   []Stage           `json:"stages" doc:"What follows from the settings for each stage, in their order."`
	// Unconfined is the reason if nothing enforces where stages may write.
	Unconfined string       `json:"unconfined,omitempty" doc:"Why nothing enforces where stages may write; missing if the kernel does."`
	Workers    []Worker     `json:"workers" doc:"Ordered by path."`
	Attempts   []task.Tried `json:"attempts" doc:"The last attempts that have ended, the latest first; at most 10."`
}

// Stage has what follows from the settings for a stage.
type Stage struct {
	_ struct{} `schema:"PipelineStageInfo" open:"true" doc:"What follows from the settings for a stage."`

	Name     string       `json:"name" doc:"The stage."`
	CLI      agentcli.CLI `json:"cli,omitempty" doc:"The command line of a language model that it calls; missing for none."`
	Worktree bool         `json:"worktree" doc:"It may write to its worktree."`
	Homes    []string     `json:"homes,omitempty" doc:"Where it may write in the home directory, for its command line."`
}

// Worker is an agent that works in a pipeline.
type Worker struct {
	_ struct{} `schema:"PipelineWorker" open:"true" doc:"A worker of a pipeline."`

	Path        string             `json:"path" doc:"Path of the agent."`
	State       string             `json:"state" doc:"State of the agent, such as running. Readers must expect others."`
	Running     bool               `json:"running" doc:"It runs."`
	Incarnation uint64             `json:"incarnation" minimum:"0" doc:"Number of its last start; 0 before the first."`
	StartedAt   *time.Time         `json:"started_at,omitempty" doc:"When the running incarnation started."`
	At          *progress.Progress `json:"at,omitempty" doc:"What it works at; missing if it waits for a task, or does not run."`
}

// Package pipeline defines what a pipeline means: its settings, what its stages are asked and may answer, and how an
// attempt at a task ends. It reads no file, starts no process and uses no clock; package worker makes the attempts.
//
// An attempt goes through the stages in a fixed order: Plan, Implement, Test, Security, Release, Archive. Language
// models work in stages, and decide nothing about the order. A stage that fails ends the attempt with an outcome, and
// its context goes into the prompts of the next attempt, which begins in a clean git worktree.
package pipeline

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Settings make an agent a worker of a pipeline: it claims a task, takes it through the stages, and claims the next.
// In a pool, each instance is a worker.
type Settings struct {
	_ struct{} `schema:"Pipeline" open:"true" doc:"The settings of a pipeline."`

	Repository string `json:"repository" doc:"Absolute path of the git repository, or of a directory in it."`
	Branch     string `json:"branch,omitempty" doc:"The branch that gets the changes. Default: the one that is checked out."`
	Tasks      string `json:"tasks,omitempty" doc:"The pool whose tasks the worker takes. Default: those of the agent itself."`
	Mode       string `json:"mode" enum:"maintenance,evolution" doc:"The mode of tasks that no rule matches."`
	Modes      []Rule `json:"modes,omitempty" doc:"Rules that choose the mode of a task; the first that matches counts."`

	Protected  []string `json:"protected,omitempty" doc:"Patterns of what no change may touch."`
	Tests      []string `json:"tests,omitempty" doc:"Patterns of test files, in addition to the known ones."`
	Validation []string `json:"validation,omitempty" doc:"Patterns of what decides about checks, in addition to the known ones."`

	SetUp       []string `json:"set_up,omitempty" doc:"A command that runs in each new worktree."`
	Ports       int      `json:"ports,omitempty" minimum:"0" doc:"The number of TCP ports that each worktree has for itself."`
	FixAttempts int      `json:"fix_attempts" minimum:"0" doc:"How often the model may repair a change whose tests fail."`
	Writable    []string `json:"writable,omitzero" doc:"Where stages may write in addition to their worktree. Without it they are not limited where the kernel cannot enforce that; an empty list limits them there, too."`
	ReadOnly    []string `json:"read_only,omitempty" doc:"Exceptions from that."`

	PullRequest *PullRequest `json:"pull_request,omitempty" doc:"Changes are proposed as pull requests, in place of a merge."`

	Stages []Stage `json:"stages" doc:"Plan, implement, test, security, release and archive."`
}

// Of returns the settings of a stage.
func (s Settings) Of(n Name) Stage {
	if int(n) < len(s.Stages) {
		return s.Stages[n]
	}
	return Stage{}
}

// PullRequest has the settings of pull requests.
type PullRequest struct {
	_ struct{} `schema:"PipelinePullRequest" open:"true" doc:"The settings of the pull requests of a pipeline."`

	Remote string `json:"remote" doc:"The remote of the repository that gets the branches and the pull requests."`
	Draft  bool   `json:"draft,omitempty" doc:"They are drafts."`
}

// Stage has the settings of a stage.
type Stage struct {
	_ struct{} `schema:"PipelineStage" open:"true" doc:"The settings of a stage of a pipeline."`

	Command []string      `json:"command,omitempty" doc:"It runs in the worktree. Without one, release is done by Coppice alone, and any other stage is skipped."`
	CLI     agentcli.CLI  `json:"cli,omitempty" doc:"The command line of a language model that the command calls. Default: what the command says."`
	Timeout time.Duration `json:"timeout_ns" doc:"How long a call may take, in nanoseconds."`
	Retries int           `json:"retries" minimum:"0" doc:"How often it is called again in an attempt, after a failure that may pass."`
	Tokens  int64         `json:"tokens,omitempty" minimum:"0" doc:"What its calls may use in an attempt; 0 for no limit."`
	SkipIf  *Rule         `json:"skip_if,omitempty" doc:"The stage is skipped for tasks that match."`
	// ApplyEdits is for Implement.
	ApplyEdits bool `json:"apply_edits,omitempty" doc:"The command changes no files: the edits in its answer are applied."`
}

// CommandLine returns the command line of a language model that the stage calls; Plain for none.
func (s Stage) CommandLine() agentcli.CLI {
	if s.CLI != "" {
		return s.CLI
	}
	return agentcli.Detect(s.Command)
}

// Rule matches tasks. All of its conditions have to hold.
type Rule struct {
	_ struct{} `schema:"PipelineRule" open:"true" doc:"A rule that matches tasks; all of its conditions have to hold."`

	// A rule of Modes chooses the mode; for a rule of SkipIf it is a condition.
	Mode       string   `json:"mode,omitempty" doc:"The mode that it chooses, or for which a stage is skipped."`
	Labels     []string `json:"labels,omitempty" doc:"The task has one of them."`
	Priorities []int    `json:"priorities,omitempty" doc:"The task has one of them."`
	Paths      []string `json:"paths,omitempty" doc:"The task names files, and all of them match one of these patterns."`
}

// Name is the name of a stage.
type Name int

// The stages, in their order.
const (
	Plan Name = iota
	Implement
	Test
	Security
	Release
	Archive

	NumStages = iota
)

// String returns the name as in the file.
func (n Name) String() string {
	return [...]string{"plan", "implement", "test", "security", "release", "archive"}[n]
}

// Names returns all stages, in their order.
func Names() []Name { return []Name{Plan, Implement, Test, Security, Release, Archive} }

// Modes returns the modes, the strictest first.
func Modes() []string { return []string{"maintenance", "evolution"} }

// Defaults of Settings and Stage.
const (
	DefaultFixAttempts = 2
	DefaultRetries     = 1
	DefaultTimeout     = 30 * time.Minute
	DefaultRemote      = "origin"
)

// The ports that worktrees get, both included. Linux gives them to no program that asks for any.
const (
	FirstPort = 20_000
	LastPort  = 29_999
	MaxPorts  = 100 // of a worktree
)

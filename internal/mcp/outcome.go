package mcp

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
)

type outcomeInput struct {
	Kind           outcome.Kind       `json:"kind"`
	Summary        string             `json:"summary"`
	Evidence       *outcome.Evidence  `json:"evidence"`
	Approach       string             `json:"approach"`
	Obstacle       string             `json:"obstacle"`
	Discoveries    []string           `json:"discoveries"`
	Recommendation string             `json:"recommendation"`
	ExploredFiles  []string           `json:"explored_files"`
	NotBefore      string             `json:"not_before"`
	Subtasks       []outcome.Subtask  `json:"subtasks"`
	Condition      *outcome.Condition `json:"condition"`
	Question       string             `json:"question"`
	Task           string             `json:"task"`
}

func sayOutcome(ctx context.Context, c *caller, in outcomeInput) (any, error) {
	r := outcome.Report{Kind: in.Kind, Summary: in.Summary, Subtasks: in.Subtasks, Condition: in.Condition,
		Question: in.Question, Evidence: in.Evidence}
	learned := outcome.Context{
		Approach: in.Approach, Discoveries: in.Discoveries, Recommendation: in.Recommendation,
		Explored: outcome.Explored{Files: in.ExploredFiles},
	}
	if in.Obstacle != "" {
		var err error
		if learned.Obstacle, err = outcome.ParseObstacle(in.Obstacle); err != nil {
			return nil, err
		}
	}
	if in.Kind != outcome.Completed || !learned.IsZero() {
		r.Context = &learned
	}
	if in.NotBefore != "" {
		at, err := outcome.ParseTime(in.NotBefore, time.Now())
		if err != nil {
			return nil, err
		}
		r.NotBefore = &at
	}
	o, err := outcome.New(r)
	if err != nil {
		return nil, err
	}
	done, err := call(ctx, c, claim.Report, claim.Request{Report: o.Report(), Task: in.Task})
	if done.Task == nil {
		return "recorded", err
	}
	return fmt.Sprintf("recorded; the task %s is %s now", done.Task.ID, done.Task.Status), err
}

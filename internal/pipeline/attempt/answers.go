// Package attempt is what an attempt at a task of a pipeline means: what models are asked, what they may answer, and
// how the attempt ends. It decides from its arguments alone.
package attempt

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
)

// Report is part of each answer of a model: what it has learned, and what prevents the work.
type Report struct {
	Obstacle       *Obstacle `json:"obstacle"`
	Discoveries    []string  `json:"discoveries"`
	Recommendation string    `json:"recommendation"`
	Explored       []string  `json:"explored"`
}

// Obstacle prevents the work. A model describes it.
type Obstacle struct {
	Kind        outcome.ObstacleKind `json:"kind"`
	Description string               `json:"description"`
	Task        string               `json:"task"`
	Service     string               `json:"service"`
	Files       int                  `json:"files"`
}

// Answer is the answer to Plan: steps, or subtasks of a task that is too large, or an obstacle.
type Answer struct {
	Report
	Steps    []Step    `json:"steps"`
	Subtasks []Subtask `json:"subtasks"`
}

// Step is a step of a plan. It is implemented by one call of the model.
type Step struct {
	Name         string   `json:"name"`
	Instructions string   `json:"instructions"`
	Files        []string `json:"files"`
}

// Subtask is a part of a task.
type Subtask struct {
	ID               string   `json:"id"`
	Objective        string   `json:"objective"`
	DependsOn        []string `json:"depends_on"`
	DefinitionOfDone string   `json:"definition_of_done"`
}

// Done is the answer to Implement. The change itself is read from git.
type Done struct {
	Report
	Summary string `json:"summary"`
	Subject string `json:"commit_subject"`
}

// Review is the answer to Security.
type Review struct {
	Verdict  string   `json:"verdict"`
	Findings []string `json:"findings"`
}

// Verdicts of a Review.
const (
	Pass  = "pass"
	Warn  = "warn" // a person may want to know
	Block = "block"
)

// reportSchema are the properties of Report.
const reportSchema = `
	"obstacle": {
		"type": ["object", "null"],
		"properties": {
			"kind": {"enum": ["missing_prerequisite", "architectural_gap", "external_dependency", "scope_too_large", "other"]},
			"description": {"type": "string", "minLength": 1, "maxLength": 4000},
			"task": {"type": "string", "maxLength": 200},
			"service": {"type": "string", "maxLength": 200},
			"files": {"type": "integer", "minimum": 0, "maximum": 100000}
		},
		"required": ["kind", "description"]
	},
	"discoveries": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 1000}},
	"recommendation": {"type": "string", "maxLength": 4000},
	"explored": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 500}}`

// planSchema is the schema of Answer.
const planSchema = `{
	"type": "object",
	"properties": {
		"steps": {
			"type": "array", "maxItems": 20,
			"items": {
				"type": "object",
				"properties": {
					"name": {"type": "string", "minLength": 1, "maxLength": 200},
					"instructions": {"type": "string", "minLength": 1, "maxLength": 8000},
					"files": {"type": "array", "minItems": 1, "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 1000}}
				},
				"required": ["name", "instructions", "files"]
			}
		},
		"subtasks": {
			"type": "array", "maxItems": 20,
			"items": {
				"type": "object",
				"properties": {
					"id": {"type": "string", "minLength": 1, "maxLength": 64},
					"objective": {"type": "string", "minLength": 1, "maxLength": 8000},
					"depends_on": {"type": "array", "maxItems": 20, "items": {"type": "string"}},
					"definition_of_done": {"type": "string", "maxLength": 4000}
				},
				"required": ["id", "objective"]
			}
		},` + reportSchema + `
	},
	"anyOf": [{"required": ["steps"]}, {"required": ["subtasks"]}, {"required": ["obstacle"]}]
}`

// doneSchema is the schema of Done.
const doneSchema = `{
	"type": "object",
	"properties": {
		"summary": {"type": "string", "minLength": 1, "maxLength": 4000},
		"commit_subject": {"type": "string", "maxLength": 200},` + reportSchema + `
	},
	"anyOf": [{"required": ["summary"]}, {"required": ["obstacle"]}]
}`

// reviewSchema is the schema of Review.
const reviewSchema = `{
	"type": "object",
	"properties": {
		"verdict": {"enum": ["pass", "warn", "block"]},
		"findings": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 1000}}
	},
	"required": ["verdict"]
}`

// Schema returns the JSON Schema of the answer to a stage; empty if it has none.
func Schema(n pipeline.Name) string {
	switch n {
	case pipeline.Plan:
		return planSchema
	case pipeline.Implement:
		return doneSchema
	case pipeline.Security:
		return reviewSchema
	}
	return ""
}

// Read decodes an answer that fits the Schema of its stage.
func Read[T Answer | Done | Review](text json.RawMessage) (answer T, err error) {
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("its answer cannot be read: %w", err)
	}
	return answer, nil
}

// known returns the obstacle that a model has reported as one of an outcome. maxFiles is what the mode allows.
func (o Obstacle) known(maxFiles int) outcome.Obstacle {
	text := strings.TrimSpace(o.Description)
	known := outcome.Obstacle{Kind: o.Kind, Description: text}
	switch {
	case o.Kind == outcome.ArchitecturalGap:
	case o.Kind == outcome.MissingPrerequisite && o.Task != "":
		known = outcome.Obstacle{Kind: o.Kind, TaskID: o.Task, Reason: text}
	case o.Kind == outcome.ExternalDependency && o.Service != "":
		known.Service = o.Service
	case o.Kind == outcome.ScopeTooLarge && o.Files > 0 && maxFiles > 0:
		known.EstimatedFiles, known.MaxFiles = o.Files, maxFiles
	default: // it does not say what the kind needs
		known.Kind = outcome.OtherObstacle
	}
	return known
}

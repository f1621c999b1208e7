package task

import (
	"encoding/json"
	"strings"
	"time"
)

// Draft is a task to be created.
type Draft struct {
	_ struct{} `open:"true" doc:"A new task."`

	Title     string   `json:"title" doc:"One line, at most 2000 bytes."`
	Text      string   `json:"text,omitempty" doc:"At most 256 KiB."`
	DoneWhen  string   `json:"done_when,omitempty" doc:"The criterion by which it is done, at most 4 KiB. Agents complete it only with evidence."`
	Fixes     string   `json:"fixes,omitempty" doc:"A command that has to fail before the task is done and to pass after it, without a shell, at most 4 KiB. Only people name one."`
	Mode      string   `json:"mode,omitempty" enum:"maintenance,evolution" doc:"The mode in which pipelines work at it. Default: they choose by their rules. Only people set it."`
	Type      string   `json:"type,omitempty" doc:"Default: task."`
	Priority  *int     `json:"priority,omitempty" minimum:"0" maximum:"4" doc:"Default: 2."`
	Status    Status   `json:"status,omitempty" enum:"open,blocked,deferred" doc:"Default: open."`
	Labels    []string `json:"labels,omitempty" doc:"At most 50."`
	Pool      string   `json:"pool,omitempty" doc:"The pool whose agents may claim it."`
	Assignee  string   `json:"assignee,omitempty" doc:"The agent or person that is to do it."`
	Parent    string   `json:"parent,omitempty" doc:"The task that waits for this one."`
	DependsOn []string `json:"depends_on,omitempty" doc:"At most 200."`
	// IfDependencyFails is WaitForIt if it is empty.
	IfDependencyFails DependencyRule `json:"if_dependency_fails,omitempty" enum:"wait,cancel,continue" doc:"What becomes of it if a task that it depends on is cancelled. Default: wait."`
	NotBefore         time.Time      `json:"not_before,omitzero" doc:"Earliest time at which it can be claimed."`
	Ephemeral         bool           `json:"ephemeral,omitempty" doc:"The task is removed some time after it is closed."`
	Origin            string         `json:"origin,omitempty" doc:"The origin of the task."`
	// MaxClaims is the number of failed claims after which the task is parked; 0 means the
	// number in the file.
	MaxClaims int `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"Number of failed claims after which it is parked; 0 means the configured number."`
	// Key is the creator's own name for the task. Creating it again under the same key, as
	// after a lost answer, returns the existing task.
	Key string `json:"key,omitempty" doc:"A task with the same key is created only once."`
}

// Edit changes fields of a task. Fields that are nil keep their value.
type Edit struct {
	_ struct{} `open:"true" doc:"Missing fields keep their value."`

	Title         *string    `json:"title,omitempty" doc:"One line."`
	Text          *string    `json:"text,omitempty" doc:"At most 256 KiB."`
	DoneWhen      *string    `json:"done_when,omitempty" doc:"The criterion by which it is done; empty for none."`
	Fixes         *string    `json:"fixes,omitempty" doc:"A command that has to fail before the task is done and to pass after it; empty for none. Only people change it."`
	Mode          *string    `json:"mode,omitempty" doc:"The mode in which pipelines work at it: maintenance, evolution, or empty. Only people change it."`
	Type          *string    `json:"type,omitempty" doc:"One line."`
	Status        *Status    `json:"status,omitempty" enum:"open,blocked,deferred" doc:"The claimant loses the task."`
	Priority      *int       `json:"priority,omitempty" minimum:"0" maximum:"4" doc:"0 is the most urgent."`
	MaxClaims     *int       `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"Number of failed claims after which it is parked; 0 means the configured number."`
	Pool          *string    `json:"pool,omitempty" doc:"Empty for none."`
	Assignee      *string    `json:"assignee,omitempty" doc:"Empty for none."`
	Parent        *string    `json:"parent,omitempty" doc:"Empty for none."`
	NotBefore     *time.Time `json:"not_before,omitempty" doc:"0001-01-01T00:00:00Z for none."`
	AddLabels     []string   `json:"add_labels,omitempty" doc:"Labels to add."`
	RemoveLabels  []string   `json:"remove_labels,omitempty" doc:"Labels to remove."`
	AddDepends    []string   `json:"add_depends,omitempty" doc:"Dependencies to add."`
	RemoveDepends []string   `json:"remove_depends,omitempty" doc:"Dependencies to remove."`

	IfDependencyFails *DependencyRule `json:"if_dependency_fails,omitempty" enum:"wait,cancel,continue" doc:"What becomes of it if a task that it depends on is cancelled."`
}

// equal reports whether two tasks have the same fields.
func equal(a, b *Task) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// editedFields names the fields that an edit changes.
func editedFields(e Edit) string {
	var all []string
	for name, there := range map[string]bool{
		"title": e.Title != nil, "text": e.Text != nil, "type": e.Type != nil, "status": e.Status != nil,
		"priority": e.Priority != nil, "done when": e.DoneWhen != nil, "fixes": e.Fixes != nil, "mode": e.Mode != nil,
		"pool": e.Pool != nil, "assignee": e.Assignee != nil, "parent": e.Parent != nil,
		"not before": e.NotBefore != nil, "max claims": e.MaxClaims != nil,
		"if dependency fails": e.IfDependencyFails != nil,
		"labels":              len(e.AddLabels)+len(e.RemoveLabels) > 0,
		"dependencies":        len(e.AddDepends)+len(e.RemoveDepends) > 0,
	} {
		if there {
			all = append(all, name)
		}
	}
	return strings.Join(Sorted(all), ", ")
}

package task

import (
	"encoding/json"
	"strings"
	"time"
)

// Draft is a task to be created.
type Draft struct {
	_ struct{} `open:"true" doc:"What is to be known of a new task."`

	Title     string    `json:"title" doc:"One line, at most 2000 bytes."`
	Text      string    `json:"text,omitempty" doc:"At most 256 KiB."`
	Type      string    `json:"type,omitempty" doc:"task if it is left out."`
	Priority  *int      `json:"priority,omitempty" minimum:"0" maximum:"4" doc:"2 if it is left out."`
	Status    Status    `json:"status,omitempty" enum:"open,blocked,deferred" doc:"open if it is left out."`
	Labels    []string  `json:"labels,omitempty" doc:"At most 50."`
	Pool      string    `json:"pool,omitempty" doc:"Whose agents may do it."`
	Assignee  string    `json:"assignee,omitempty" doc:"Who is to do it."`
	Parent    string    `json:"parent,omitempty" doc:"The task that it is a part of."`
	DependsOn []string  `json:"depends_on,omitempty" doc:"At most 200."`
	NotBefore time.Time `json:"not_before,omitzero" doc:"When it can be claimed at the earliest."`
	Ephemeral bool      `json:"ephemeral,omitempty" doc:"To be removed some time after its end."`
	Origin    string    `json:"origin,omitempty" doc:"What makes it."`
	// MaxClaims is the number of failed claims after which the task is parked; 0 means the
	// number in the file.
	MaxClaims int `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"It is parked after so many failed claims; 0 is what the file says."`
	// Key is the creator's own name for the task. Creating it again under the same key, as
	// after a lost answer, returns the existing task.
	Key string `json:"key,omitempty" doc:"What is made again under the same key is made once."`
}

// Edit changes fields of a task. Fields that are nil keep their value.
type Edit struct {
	_ struct{} `open:"true" doc:"What is left out stays as it is."`

	Title         *string    `json:"title,omitempty" doc:"One line."`
	Text          *string    `json:"text,omitempty" doc:"At most 256 KiB."`
	Type          *string    `json:"type,omitempty" doc:"Any word."`
	Status        *Status    `json:"status,omitempty" enum:"open,blocked,deferred" doc:"Who has claimed it loses it."`
	Priority      *int       `json:"priority,omitempty" minimum:"0" maximum:"4" doc:"0 is the most urgent."`
	MaxClaims     *int       `json:"max_claims,omitempty" minimum:"0" maximum:"1000" doc:"It is parked after so many failed claims; 0 is what the file says."`
	Pool          *string    `json:"pool,omitempty" doc:"Empty for none."`
	Assignee      *string    `json:"assignee,omitempty" doc:"Empty for none."`
	Parent        *string    `json:"parent,omitempty" doc:"Empty for none."`
	NotBefore     *time.Time `json:"not_before,omitempty" doc:"0001-01-01T00:00:00Z for none."`
	AddLabels     []string   `json:"add_labels,omitempty" doc:"Labels it is to have."`
	RemoveLabels  []string   `json:"remove_labels,omitempty" doc:"Labels it is not to have."`
	AddDepends    []string   `json:"add_depends,omitempty" doc:"Tasks it is to depend on."`
	RemoveDepends []string   `json:"remove_depends,omitempty" doc:"Tasks it is not to depend on."`
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
		"priority": e.Priority != nil,
		"pool":     e.Pool != nil, "assignee": e.Assignee != nil, "parent": e.Parent != nil,
		"not before": e.NotBefore != nil, "max claims": e.MaxClaims != nil,
		"labels": len(e.AddLabels)+len(e.RemoveLabels) > 0, "dependencies": len(e.AddDepends)+len(e.RemoveDepends) > 0,
	} {
		if there {
			all = append(all, name)
		}
	}
	return strings.Join(Sorted(all), ", ")
}

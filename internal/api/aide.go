package api

import (
	"fmt"
	"time"
)

// Aide is what only agents with an Aidefile have.
type Aide struct {
	State       string     `json:"state"`               // idle, done, running, backing off, given up, stopped, held
	Triggers    []string   `json:"triggers"`            // as the Aidefile spells them
	NextFire    *time.Time `json:"next_fire,omitempty"` // by its schedules
	Restart     string     `json:"restart"`             // always, on-failure, never
	Restarts    int        `json:"consecutive_restarts"`
	MaxRestarts int        `json:"max_restarts"`
	Fired       *time.Time `json:"fired,omitempty"` // when its last run, or chain of runs, was started
	FiredBy     string     `json:"fired_by,omitempty"`
	Task        string     `json:"task,omitempty"`    // the first line of its task
	Failing     string     `json:"failing,omitempty"` // why its issues cannot be listed
	Spent       bool       `json:"spent,omitempty"`   // given up because its chain of runs has used up its tokens
}

// Because tells people why it was given up.
func (a Aide) Because() string {
	if a.Spent {
		return "as its chain of runs has used up its tokens"
	}
	return fmt.Sprintf("after %d restarts in a row", a.Restarts)
}

package aidefile

import (
	"strings"
	"time"
)

// Kind is the kind of event that a trigger waits for.
type Kind uint8

const (
	Manual Kind = iota // a person
	Cron               // a time
	Issue              // an open issue on GitHub with the agent's label
)

// Schedule is the schedule of a trigger. Next returns the first time after another.
type Schedule interface {
	Next(after time.Time) time.Time
	String() string
}

// Trigger starts runs.
type Trigger struct {
	Kind     Kind
	Schedule Schedule // of Cron
}

const cronPrefix = "cron:"

// String returns the trigger as an Aidefile spells it.
func (t Trigger) String() string {
	switch t.Kind {
	case Cron:
		return cronPrefix + t.Schedule.String()
	case Issue:
		return "issue"
	}
	return "manual"
}

// Task returns the task of a run that was started without one.
func (t Trigger) Task() string {
	if t.Kind == Cron {
		return "Scheduled run (" + cronPrefix + " " + t.Schedule.String() + "). Check for pending work and execute."
	}
	return "Check for pending work and execute."
}

// CutCron returns the expression of a trigger that begins with "cron:".
func CutCron(text string) (expr string, ok bool) {
	expr, ok = strings.CutPrefix(text, cronPrefix)
	return strings.TrimSpace(expr), ok
}

package aidefile

import (
	"strings"
	"time"
)

// Kind is what a trigger waits for.
type Kind uint8

const (
	Manual Kind = iota // a person
	Cron               // a time
	Issue              // an open issue on GitHub with the agent's label
)

// Schedule is when a trigger is due: Next is the first time after another.
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

// String is the trigger as an Aidefile spells it.
func (t Trigger) String() string {
	switch t.Kind {
	case Cron:
		return cronPrefix + t.Schedule.String()
	case Issue:
		return "issue"
	}
	return "manual"
}

// Task is what an agent is told that nobody gave a task.
func (t Trigger) Task() string {
	if t.Kind == Cron {
		return "Scheduled run (" + cronPrefix + " " + t.Schedule.String() + "). Check for pending work and execute."
	}
	return "Check for pending work and execute."
}

// Describe is a list of triggers in words.
func Describe(all []Trigger) string {
	words := make([]string, len(all))
	for i, t := range all {
		words[i] = t.String()
	}
	return strings.Join(words, ", ")
}

// CutCron is the expression of a trigger that begins with "cron:".
func CutCron(text string) (expr string, ok bool) {
	expr, ok = strings.CutPrefix(text, cronPrefix)
	return strings.TrimSpace(expr), ok
}

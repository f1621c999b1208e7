package trigger

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
)

// Reason explains the state of an agent, or returns "" if its supervisor does.
func (a *Info) Reason() string {
	switch a.State {
	case aidefile.Idle.String():
		return "waits for " + strings.Join(a.Triggers, ", ")
	case aidefile.Done.String():
		return "has run, and waits to be started"
	case aidefile.GivenUp.String():
		return "given up " + a.because() + "; runs once for each trigger, starts over with coppice reset"
	}
	return ""
}

// Outlook returns what happens to an agent next and what people can do, or "" if its supervisor does.
func (a *Info) Outlook(path string) (next, hint string) {
	switch a.State {
	case aidefile.Idle.String(), aidefile.Done.String():
		return "it runs " + when(a.Triggers), "to run it now: coppice fire " + path
	case aidefile.GivenUp.String():
		return fmt.Sprintf("it was given up %s, and runs once %s, until it succeeds", a.because(), when(a.Triggers)),
			"at once, with a fresh count: coppice reset " + path
	case aidefile.Stopped.String():
		return "its triggers start no run until it is started or resumed",
			"to wait for its triggers: coppice resume " + path + "; to start it now: coppice start " + path
	}
	return "", ""
}

// when returns the condition under which triggers start a run.
func when(triggers []string) string {
	all := make([]string, len(triggers))
	for i, t := range triggers {
		switch t {
		case aidefile.Trigger{}.String():
			all[i] = "when a person starts it"
		case aidefile.Trigger{Kind: aidefile.Issue}.String():
			all[i] = "when there is an issue with its label"
		default:
			all[i] = "at its time (" + t + ")"
		}
	}
	return strings.Join(all, " or ")
}

// Evidence returns facts about the runs of an agent.
func (a *Info) Evidence() (all []string) {
	if a.Fired != nil {
		all = append(all, fmt.Sprintf("its last run was started by %s, %v ago: %s", a.FiredBy,
			max(0, time.Since(*a.Fired)).Round(time.Second), a.Task))
	}
	if a.Unread != "" {
		all = append(all, "what its last run has used is known only in part: "+a.Unread)
	}
	if a.Failing != "" {
		all = append(all, "its issues cannot be listed: "+a.Failing)
	}
	return all
}

// because returns why the agent was given up.
func (a *Info) because() string {
	if a.Spent {
		return "as its chain of runs has used up its tokens"
	}
	return fmt.Sprintf("after %d restarts in a row", a.Restarts)
}

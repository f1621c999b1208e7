package trigger

import (
	"context"
	"sync"

	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/supervisor"
)

// agent is an agent with an Aidefile.
type agent struct {
	gate     *runGate
	starting sync.Mutex // held while a run is started
	counting sync.Mutex // held while the calls of its last run are counted

	mu      sync.Mutex
	file    *aidefile.Agent
	request runner.RunRequest // of the last run
	queue   *aidefile.Queue
	changed bool               // the queue has changed since it was written
	unsaved bool               // the request has
	held    supervisor.Reason  // why a person has stopped it after its supervisor forgot it
	failing string             // why its issues cannot be listed
	unwatch context.CancelFunc // ends the watch of its triggers

	launched bool             // a run has begun since it was added
	known    callfile.Records // what was read last of its last run
	unread   string           // why no more is known of it; empty if all is
	lost     bool             // its machine is, with what is not known of it
}

func newAgent(file *aidefile.Agent, queue *aidefile.Queue, goesOn bool) *agent {
	a := &agent{file: file, gate: newRunGate(file.File.Policy, goesOn), request: manualRequest(), queue: queue}
	a.gate.ended = a.runEnded
	return a
}

// restore sets the request of the run that is in progress or pending.
func (a *agent) restore(q runner.RunRequest) {
	if a.request = q; q.Issue > 0 {
		a.queue.Take(q.Issue, q.Task)
	}
}

func (a *agent) hasLaunched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.launched
}

// policy returns the current policy.
func (a *agent) policy() aidefile.Policy {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.File.Policy
}

// settings returns the settings of its project.
func (a *agent) settings() aidefile.Settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.Settings
}

// replaceWatch ends the watch of the triggers, and keeps the function that ends the next.
func (a *agent) replaceWatch(unwatch context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unwatch != nil {
		a.unwatch()
	}
	a.unwatch = unwatch
}

// heldBy returns why the agent is down, if its supervisor has forgotten it and a person
// has stopped it.
func (a *agent) heldBy() supervisor.Reason {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

func (a *agent) isHeld() bool { return a.heldBy() != supervisor.NoReason }

func (a *agent) hold(why supervisor.Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = why
}

// currentRequest returns the request of its last run.
func (a *agent) currentRequest() runner.RunRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.request
}

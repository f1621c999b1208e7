// Package far follows calls of command lines on other nodes of a fleet. The files of a session are read on the node of
// the agent, which has a Server, an HTTP handler. The controller has a Client for each node, and a Follower for each
// call, which is used like a session.Follower and never waits for the node, except at the end of the call.
//
// A Client asks for all of its calls that want to know more in one request, and has one request in progress, so that
// the number of requests does not depend on that of agents. An answer has the whole report of each call that has
// changed, and counts of what the call has told. So an answer that is lost, or comes twice, changes nothing. A node
// that does not know a call, since its daemon was started again for example, gets its description again, and reads the
// files from the start. So does the next controller.
//
// While the node does not answer, a Follower reports what it knows. Times are those of the node.
package far

import (
	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Path is the route that a Server answers.
const Path = "/v1/node/calls"

// Told counts what a call has told that matters while it goes on.
type Told struct {
	Answers  uint64 `json:"answers,omitempty"`  // signs that the model has answered
	Failures uint64 `json:"failures,omitempty"` // of calls of the model
	Limits   uint64 `json:"limits,omitempty"`   // states of the quotas of the account
}

// Add counts an event.
func (t *Told) Add(e agentcli.Event) {
	switch e.Kind {
	case agentcli.Limit:
		t.Limits++
	case agentcli.Retry, agentcli.Failed:
		t.Failures++
	case agentcli.Message, agentcli.Tool:
		t.Answers++
	case agentcli.Tokens:
		if e.Scope == agentcli.OfMessage && e.Usage.Tokens() > 0 {
			t.Answers++
		}
	}
}

// update raises counts to those that another Told has, and returns by how much.
func (t *Told) update(to Told) (more Told) {
	raise := func(have *uint64, to uint64) (by uint64) {
		if to > *have {
			by, *have = to-*have, to
		}
		return by
	}
	return Told{
		Answers: raise(&t.Answers, to.Answers), Failures: raise(&t.Failures, to.Failures),
		Limits: raise(&t.Limits, to.Limits),
	}
}

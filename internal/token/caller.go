package token

import (
	"errors"
	"fmt"
)

// Errors of tokens. The API maps them to the status codes 410 and 503.
var (
	// ErrStale is returned if a token belongs to no running incarnation.
	ErrStale = errors.New("incarnation is over")
	// ErrPending is returned while a starting daemon does not know all tokens yet.
	ErrPending = errors.New("agents are still being taken over")
)

// Caller is the incarnation that sends a request. It is the zero value for people.
type Caller struct {
	_ struct{} `doc:"One incarnation of an agent."`

	Path        string `json:"path" doc:"Path of the agent."`
	Incarnation uint64 `json:"incarnation" minimum:"1" doc:"Its number, from 1."`
}

// Name returns a name of the agent for people. An agent without a path is in tmux, or runs as
// another user.
func (c Caller) Name() string {
	if c.Path == "" {
		return "an agent in the project's tmux server or of another user"
	}
	return "agent " + c.Path
}

// Stale returns the error of a request whose incarnation has ended.
func Stale(who Caller) error {
	return fmt.Errorf("%w: incarnation %d of %s", ErrStale, who.Incarnation, who.Path)
}

package acp

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Conversation is the work on one prompt.
type Conversation struct {
	Dir     string // of the session, an absolute path
	Servers []MCPServer
	Prompt  string
	// Session is a session to continue with the prompt GoOn. If it is empty, or the agent cannot continue it, Prompt
	// begins a new one.
	Session, GoOn string
}

const (
	openTimeout   = 2 * time.Minute // for a new session, which waits for its servers, or a long one that continues
	cancelTimeout = time.Second     // for what the agent reports after the work was cancelled
)

// Converse has an agent, which Dial describes, work on a prompt, and ends the connection. Options.Event gets all that
// tells how it has ended, also if it could not begin. When ctx ends, the agent is told to cancel the work, and has a
// second to report its end.
func Converse(ctx context.Context, stdin io.WriteCloser, stdout io.ReadCloser, o Options, c Conversation) {
	o.Event = ofWork(o.Event)
	client, err := Dial(ctx, stdin, stdout, o)
	if err == nil {
		if err = client.converse(ctx, c); errors.As(err, new(*Error)) {
			err = nil // the client has reported it
		}
		client.Close()
	}
	if err != nil && ctx.Err() == nil { // what comes later is dropped
		o.Event(agentcli.Event{Kind: agentcli.Failed, Failure: failureOf(err)})
	}
}

// ofWork leaves out what an agent does when it does not work on a prompt, such as the history of a session.
func ofWork(each func(agentcli.Event)) func(agentcli.Event) {
	works := false
	return func(e agentcli.Event) {
		switch e.Kind {
		case agentcli.Turn:
			works = true
		case agentcli.Result:
			works = false
		case agentcli.Message, agentcli.Tool, agentcli.Permission:
			if !works {
				return
			}
		}
		if each != nil {
			each(e)
		}
	}
}

// failureOf returns an error as a failure.
func failureOf(err error) agentcli.Failure {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Failure()
	}
	return agentcli.Failure{Code: protocolError, Text: clipTo(err.Error(), maxMessage), Source: agentcli.FromStream}
}

// converse opens the session and waits for the end of the work.
func (c *Client) converse(ctx context.Context, o Conversation) error {
	id, prompt, err := c.openSession(ctx, o)
	if err != nil {
		return err
	}
	prompting, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	defer context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(prompting, cancelTimeout)
		defer cancel()
		c.Cancel(last, id) // an agent that does not read its input is left
		<-last.Done()
		leave()
	})()
	_, err = c.Prompt(prompting, id, prompt)
	return err
}

// openSession begins or continues the session, and returns its ID and the prompt.
func (c *Client) openSession(ctx context.Context, o Conversation) (id, prompt string, err error) {
	late := errors.New("the agent has not opened the session within " + openTimeout.String())
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, late)
	defer cancel()
	if o.Session != "" && (c.agent.Resume || c.agent.Load) {
		if c.agent.Resume {
			err = c.Resume(ctx, o.Session, o.Dir, o.Servers)
		} else {
			err = c.Load(ctx, o.Session, o.Dir, o.Servers)
		}
		// gemini, for example, reports that it can, and does not find its sessions.
		if e, refused := errors.AsType[*Error](err); !refused || e.Code == codeAuthRequired {
			return o.Session, o.GoOn, err
		}
	}
	id, err = c.New(ctx, o.Dir, o.Servers)
	return id, o.Prompt, err
}

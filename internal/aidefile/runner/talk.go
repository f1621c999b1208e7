package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/acp"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// talk is a call of an agent that speaks the Agent Client Protocol: what its process reads and writes is a
// conversation.
type talk struct {
	stdin  *os.File       // of the process
	output *io.PipeWriter // gets its standard output
	exit   chan string
	cancel context.CancelFunc // of the work
	over   chan struct{}      // closed when the conversation is over
	remove func()
}

// cancelTime is the time between the end of the work and the stop signal, for the agent to end by itself.
const cancelTime = time.Second

// talk begins the conversation of a call, before its process starts.
func (r *Runner) talk(q question, c *call.Call) (*talk, error) {
	servers, remove, err := r.ownServer()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArguments, err)
	}
	stdin, toAgent, err := os.Pipe()
	if err != nil {
		remove()
		return nil, fmt.Errorf("%w: %w", errArguments, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	fromAgent, output := io.Pipe()
	t := &talk{stdin, output, make(chan string, 1), cancel, make(chan struct{}), remove}
	log := talkLog{out: r.out}
	options := acp.Options{
		Grace: call.Grace, Exit: t.exit, Permit: r.permit,
		Event: func(e agentcli.Event) {
			c.Add(e)
			log.add(e)
		},
	}
	work := acp.Conversation{
		Dir: filepath.Dir(r.request.Aidefile), Servers: servers, Prompt: q.prompt, Session: q.session, GoOn: q.goOn,
	}
	go func() {
		defer close(t.over)
		acp.Converse(ctx, toAgent, fromAgent, options, work)
	}()
	return t, nil
}

// Started is part of call.Talk: it follows the process of the conversation.
func (t *talk) Started(p *proc.Process) {
	t.stdin.Close() // so that a write fails once the process has ended
	go func() {
		<-p.Done()
		<-p.Drained()
		how := ""
		if exit := p.Exit(); exit.Kind != supervisor.Normal {
			how = exit.String()
		}
		t.exit <- how
		t.output.Close()
	}()
}

// Stop is part of call.Talk: it has the agent cancel its work, and gives it some time to end.
func (t *talk) Stop() {
	t.cancel()
	select {
	case <-t.over:
	case <-time.After(cancelTime):
	}
}

// Over is part of call.Talk.
func (t *talk) Over() <-chan struct{} { return t.over }

// close waits for the end of the conversation, and frees what it has. The process has ended, or has not started.
func (t *talk) close() {
	t.cancel()
	t.stdin.Close()
	t.output.Close()
	<-t.over
	t.remove()
}

// mcpName is the name under which the agent knows coppice mcp.
const mcpName = "coppice"

// permit is the policy for what the agent asks permission for.
func (r *Runner) permit(ctx context.Context, q acp.PermissionRequest) string {
	option := acp.Allow(r.file.Allow, mcpName)(ctx, q)
	if option == "" {
		r.say("not allowed: %q, of the kind %s; see [acp] in the Aidefile", q.Title, q.KindName())
	}
	return option
}

// tokenName is the file with the token of the incarnation, while it talks to an agent.
const tokenName = "token"

// ownServer returns coppice mcp, with which the agent acts for this incarnation; none if there is no daemon. The token
// is in a file, since agents may show the environment of a server to all users of the machine, as arguments.
func (r *Runner) ownServer() (all []acp.MCPServer, remove func(), err error) {
	socket, token := r.env[proc.EnvSocket], r.env[proc.EnvToken]
	if socket == "" || token == "" {
		return nil, func() {}, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(r.dir, tokenName)
	if err := private.Replace(path, []byte(token)); err != nil {
		return nil, nil, err
	}
	return []acp.MCPServer{{
		Name: mcpName, Command: exe, Args: []string{"mcp", "--token-file", path},
		Env: []acp.Env{{Name: proc.EnvSocket, Value: socket}},
	}}, func() { os.Remove(path) }, nil
}

// talkLog writes what an agent says and does as text.
type talkLog struct {
	out    io.Writer
	inLine bool
}

func (l *talkLog) add(e agentcli.Event) {
	switch e.Kind {
	case agentcli.Message:
		if !e.Delta {
			l.endLine()
		}
		io.WriteString(l.out, e.Text)
		l.inLine = !strings.HasSuffix(e.Text, "\n")
	case agentcli.Tool:
		l.endLine()
		if !e.Done {
			fmt.Fprintf(l.out, "tool: %s\n", e.Tool)
		} else if !e.OK {
			fmt.Fprintf(l.out, "tool failed: %s\n", e.Tool)
		}
	case agentcli.Result:
		l.endLine()
	}
}

func (l *talkLog) endLine() {
	if l.inLine {
		io.WriteString(l.out, "\n")
		l.inLine = false
	}
}

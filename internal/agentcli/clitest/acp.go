package clitest

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/acp"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// startACP starts a run of an agent that speaks the Agent Client Protocol. It ends with its prompt.
func (h *Home) startACP(t testing.TB, session, prompt string, each func(agentcli.Event)) *Run {
	t.Helper()
	stdin, toAgent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	fromAgent, toClient := io.Pipe()
	r := h.newRun(session, nil)
	r.start(t, proc.Command{Argv: h.command(""), Stdin: stdin}, func(p []byte) { toClient.Write(p) })
	exit := make(chan string, 1)
	go func() {
		<-r.process.Done()
		<-r.process.Drained()
		exit <- r.process.Exit().String()
		toClient.Close()
	}()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	client, err := acp.Dial(ctx, toAgent, fromAgent, acp.Options{
		Event: each, Exit: exit, Grace: stopGrace, InitializeTimeout: stopGrace,
		Permit: func(_ context.Context, p acp.PermissionRequest) string {
			if p.Kind != "execute" {
				return "" // only shell commands are allowed, as in the runs of claude
			}
			return p.Option(acp.AllowOnce)
		},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	r.report = func() agentcli.Report {
		if s := client.Stats(); s != (acp.Stats{}) {
			t.Errorf("against the protocol: %+v", s)
		}
		return client.Report()
	}
	if session == "" {
		session, err = client.New(ctx, h.work, nil)
	} else {
		err = client.Resume(ctx, session, h.work, nil)
	}
	if err != nil {
		client.Close()
		return r // its report has the failure
	}
	go func() {
		client.Prompt(ctx, session, prompt) // its report has the end
		client.Close()
	}()
	return r
}

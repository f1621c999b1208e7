package fakeagent

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/acp"
)

// talk has the fake of claude-agent-acp work on a prompt. stop is called with each event and may end the work.
func (f *fake) talk(session string, stop func(agentcli.Event, func())) (agentcli.End, []agentcli.Event) {
	f.t.Helper()
	stdin, toAgent, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	fromAgent, stdout, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := f.command(agentcli.ACP)
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	stream := agentcli.Stream{CLI: agentcli.ACP}
	var seen []agentcli.Event
	acp.Converse(ctx, toAgent, fromAgent, acp.Options{Grace: 100 * time.Millisecond, Event: func(e agentcli.Event) {
		stream.Add(e)
		seen = append(seen, e)
		stop(e, cancel)
	}}, acp.Conversation{Dir: cmd.Dir, Session: session, Prompt: "What is the answer?", GoOn: "Go on."})
	cmd.Process.Kill() // one that stays
	cmd.Wait()
	end := agentcli.End{CLI: agentcli.ACP, Vendor: agentcli.Claude, Output: stream.Report(), Now: time.Now(), Local: time.UTC}
	return end, seen
}

// Each scenario is classified as what it plays, and its tokens are those of its messages.
func TestACP(t *testing.T) {
	t.Parallel()
	for _, info := range Scenarios() {
		if !slices.Contains(info.CLIs, agentcli.ACP) {
			continue
		}
		t.Run(string(info.Scenario), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, string(info.Scenario)+"+2h")
			end, seen := f.talk("", func(e agentcli.Event, cancel func()) {
				if info.Scenario == Silent && e.Kind == agentcli.Turn || info.Scenario == Loop && e.Kind == agentcli.Tool {
					cancel()
				}
			})
			expected := obstacles[info.Scenario]
			if info.Scenario == Hang {
				expected = ""
			}
			v := agentcli.Classify(end)
			if v.Obstacle != expected || info.Scenario == Quota && v.Reset.Before(time.Now().Add(time.Hour)) {
				t.Errorf("%s: %s (%s), reset %v\n%+v", v.Obstacle, v.Reason, v.Rule, v.Reset, seen)
			}
			messages := map[Scenario]int64{OK: 1, Tool: 2, Commit: 2, Rate: 1, Split: 2, Orphan: 2, Hang: 1, Refused: 1,
				Unusable: 1, Wide: 1, Block: 1}
			if n := end.Output.Tokens(); n != messages[info.Scenario]*MessageTokens {
				t.Errorf("%d tokens, expected %d messages", n, messages[info.Scenario])
			}
			if calls, err := f.set.Calls(); err != nil || len(calls) != 1 || calls[0].CLI != agentcli.ACP {
				t.Errorf("the record has %+v, %v", calls, err)
			}
			if info.Scenario == Orphan {
				f.awaitOrphan(agentcli.ACP)
			}
		})
	}
}

// A session continues. In place of one that does not exist, another one begins.
func TestACPContinues(t *testing.T) {
	t.Parallel()
	f := newFake(t, "ok")
	none := func(agentcli.Event, func()) {}
	first, _ := f.talk("", none)
	next, _ := f.talk(first.Output.Session, none)
	if s := next.Output; s.Session == "" || s.Session != first.Output.Session || s.Tokens() != MessageTokens {
		t.Errorf("%+v", s)
	}
	const lost = "00000000-0000-4000-8000-000000000000"
	second, _ := f.talk(lost, none)
	if s := second.Output; s.Session == "" || s.Session == lost || s.Failed {
		t.Errorf("%+v", s)
	}
}

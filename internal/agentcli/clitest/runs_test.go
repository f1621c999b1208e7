package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// waitLimit returns the time after which a wait has failed. A run of the short form takes some seconds on a machine
// without other work, and one of the long form up to four minutes.
func waitLimit() time.Duration {
	if *long {
		return 20 * time.Minute
	}
	return 5 * time.Minute
}

// start starts a run.
func (c *check) start(t *testing.T, session string, each func(agentcli.Event)) *Run {
	t.Helper()
	c.since = len(c.model.Ledger(tag))
	c.last = c.home.Start(t, session, prompt, each)
	return c.last
}

// await waits for what a run does. A run that ends before has failed.
func await[T any](t *testing.T, r *Run, what string, c <-chan T) {
	t.Helper()
	limit := time.NewTimer(waitLimit())
	defer limit.Stop()
	select {
	case <-c:
	case <-r.Done():
		select {
		case <-c: // both have happened
		default:
			t.Fatalf("it has ended before %s\n%s", what, r)
		}
	case <-limit.C:
		t.Fatalf("it takes too long until %s\n%s", what, r)
	}
}

// ends waits for the end of a run.
func ends(t *testing.T, r *Run) agentcli.End {
	t.Helper()
	await(t, r, "its end", r.Done())
	return r.End(t)
}

// completed is a run that ends on its own.
func completed(t *testing.T, c *check) agentcli.End { return ends(t, c.start(t, "", nil)) }

// resumed is a run that continues the session of another one. Both are checked.
func resumed(t *testing.T, c *check) agentcli.End {
	first := ends(t, c.start(t, "", nil))
	c.holds(t, first)
	c.holdsAnswer(t, first)
	end := c.resume(t, first)
	if !c.model.continues(c.since) {
		t.Errorf("the model was not asked to continue: %+v", c.model.Ledger(tag)[c.since:])
	}
	return end
}

// resumedKilled is a run that continues the session of one that was killed. What that has used is not counted twice.
func resumedKilled(t *testing.T, c *check) agentcli.End {
	first := killedInTool(t, c)
	c.model.answers(t, "normal")
	return c.resume(t, first)
}

// resume runs a command line again, with the session of a run that has ended.
func (c *check) resume(t *testing.T, before agentcli.End) agentcli.End {
	t.Helper()
	session := before.Record().Session
	if session == "" {
		t.Fatalf("no session\n%s", c.last)
	}
	end := ends(t, c.start(t, session, nil))
	c.holdsAnswer(t, end)
	if id := end.Record().Session; id != session {
		t.Errorf("session %s continues as %s", session, id)
	}
	return end
}

// resumedUnknown is a run that continues a session which does not exist.
func resumedUnknown(t *testing.T, c *check) agentcli.End {
	id := "00000000-0000-4000-8000-000000000000"
	if c.kind == Opencode {
		id = "ses_000000000000000000000000000"
	}
	return ends(t, c.start(t, id, nil))
}

// denied is a run whose tool is not allowed to write a file outside of its directory.
func denied(t *testing.T, c *check) agentcli.End {
	file := filepath.Join(t.TempDir(), "file")
	answers := "tool=echo x >" + file
	if c.kind != Copilot { // the others have a tool for shell commands that is allowed to
		answers = fmt.Sprintf(`call=Write:{"file_path":%q,"content":"x"}`, file)
	}
	c.model.answers(t, answers)
	end := ends(t, c.start(t, "", nil))
	if _, err := os.Stat(file); err == nil || end.Record().Obstacle != outcome.PermissionDenied {
		t.Errorf("the tool was not denied: %v", err)
	}
	return end
}

// inTool starts a run and waits until its tool runs.
func inTool(t *testing.T, c *check) (*Run, *Tool) {
	t.Helper()
	tool := c.home.NewTool(t)
	c.model.answers(t, "tool="+tool.Command())
	said := make(chan struct{}, 1000)
	r := c.start(t, "", func(e agentcli.Event) {
		if e.Kind == agentcli.Tool {
			said <- struct{}{}
		}
	})
	await(t, r, "its tool runs", tool.Runs())
	if c.kind != Opencode { // which reports a tool when that has ended
		await(t, r, "it reports its tool", said)
	}
	return r, tool
}

// stoppedInTool is a run that is stopped while a tool runs. Nothing is left of the tool.
func stoppedInTool(t *testing.T, c *check) agentcli.End {
	r, tool := inTool(t, c)
	r.Stop(agentcli.ByOperator)
	end := ends(t, r)
	tool.AwaitEnd(t, stopGrace)
	return end
}

// killedInTool is a run that is killed while a tool runs.
func killedInTool(t *testing.T, c *check) agentcli.End {
	r, tool := inTool(t, c)
	r.Kill()
	end := ends(t, r)
	tool.AwaitEnd(t, stopGrace)
	return end
}

// inAnswer starts a run and waits until the model has begun to answer, and says no more.
func inAnswer(t *testing.T, c *check) *Run {
	t.Helper()
	told := make(chan struct{}, 1000)
	r := c.start(t, "", func(e agentcli.Event) {
		if e.Kind == agentcli.Tokens {
			told <- struct{}{}
		}
	})
	await(t, r, "it asks the model", c.model.asked)
	if c.answers == "hangmid" && c.kind.CLI() == agentcli.Claude {
		await(t, r, "it reports the beginning of the answer", told)
	}
	return r
}

// stoppedInText is a run that is stopped in the middle of an answer.
func stoppedInText(t *testing.T, c *check) agentcli.End {
	r := inAnswer(t, c)
	r.Stop(agentcli.ByOperator)
	return ends(t, r)
}

// killedInText is a run that is killed in the middle of an answer.
func killedInText(t *testing.T, c *check) agentcli.End {
	r := inAnswer(t, c)
	r.Kill()
	return ends(t, r)
}

// silent is a run that is stopped because the model says nothing.
func silent(t *testing.T, c *check) agentcli.End {
	r := inAnswer(t, c)
	r.Stop(agentcli.Silent)
	return ends(t, r)
}

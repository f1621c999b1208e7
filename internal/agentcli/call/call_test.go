package call

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
)

const (
	step   = `{"type":"step_start","sessionID":"s"}` + "\n"
	begins = `{"type":"system","subtype":"init","session_id":"s"}` + "\n"
	tool   = `{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash"}],` +
		`"usage":{"input_tokens":10,"output_tokens":1}}}` + "\n"
	result = `{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"output_tokens":30}}` + "\n"
)

func TestStale(t *testing.T) {
	const linger, silence = 10 * time.Second, time.Minute
	for name, c := range map[string]struct {
		argv   string
		cli    agentcli.CLI
		writes string
		after  time.Duration
		want   agentcli.Stop
	}{
		"its end has come":             {"claude", agentcli.Claude, begins + result, linger + 1, agentcli.AfterItsEnd},
		"its end has just come":        {"claude", agentcli.Claude, begins + result, linger, agentcli.NotStopped},
		"the model is silent":          {"claude", agentcli.Claude, begins, silence + 1, agentcli.Silent},
		"the model thinks":             {"claude", agentcli.Claude, begins, silence, agentcli.NotStopped},
		"a tool works":                 {"claude", agentcli.Claude, begins + tool, time.Hour, agentcli.NotStopped},
		"nothing was reported":         {"claude", agentcli.Claude, "hello\n", time.Hour, agentcli.NotStopped},
		"a script":                     {"./work.sh", agentcli.Claude, begins + result, time.Hour, agentcli.NotStopped},
		"an unknown command line":      {"claude", agentcli.Plain, begins + result, time.Hour, agentcli.NotStopped},
		"opencode does not tell tools": {"opencode", agentcli.Opencode, step, time.Hour, agentcli.NotStopped},
	} {
		synctest.Test(t, func(t *testing.T) {
			one := New([]string{c.argv}, session.Call{CLI: c.cli, Dir: "/"})
			one.Write([]byte(c.writes))
			time.Sleep(c.after)
			if err := one.Stale(linger, silence); StopOf(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if err := error(&SilentError{15 * time.Minute}); err.Error() != "the model was silent for 15m0s" {
		t.Error(err)
	}
	if stop := StopOf(errors.New("x")); stop != agentcli.NotStopped {
		t.Error(stop)
	}
}

// What the output and the file of the session have is one record. Either is a sign of life.
func TestFiles(t *testing.T) {
	home := t.TempDir()
	began := time.Now()
	file := filepath.Join(home, "projects", "p", "session-1.jsonl")
	write := func(tokens string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.WriteString(`{"type":"assistant","sessionId":"session-1","timestamp":"` +
			time.Now().UTC().Format(time.RFC3339Nano) + `","message":{"id":"` + tokens +
			`","model":"m","usage":{"output_tokens":` + tokens + `}}}` + "\n")
	}
	c := New([]string{"claude"}, session.Call{
		CLI: agentcli.Claude, Env: []string{"CLAUDE_CONFIG_DIR=" + home}, Dir: home, Began: began,
	})
	if r := c.Counts(); r.Tokens != nil || !r.Began.Equal(began) {
		t.Errorf("at the start: %+v", r)
	}
	c.Write([]byte(`{"type":"system","subtype":"init","session_id":"session-1"}` + "\n"))
	select {
	case <-c.More():
	default:
		t.Error("nothing tells that it has written")
	}
	write("20")
	if !c.Poll() || c.Poll() {
		t.Error("the file was not read, or was at once read again")
	}
	if r := c.Counts(); r.Tokens == nil || *r.Tokens != 20 || r.UsageFrom != agentcli.FromSession {
		t.Errorf("after a message: %+v", r)
	}
	c.last = time.Now().Add(-time.Hour)
	write("7")
	c.polled = time.Time{}
	if !c.Poll() || c.Quiet() > time.Minute {
		t.Errorf("quiet for %v", c.Quiet())
	}
	write("3")
	c.WriteError([]byte("half a line"))
	c.Finish()
	record := c.End("signal: killed", 0, agentcli.NotStopped).Record()
	if record.Tokens == nil || *record.Tokens != 30 || record.Session != "session-1" ||
		record.Reason != "signal: killed" {
		t.Errorf("at the end: %+v", record)
	}
}

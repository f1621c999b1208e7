package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/quota"
)

// newFakeFleet is a project with agents that run fakes of command lines, in a home of their own.
func newFakeFleet(t *testing.T, plan, toml string) *fleet {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"claude", "codex"} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := fakeagent.Parse(plan)
	if err != nil {
		t.Fatal(err)
	}
	f := fleetIn(t, dir, toml)
	f.env = []string{
		"HOME=" + dir, "PATH=" + dir + ":" + os.Getenv("PATH"),
		fakeagent.EnvName + "=" + fakeagent.Setting{Plan: p, Start: time.Now(), Dir: dir}.Env(),
	}
	return f
}

// rollout returns the files of the sessions of codex.
func (f *fleet) rollout() string {
	files, err := filepath.Glob(filepath.Join(f.dir, ".codex", "sessions", "*", "*", "*", "*.jsonl"))
	if err != nil {
		f.t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// messages returns how many messages codex has counted in the files of its sessions.
func (f *fleet) messages() int { return strings.Count(f.rollout(), `"token_usage_record"`) }

// kill kills the process of an agent, and waits until it was taken note of.
func (f *fleet) kill(path string) {
	f.t.Helper()
	exectest.Signal(f.t, f.node(path).PID, syscall.SIGKILL)
	f.awaitState(path, "stopped")
}

// What an agent has used that is killed is known from the file of its session, also in tmux, where its output is a
// screen. It is counted once, whether the daemon that sees its end is the one that has started it, or another, or the
// end comes before that.
func TestCostOfKilled(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"proc", "tmux"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			if runtime == "tmux" {
				needTmux(t)
			}
			f := newFakeFleet(t, "loop,pace=50ms", fmt.Sprintf("[[agent]]\nname = \"a\"\nrestart = \"never\"\n"+
				"command = [\"codex\", \"exec\", \"--json\", \"fix it\"]\nruntime = %q\n", runtime))
			works := func() {
				t.Helper()
				n := f.messages()
				eventually(t, "that it works", func() bool { return f.messages() > n+2 })
			}
			calls, used := int64(0), int64(0)
			counted := func() {
				t.Helper()
				calls++
				eventually(t, "the call", func() bool {
					r := f.costs().Total
					return r.Calls == calls && r.Running == 0
				})
				used = int64(f.messages()) * fakeagent.MessageTokens
				f.wantCosts(calls, 0, used)
			}
			f.up()
			works()
			used = int64(f.messages()) * fakeagent.MessageTokens
			eventually(t, "what it has used so far", func() bool {
				r := f.costs().Total
				return r.Running == 1 && r.Calls == 1 && r.Tokens != nil && *r.Tokens >= used
			})
			f.kill("t/a")
			counted()

			f.do("start", "a")
			works()
			f.crash()
			f.wantCosts(calls, 0, used) // without a daemon, only what has ended
			works()
			f.up()
			used = int64(f.messages()) * fakeagent.MessageTokens
			eventually(t, "what it has used under both daemons", func() bool {
				r := f.costs().Total
				return r.Running == 1 && r.Calls == calls+1 && *r.Tokens >= used
			})
			f.kill("t/a")
			counted()

			f.do("start", "a")
			works()
			pid := f.node("t/a").PID
			f.crash()
			works()
			exectest.Signal(t, pid, syscall.SIGKILL)
			f.up()
			f.awaitState("t/a", "stopped")
			counted()
			f.crash()
			f.up()
			f.wantCosts(calls, 0, int64(f.messages())*fakeagent.MessageTokens)
		})
	}
}

// What an agent has reported counts, however much it has written since, and to whichever daemon.
func TestCostOfLongOutput(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 0)
	exectest.Write(t, filepath.Join(c.dir, "claude"), `#!/bin/sh
echo '{"type":"assistant","message":{"id":"m","usage":{"input_tokens":5,"output_tokens":2}}}'
seq 10000
exec sleep 1000
`)
	projectIn(t, c.dir, fmt.Sprintf("[[agent]]\nname = \"a\"\ncommand = [%q]\n", filepath.Join(c.dir, "claude")))
	c.up()
	eventually(t, "its output", func() bool { return strings.Contains(c.do("logs", "a", "-n", "1"), "10000") })
	c.crash()
	c.up()
	c.do("down")
	c.wantCosts(1, 0, 7)
}

// A plain agent whose process stays after its result is ended, and has completed.
func TestHangAfterResult(t *testing.T) {
	t.Parallel()
	f := newFakeFleet(t, "hang,pace=50ms", "[[agent]]\nname = \"a\"\nrestart = \"on-failure\"\n"+
		"command = [\"claude\", \"-p\", \"--output-format\", \"stream-json\", \"--verbose\", \"fix it\"]\n")
	f.up()
	began := time.Now()
	n := f.awaitState("t/a", "stopped")
	if took := time.Since(began); took < 8*time.Second || n.Restarts != 0 || n.Incarnation != 1 {
		t.Errorf("%+v, after %v", n, took)
	}
	if all := f.eventsOf("--type", string(event.AgentCrashed)); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	r := f.costs()
	if r.Total.Calls != 1 || r.Total.Tokens == nil || *r.Total.Tokens%fakeagent.MessageTokens != 0 {
		t.Errorf("%+v", r.Total)
	}
}

// A limit that an agent in tmux meets, and that is only in the file of its session, closes the quota while the agent
// goes on. Where two agents have the same directory, their files are told apart by nothing, and are not guessed.
func TestQuotaOfSessionFile(t *testing.T) {
	t.Parallel()
	needTmux(t)
	c := newClaudeFleet(t, 0)
	exectest.Write(t, filepath.Join(c.dir, "codex"), `#!/bin/sh
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
line() { echo '{"timestamp":"'$(now)'","type":"'$1'","payload":'"$2"'}' >>$file; }
dir=$CODEX_HOME/sessions/$(date -u +%Y/%m/%d); mkdir -p $dir
id=01a2200f-2b0d-7290-a8af-$(printf %012d $$); file=$dir/rollout-2026-11-28T00-00-00-$id.jsonl
line session_meta '{"id":"'$id'","session_id":"'$id'","timestamp":"'$(now)'","cwd":"'$PWD'"}'
line token_usage_record '{"response_id":"r","usage":{"output_tokens":7}}'
echo begun
until test -e limit; do sleep 0.02; done
line event_msg '{"type":"token_count","rate_limits":{"limit_id":"codex","primary":{"used_percent":100.0,"window_minutes":300,"resets_at":'$(($(date +%s) + 3600))'}}}'
line event_msg '{"type":"task_complete","error":{"message":"no more","codex_error_info":"usage_limit_exceeded"}}'
exec sleep 1000
`)
	var toml strings.Builder
	for name, dir := range map[string]string{"one": "one", "two": "both", "three": "both"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&toml, "[[agent]]\nname = %q\ncommand = [%q]\ndir = %q\nruntime = \"tmux\"\nrestart = \"never\"\n",
			name, filepath.Join(c.dir, "codex"), dir)
		fmt.Fprintf(&toml, "env = { CODEX_HOME = %q }\n", filepath.Join(c.dir, "home", dir))
	}
	projectIn(t, c.dir, toml.String())
	c.up()
	for _, name := range []string{"one", "two", "three"} {
		eventually(t, "that it has begun", func() bool {
			return strings.Contains(c.do("logs", name, "-n", "5"), "begun")
		})
	}
	write(t, filepath.Join(c.dir, "both", "limit"), "")
	write(t, filepath.Join(c.dir, "one", "limit"), "")
	eventually(t, "that the quota is closed", func() bool { return len(c.quotas()) > 0 })
	if all := c.quotas(); len(all) != 1 || all[0].State != quota.Parked || all[0].Agent != "t/one" {
		t.Errorf("%+v", all)
	}
	if n := c.node("t/one"); n.State != "running" || n.Incarnation != 1 {
		t.Errorf("%+v", n)
	}
	c.do("down")
	c.wantCosts(3, 2, 7)
}

// A run of an Aidefile whose login is not accepted closes the quota while it still tries again.
func TestQuotaOfRunInProgress(t *testing.T) {
	t.Parallel()
	a := newClaudeAidefile(t, noRetry, `echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"system","subtype":"api_retry","attempt":1,"error_status":401,"error":"authentication_failed"}'
exec sleep 1000
`)
	a.up()
	a.do("fire", "a", "do this")
	c := claudeFleet{a.fleet}
	eventually(t, "that the quota is closed", func() bool { return len(c.quotas()) > 0 })
	if q := c.quotas()[0]; q.State != quota.Stopped || q.Agent != "t/a" {
		t.Errorf("%+v", q)
	}
	if n := a.node("t/a"); n.State != "running" {
		t.Errorf("%+v", n)
	}
}

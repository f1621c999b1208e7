package trigger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

// Failures of gh are reported, and long lists of issues are read.
func TestListIssues(t *testing.T) {
	for _, c := range []struct {
		name, gh string // a shell script, or "" for none
		expected string // in the error
		count    int
	}{
		{"none", `echo '[]'`, "", 0},
		{"some", `echo '[{"number":7,"title":"t","body":"b"},{"number":0},{"number":-3}]'`, "", 1},
		{"a thousand", `printf '['; i=1000; while [ $i -gt 1 ]; do printf '{"number":%d,"title":"t","body":"%04000d"},' $i $i; i=$((i-1)); done; echo '{"number":1}]'`, "", 1000},
		{"gh is missing", "", "https://cli.github.com", 0},
		{"not logged in", `echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4`, "gh issue list: exit code 4: To get started with GitHub CLI, please run:  gh auth login", 0},
		{"rate limited", `echo 'GraphQL: API rate limit already exceeded for user ID 1.' >&2; exit 1`, "exit code 1: GraphQL: API rate limit already exceeded", 0},
		{"rate limited, and it says so to a terminal", `printf '\033[31mrate limit\033[0m\n' >&2; exit 1`, "rate limit", 0},
		{"no repository", `echo 'no git remotes found' >&2; exit 1`, "no git remotes found", 0},
		{"rubbish", `echo 'A new release of gh is available'`, "the list of issues cannot be read: ", 0},
		{"of another kind", `echo '{"number":7}'`, "the list of issues cannot be read: ", 0},
		{"cut off", `echo '[{"number":7,"title":"t'`, "the list of issues cannot be read: ", 0},
		{"nothing at all", `true`, "the list of issues cannot be read: ", 0},
		{"killed", `kill -9 $$`, "SIGKILL", 0},
		{"endless", `exec tr '\0' x </dev/zero`, "", -1},
		{"it hangs, and so does what it has started", `sleep 600 & trap "" TERM; sleep 600`, "gh has not ended within ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			timeout := time.Minute
			if strings.HasPrefix(c.expected, "gh has not ended") {
				timeout = 100 * time.Millisecond
			}
			path := dir
			if c.gh != "" {
				exectest.Write(t, filepath.Join(dir, "gh"), "#!/bin/sh\n"+c.gh+"\n")
				path += ":" + os.Getenv("PATH")
			}
			t.Setenv("PATH", path)
			f := aidefile.Default()
			f.Label = "bot"
			file := &aidefile.Agent{Path: filepath.Join(dir, "Aidefile"), File: f}
			open, err := listIssues(context.Background(), file, timeout)
			if c.count < 0 { // too much of it
				if err == nil {
					t.Error("no error")
				}
				return
			}
			got := fmt.Sprint(err)
			if c.expected == "" && err != nil || !strings.Contains(got, c.expected) || strings.ContainsRune(got, '\033') {
				t.Errorf("error %q, expected %q", got, c.expected)
			}
			if len(open) != c.count {
				t.Errorf("%d issues, expected %d", len(open), c.count)
			}
		})
	}
}

// fleet is a fleet of one agent, whose supervisor is never asked.
type fleet struct {
	Agents
	file *aidefile.Agent
}

func (f fleet) Aidefile(string) *aidefile.Agent { return f.file }

// The event of a reset may arrive after the next run has begun. The issue of that run stays taken,
// unlike the issue of a run that was stopped during a delay.
func TestIssueAfterAReset(t *testing.T) {
	file := &aidefile.Agent{Path: "/Aidefile", File: aidefile.Default()}
	m := New(Options{Agents: fleet{file: file}})
	m.Add("t/a", file, nil, Previous{})
	a := m.of("t/a")
	open := []aidefile.Ticket{{Number: 5, Title: "t"}}
	changed := func(reason supervisor.Reason) (again bool) {
		a.request.Issue = 5
		a.queue.Take(5, open[0].Task())
		m.Observe(supervisor.ChildChanged{
			EventHeader: supervisor.EventHeader{Supervisor: "t", ID: "a"}, State: supervisor.Stopped, Reason: reason,
		})
		_, again = a.queue.Next(open, true)
		return again
	}
	if changed(supervisor.ReasonReset) {
		t.Error("after a reset the issue of the run that has begun is started again")
	}
	if !changed(supervisor.ReasonTerminated) {
		t.Error("the issue of a run that was stopped is not started again")
	}
}

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// fakeGitHub stands in for gh, with a file for each issue in the directory open. The file broken
// makes gh fail; the file locked prevents it from closing issues.
type fakeGitHub struct {
	t   *testing.T
	dir string
}

func newFakeGitHub(t *testing.T, issues ...string) *fakeGitHub {
	t.Helper()
	g := &fakeGitHub{t, t.TempDir()}
	write(t, filepath.Join(g.dir, "gh"), `#!/bin/sh
cd "`+g.dir+`" || exit 9
case "$1 $2" in
"issue list") [ -e broken ] && { echo "gh: not logged in" >&2; exit 4; }; echo "$@" >>list.log
  sep=; printf '['; for i in open/*; do [ -e "$i" ] || continue; printf '%s{"number":%s,"title":"title %s","body":"body"}' "$sep" "${i#open/}" "${i#open/}"; sep=,; done; printf ']' ;;
"issue comment") echo "$3" >>comments ;;
"issue close") [ -e locked ] && exit 1; rm "open/$3" ;;
*) exit 8 ;;
esac
`)
	if err := os.Mkdir(filepath.Join(g.dir, "open"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.open(issues...)
	return g
}

// aider returns an aidefileFleet whose daemon finds this gh.
func (g *fakeGitHub) aider(aidefile, script string, settings ...string) *aidefileFleet {
	g.t.Helper()
	a := newAidefileFleet(g.t, aidefile, script, settings...)
	a.env = []string{"PATH=" + g.dir + ":" + os.Getenv("PATH")}
	return a
}

func (g *fakeGitHub) set(name string) { write(g.t, filepath.Join(g.dir, name), "") }

func (g *fakeGitHub) unset(name string) {
	g.t.Helper()
	if err := os.Remove(filepath.Join(g.dir, name)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *fakeGitHub) open(issues ...string) {
	for _, n := range issues {
		write(g.t, filepath.Join(g.dir, "open", n), "")
	}
}

func (g *fakeGitHub) remaining() int {
	all, _ := os.ReadDir(filepath.Join(g.dir, "open"))
	return len(all)
}

func (g *fakeGitHub) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(g.dir, name))
	return string(text)
}

// awaitCalls waits for n more calls of gh.
func (g *fakeGitHub) awaitCalls(n int) {
	g.t.Helper()
	before := strings.Count(g.read("list.log"), "\n")
	eventually(g.t, "more looks at the issues", func() bool { return strings.Count(g.read("list.log"), "\n") >= before+n })
}

const onIssues = "[trigger]\non = \"issue\"\nlabel = \"bot\"\n"

// Issues are taken one at a time, passed to the agent, and closed when done.
func TestAidefileIssues(t *testing.T) {
	t.Parallel()
	g := newFakeGitHub(t)
	g.set("broken")
	a := g.aider(noRetry+onIssues, `printf '%s\n' "$COPPICE_ISSUE $COPPICE_TASK" >>tasks; test "$COPPICE_ISSUE" != 5`, `poll_interval = "20ms"`)
	a.up()
	a.awaitEvents(event.AgentTriggerFailed, 1)
	if told := a.events(event.AgentTriggerFailed, "t/a"); !strings.Contains(told[0].Message, "gh: not logged in") {
		t.Errorf("%q", told[0].Message)
	}
	g.open("5", "7", "8")
	g.unset("broken")
	eventually(t, "two issues to be closed", func() bool { return g.remaining() == 1 })
	a.awaitEvents(event.AgentExited, 2)
	data, _ := os.ReadFile(filepath.Join(a.home, "tasks"))
	if want := "5 title 5\n\nbody\n7 title 7\n\nbody\n8 title 8\n\nbody\n"; string(data) != want {
		t.Errorf("tasks %q, want %q", data, want)
	}
	if text := g.read("comments"); text != "7\n8\n" {
		t.Errorf("comments %q", text)
	}
	if text := g.read("list.log"); !strings.HasPrefix(text, "issue list --state open --label bot --limit 1000 --json number,title,body\n") {
		t.Errorf("asked by %q", text)
	}
	// Issue 5 has failed and stays open. It is retried only on request.
	g.awaitCalls(3)
	a.wantRuns(3)
	a.do("reset", "a")
	eventually(t, "another try", func() bool { return len(a.runs()) == 4 })
}

// The next daemon knows which issues are done and which have failed; it runs neither.
func TestAidefileIssuesAfterTheDaemon(t *testing.T) {
	t.Parallel()
	g := newFakeGitHub(t, "5", "7")
	g.set("locked") // keep 7 open when it is done
	a := g.aider(noRetry+onIssues, `test "$COPPICE_ISSUE" != 5`, `poll_interval = "20ms"`)
	a.up()
	a.awaitEvents(event.AgentExited, 1)
	a.awaitEvents(event.AgentCrashed, 1)
	g.awaitCalls(3)
	a.wantRuns(2)
	a.do("down")
	a.up()
	g.awaitCalls(3)
	a.wantRuns(2)
	a.crash()
	a.up()
	g.awaitCalls(3)
	a.wantRuns(2)
	a.do("reset", "a")
	a.awaitEvents(event.AgentCrashed, 2)
	a.awaitEvents(event.AgentExited, 2)
	a.do("down")
	a.up()
	g.awaitCalls(3)
	a.wantRuns(4)
	g.open("9")
	eventually(t, "the new one", func() bool { return len(a.runs()) == 5 })
}

// An issue whose run was stopped is neither done nor failed.
func TestAidefileIssueOfAStoppedRun(t *testing.T) {
	t.Parallel()
	g := newFakeGitHub(t, "5")
	a := g.aider(noRetry+onIssues, `[ -e ok ] || read x <gate`, `poll_interval = "20ms"`)
	fifo(t, a.home, "gate")
	a.up()
	eventually(t, "the run", func() bool { return len(a.runs()) == 1 })
	a.crash() // the run continues, and the next daemon adopts it
	a.up()
	a.do("stop", "a")
	g.awaitNothing(a, 1)
	a.do("resume", "a")
	eventually(t, "it to be taken again", func() bool { return len(a.runs()) == 2 })
	a.do("down")
	a.touch("ok")
	a.up()
	eventually(t, "it to be taken again", func() bool { return len(a.runs()) == 3 })
	a.awaitEvents(event.AgentExited, 1)
	eventually(t, "it to be closed", func() bool { return g.remaining() == 0 })
	g.awaitCalls(3)
	a.wantRuns(3)
}

// awaitNothing checks that a stopped agent is not started although there are issues.
func (g *fakeGitHub) awaitNothing(a *aidefileFleet, runs int) {
	g.t.Helper()
	if n := a.node("t/a"); n.State != "stopped" || n.Aide.State != "stopped" {
		g.t.Errorf("%+v, %+v", n, n.Aide)
	}
	a.wantRuns(runs)
}

// A restart after a success does not concern an issue that is done.
func TestAidefileAlwaysAfterAnIssue(t *testing.T) {
	t.Parallel()
	g := newFakeGitHub(t, "5")
	a := g.aider(noRetry+onIssues+"[daemon]\nrestart = \"always\"\n", `printf '%s\n' "${COPPICE_ISSUE:-none}" >>issues`, `poll_interval = "20ms"`, soon)
	a.up()
	eventually(t, "three runs", func() bool { return len(a.runs()) >= 3 })
	a.do("down")
	text, _ := os.ReadFile(filepath.Join(a.home, "issues"))
	if first, rest, _ := strings.Cut(string(text), "\n"); first != "5" || strings.ReplaceAll(rest, "none\n", "") != "" {
		t.Errorf("issues of its runs: %q", text)
	}
}

// Giving up the chain of an issue ends the issue too.
func TestAidefileIssueGivenUp(t *testing.T) {
	t.Parallel()
	g := newFakeGitHub(t, "5")
	a := g.aider(onceMore+onIssues, `exit 1`, `poll_interval = "20ms"`, soon)
	a.up()
	a.awaitEvents(event.AgentGaveUp, 1)
	g.awaitCalls(3)
	a.wantRuns(3)
	a.do("down")
	a.up()
	g.awaitCalls(3)
	a.wantRuns(3)
	a.do("reset", "a")
	a.awaitEvents(event.AgentGaveUp, 2)
	g.awaitCalls(3)
	a.wantRuns(6)
}

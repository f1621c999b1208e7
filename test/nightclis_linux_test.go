package test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli/clitest"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakemodel"
	"github.com/coppice-dev/coppice/internal/task"
)

// newNightOf makes a night in which only one of the real claude and codex works, and their model is a server of the
// test. The directory outside is a repository to which neither may push, and in which neither may write.
func newNightOf(t *testing.T, cli clitest.Kind) (n night, model *fakemodel.Server, outside string) {
	t.Helper()
	exectest.Need(t, "git")
	set := clitest.Installed(t, filepath.Join(root, ".cache", "clis"))
	// codex may write anywhere in /tmp.
	base, err := os.MkdirTemp("/var/tmp", "coppice-night-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	work, home, bin := filepath.Join(base, "work"), filepath.Join(base, "home"), filepath.Join(base, "bin")
	outside = filepath.Join(base, "outside")
	for _, dir := range []string{work, filepath.Join(home, ".codex"), bin, outside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	model = fakemodel.New()
	listener, err := model.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listener.Close)
	url := listener.URL("@", "night")
	login := map[clitest.Kind]string{clitest.ClaudeOAuth: "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-none"}[cli]
	exectest.Write(t, filepath.Join(bin, "claude"), fmt.Sprintf(`#!/bin/sh
export ANTHROPIC_BASE_URL=%s %s DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec %s "$@"
`, url, cmp.Or(login, "ANTHROPIC_API_KEY=none"), set.Program(clitest.Claude)))
	exectest.Write(t, filepath.Join(bin, "codex"), fmt.Sprintf("#!/bin/sh\nMODEL_KEY=none exec %s \"$@\"\n",
		set.Program(clitest.Codex)))
	write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`model = "gpt-5"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "%s/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
`, url))
	env := []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null"}
	if cli == clitest.Codex {
		sandbox := exec.Command(filepath.Join(bin, "codex"), "sandbox", "true")
		sandbox.Dir, sandbox.Env = work, append(os.Environ(), env...)
		if out, err := sandbox.CombinedOutput(); err != nil {
			t.Skipf("codex has no sandbox on this machine: %v: %s", err, out)
		}
	}
	f := fleetIn(t, work)
	f.env = env
	other := "max = 1 "
	if cli == clitest.Codex {
		other = "max = 3 "
	}
	// The pools look when they are told to: an instance that a pool no longer needs goes with its log.
	rarely := []string{`base = "10s", cap = "10m"`, `base = "50ms", cap = "50ms"`, `patrol_interval = "10s"`,
		`patrol_interval = "1h"`}
	n = newNight(f, append(rarely, other, "max = 0 ")...)
	n.sh("git init -q --bare " + outside)
	n.up()
	return n, model, outside
}

// work gives the agents a task, and returns it when it has ended.
func (n night) work(model *fakemodel.Server, outside, answers string) task.Task {
	n.t.Helper()
	n.begin(model, outside, answers)
	n.ended()
	return n.tasks()["Say hello"]
}

// begin gives the agents a task, and the model what it answers, in which ID, TREE, REPOSITORY and OUTSIDE are replaced.
func (n night) begin(model *fakemodel.Server, outside, answers string) {
	n.t.Helper()
	id := strings.TrimSpace(n.do("task", "add", "Say hello", "--pool", "coder", "--status", "blocked"))
	answers = strings.NewReplacer("ID", id, "TREE", filepath.Join(n.dir, "night", "trees", id), "OUTSIDE", outside,
		"REPOSITORY", n.dir).Replace(answers)
	if err := model.SetScenario("night", answers); err != nil {
		n.t.Fatal(err)
	}
	n.do("task", "edit", id, "--status", "open")
	n.do("patrol")
}

// The real claude edits, tests, commits and comments, and its task is closed. What it is not allowed to do is denied.
func TestNightOfClaude(t *testing.T) {
	t.Parallel()
	n, model, outside := newNightOf(t, clitest.Claude)
	x := n.work(model, outside, `call=Write:{"file_path":"TREE/hello.txt","content":"hello"},`+
		`loop=REPOSITORY/night/check.sh,`+
		`loop=git push OUTSIDE HEAD:refs/heads/x,`+
		`loop=touch OUTSIDE/file,`+
		`loop=coppice agent task close ID,`+
		`loop=echo exec false >REPOSITORY/night/check.sh,`+
		`call=task_close:{"id":"ID"},`+
		`loop=git add -A && git commit -q -m "Say hello",`+
		`call=task_comment:{"id":"ID","text":"said it"},normal`)
	n.wantWork(x, outside, "hello.txt")
	logs := n.do("logs", "coder")
	denials := regexp.MustCompile(`"permission_denials":(\[.*?\}\}\])`).FindStringSubmatch(logs)
	if denials == nil || strings.Count(denials[1], `"tool_name"`) != 5 {
		t.Errorf("denied: %v\n%s", denials, logs)
	}
	for _, denied := range []string{"git push", "touch", "coppice agent", "check.sh", "mcp__coppice__task_close"} {
		if denials != nil && !strings.Contains(denials[1], denied) {
			t.Errorf("%s was not denied: %s", denied, denials[1])
		}
	}
}

// The real codex does the same in its sandbox.
func TestNightOfCodex(t *testing.T) {
	t.Parallel()
	n, model, outside := newNightOf(t, clitest.Codex)
	x := n.work(model, outside, `loop=echo hello >hello.txt,`+
		`loop=REPOSITORY/night/check.sh,`+
		`loop=git push OUTSIDE HEAD:refs/heads/x; touch OUTSIDE/file,`+
		`loop=echo x >REPOSITORY/.git/hooks/post-commit; git config a.b c; echo x >REPOSITORY/night/check.sh,`+
		`loop=git add -A && git commit -q -m "Say hello",`+
		`call=task_comment:{"id":"ID","text":"said it"},normal`)
	n.wantWork(x, outside, "hello.txt")
}

// The plan of the real claude is used up in the middle of a task. The task has not failed, and goes on in the same
// worktree when the plan has reset.
func TestNightOfClaudeQuota(t *testing.T) {
	t.Parallel()
	n, model, outside := newNightOf(t, clitest.ClaudeOAuth)
	n.begin(model, outside, `call=Write:{"file_path":"TREE/hello.txt","content":"hello"},quota=3600,`+
		`loop=git add -A && git commit -q -m "Say hello",call=task_comment:{"id":"ID","text":"said it"},normal`)
	n.awaitEvent(event.QuotaParked, "", 0)
	waiting := n.awaitState("night/coder/coder-1", "waiting")
	if !strings.Contains(waiting.Reason, "(reset reported by claude)") {
		t.Errorf("%+v", waiting)
	}
	eventually(t, "the task is open again", func() bool { return n.tasks()["Say hello"].Status == task.Open })
	n.do("quota", "resume", "main")
	n.ended()
	n.wantWork(n.tasks()["Say hello"], outside, "hello.txt")
}

// wantWork checks that a task is closed, with a commit and a comment, and that nothing was done elsewhere.
func (n night) wantWork(x task.Task, outside, file string) {
	n.t.Helper()
	commit := strings.TrimSpace(n.sh("git rev-parse " + x.ID))
	if x.Status != task.Closed || x.Reason != "commit "+commit || x.FailedClaims > 0 {
		n.t.Errorf("%+v, the commit is %s\n%s", x, commit, n.do("logs"))
	}
	if got := n.sh("git show --name-only --format=%s " + x.ID); got != "Say hello\n\n"+file+"\n" {
		n.t.Errorf("the commit: %q", got)
	}
	if shown := n.do("task", "show", x.ID); !strings.Contains(shown, "said it") {
		n.t.Errorf("no comment: %s", shown)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err == nil {
		n.t.Error("a file was made outside")
	}
	if pushed := n.sh("git ls-remote " + outside); pushed != "" {
		n.t.Errorf("pushed: %s", pushed)
	}
	n.sh("if [ -e .git/hooks/post-commit ] || git config a.b; then exit 1; fi; grep 'exec true' night/check.sh")
}

package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli/clitest"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakemodel"
	"github.com/coppice-dev/coppice/internal/task"
)

// cliNight is a night of the real claude and codex. Their model is a server of the test.
type cliNight struct {
	night
	model   *fakemodel.Server
	port    int
	outside string // a repository to which nothing may be pushed, in a directory in which nothing may be written
}

// newCLINight starts a night in which claude has an account with a plan. The agents of the file work as they are, one
// instance of each; the test starts those that it needs.
func newCLINight(t *testing.T) cliNight {
	t.Helper()
	set := clitest.Installed(t, filepath.Join(root, ".cache", "clis"))
	n := cliNight{night: newNight(newFleet(t)), model: fakemodel.New(), outside: t.TempDir()}
	listener, err := n.model.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listener.Close)
	n.port = listener.Port()
	home, bin := t.TempDir(), t.TempDir()
	exectest.Write(t, filepath.Join(bin, "claude"), fmt.Sprintf(`#!/bin/sh
export ANTHROPIC_BASE_URL=%s CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-none
export DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec %s "$@"
`, listener.URL("@", "claude"), set.Program(clitest.Claude)))
	exectest.Write(t, filepath.Join(bin, "codex"), fmt.Sprintf("#!/bin/sh\nMODEL_KEY=none exec %s \"$@\"\n",
		set.Program(clitest.Codex)))
	if err := os.Mkdir(filepath.Join(home, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`model = "gpt-5"
model_provider = "local"
sandbox_mode = "read-only"
[model_providers.local]
name = "local"
base_url = "%s/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
`, listener.URL("@", "codex")))
	n.env = append(n.env, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null")
	n.sh("git init -q --bare " + n.outside + "; coppice init --template pipeline")
	n.replace("min = 3 ", "min = 1 ")
	n.up()
	n.do("stop", "coder", "codex")
	return n
}

// answers sets what a model answers, in which OUTSIDE, REPOSITORY and PORT are replaced.
func (n cliNight) answers(model string, steps ...string) {
	n.t.Helper()
	text := strings.NewReplacer("OUTSIDE", n.outside, "REPOSITORY", n.dir, "PORT", strconv.Itoa(n.port)).Replace(
		strings.Join(steps, ","))
	if err := n.model.SetScenario(model, text); err != nil {
		n.t.Fatal(err)
	}
}

// requests returns the last requests for a model.
func (n cliNight) requests(model string) string {
	n.t.Helper()
	answer := httptest.NewRecorder()
	n.model.ServeHTTP(answer, httptest.NewRequestWithContext(n.t.Context(), http.MethodGet, "/_requests/"+model, nil))
	return answer.Body.String()
}

// Answers of a model that says hello.
const (
	helloPlan   = `json={"steps":[{"name":"say it","instructions":"write hello.txt","files":["hello.txt"]}]}`
	helloDone   = `json={"summary":"said hello","commit_subject":"Say hello"}`
	helloReview = `json={"verdict":"pass","findings":[]}`
)

// wantHello checks that a task was done and merged, and that nothing was done elsewhere.
func (n cliNight) wantHello(id, by string) task.Detail {
	n.t.Helper()
	d := n.await(id, "done", isClosed)
	last := d.Attempts[len(d.Attempts)-1]
	if d.Task.Outcome != task.Completed || n.merged(id) != 1 || last.By != n.project()+by {
		n.t.Errorf("%+v", d)
	}
	if got := n.sh("git show --name-only --format=%s main"); got != "Say hello\n\nhello.txt\n" {
		n.t.Errorf("the commit: %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(n.dir, "hello.txt")); err != nil || string(text) != "hello\n" {
		n.t.Errorf("%q, %v", text, err)
	}
	hook := filepath.Join(n.dir, ".git", "hooks", "post-commit")
	for _, file := range []string{filepath.Join(n.outside, "file"), hook} {
		if _, err := os.Stat(file); err == nil {
			n.t.Errorf("%s was written", file)
		}
	}
	if pushed := n.sh("git ls-remote " + n.outside); pushed != "" {
		n.t.Errorf("pushed: %s", pushed)
	}
	n.wantClean()
	return d
}

// project returns the first part of the paths of the agents.
func (n cliNight) project() string { return filepath.Base(n.dir) + "/" }

// The real claude plans, edits and reviews. What it is not allowed to do is denied, and ends nothing.
func TestNightOfClaude(t *testing.T) {
	t.Parallel()
	n := newCLINight(t)
	n.answers("claude", helloPlan, `loop=ls`, `loop=git push OUTSIDE HEAD:refs/heads/x`, `loop=touch OUTSIDE/file`,
		`loop=echo x >REPOSITORY/.git/hooks/post-commit`, `loop=git commit -qam x`, `loop=coppice task ls`,
		`loop=make test`,
		`call=Write:{"file_path":"hello.txt","content":"hello\n"}`, helloDone, helloReview)
	n.do("start", "coder")
	n.wantHello(n.add("Say hello", "--pool", "coder"), "coder/coder-1")
	logs := n.do("logs", "coder", "-n", "1000")
	if denied := strings.Count(logs, `"permission_denied"`); denied != 6 {
		t.Errorf("%d calls were denied:\n%s", denied, logs)
	}
	if !strings.Contains(logs, "old.txt") {
		t.Errorf("claude could not list its files:\n%s", logs)
	}
}

// The real codex does the same. Its commands run, and Landlock and its filter refuse what they may not do.
func TestNightOfCodex(t *testing.T) {
	t.Parallel()
	n := newCLINight(t)
	n.sh(fmt.Sprintf("bash -c ': >/dev/tcp/127.0.0.1/%d'", n.port)) // what is refused to codex would work
	n.answers("codex", helloPlan, `loop=git push OUTSIDE HEAD:refs/heads/x; touch OUTSIDE/file; git commit -qam x`,
		`loop=echo x >REPOSITORY/.git/hooks/post-commit; echo x >REPOSITORY/old.txt`,
		`loop=bash -c ': >/dev/tcp/127.0.0.1/PORT' && echo reached it`,
		`loop=echo hello >hello.txt && make test && echo tested it`, helloDone, helloReview)
	n.do("start", "codex")
	n.wantHello(n.add("Say hello", "--pool", "coder"), "codex")
	// What its commands have written, as the model was told. The output of codex does not have all of them.
	told := n.requests("codex")
	for text, want := range map[string]bool{
		`Output:\nreached it`: false, `Output:\ntested it`: true, "post-commit: Permission denied": true,
		"socket: Operation not permitted": true, "index.lock': Permission denied": true,
	} {
		if strings.Contains(told, text) != want {
			t.Errorf("%q, expected %v:\n%s", text, want, told)
		}
	}
}

// The plan of the real claude is used up in the middle of a task. The task has not failed, and codex takes it from the
// same pool. claude goes on when its plan has reset.
func TestNightOfClaudeQuota(t *testing.T) {
	t.Parallel()
	n := newCLINight(t)
	n.answers("claude", helloPlan, "quota=3600")
	n.do("start", "coder")
	id := n.add("Say hello", "--pool", "coder")
	n.awaitEvent(event.QuotaParked, "", 0)
	waiting := n.awaitState(n.project()+"coder/coder-1", "waiting")
	if !strings.Contains(waiting.Reason, "(reset reported by claude)") {
		t.Errorf("%+v", waiting)
	}
	n.answers("codex", helloPlan, `loop=echo hello >hello.txt`, helloDone, helloReview)
	n.do("start", "codex")
	if d := n.wantHello(id, "codex"); d.Task.FailedClaims != 0 || d.Task.Retries != 0 || len(d.Attempts) != 2 {
		t.Errorf("%+v", d)
	}
	n.do("stop", "codex")
	n.sh("git rm -q hello.txt && git commit -qm 'Say nothing'")
	n.answers("claude", helloPlan, `call=Write:{"file_path":"hello.txt","content":"hello\n"}`, helloDone, helloReview)
	again := n.add("Say hello", "--pool", "coder")
	n.do("quota", "resume", "main")
	n.wantHello(again, "coder/coder-1")
}

// The real gemini plans, edits and reviews, within the limits of stages. Its commands reach nothing outside.
func TestPipelineOfGemini(t *testing.T) {
	t.Parallel()
	set := clitest.Installed(t, filepath.Join(root, ".cache", "clis"))
	n := cliNight{night: newNight(newFleet(t)), model: fakemodel.New(), outside: t.TempDir()}
	listener, err := n.model.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listener.Close)
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".gemini", "settings.json"),
		`{"security": {"auth": {"selectedType": "gemini-api-key"}}}`)
	bin := t.TempDir()
	exectest.Write(t, filepath.Join(bin, "gemini"), fmt.Sprintf(`#!/bin/sh
export GOOGLE_GEMINI_BASE_URL=%s GEMINI_API_KEY=none GEMINI_CLI_TRUST_WORKSPACE=true
exec %s "$@"
`, listener.URL("@", "gemini"), set.Program(clitest.Gemini)))
	n.env = append(n.env, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null")
	n.sh("git init -q --bare " + n.outside)
	write(t, filepath.Join(n.dir, "coppice.toml"), `[[agent]]
name = "coder"
command = "gemini --output-format stream-json --yolo -m gemini-2.5-pro"
read_write_paths = []

[agent.pipeline]
test = "make test"
`)
	n.sh("git add -A; git commit -qm coppice")
	n.answers("gemini", helloPlan, `loop=touch OUTSIDE/file`, `loop=echo x >REPOSITORY/.git/hooks/post-commit`,
		`loop=git commit --allow-empty -qm x`, `loop=printf 'hello\n' >hello.txt`, helloDone, helloReview)
	n.up()
	d := n.wantHello(n.add("Say hello", "--pool", "coder"), "coder")
	eventually(t, "its calls", func() bool {
		u := n.detail(d.Task.ID).Attempts[0].Used
		return u != nil && u.Calls == 3 && u.Tokens != nil
	})
}

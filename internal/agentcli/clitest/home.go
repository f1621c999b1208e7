package clitest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Home is the home directory of a command line, with its settings and sessions.
type Home struct {
	set  *Set
	kind Kind
	dir  string
	work string // the working directory of its runs
	// more is added to the environment of runs.
	more []string
	// server is the base URL of the server of models, such as that of fakemodel.Listener.URL.
	server string
}

// NewHome makes a home. When the test ends, what its runs have left is killed.
func NewHome(t testing.TB, set *Set, kind Kind, server string) *Home {
	t.Helper()
	h := &Home{set: set, kind: kind, dir: t.TempDir(), server: server}
	h.work = filepath.Join(h.dir, "work")
	for _, dir := range []string{h.work, h.temp()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // before the directory is removed
		if err := h.sweep(); err != nil {
			t.Error(err)
		}
	})
	if kind == Gemini {
		h.write(t, ".gemini/settings.json", `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`)
	}
	if kind == Copilot {
		if err := set.unpackCopilot(h); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *Home) temp() string { return filepath.Join(h.dir, "tmp") }

func (h *Home) write(t testing.TB, name, text string) {
	t.Helper()
	name = filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// prompt is that of each run.
const prompt = "What is the answer?"

// promptFile writes a prompt to a file for the standard input of runs.
func (h *Home) promptFile(t testing.TB, prompt string) string {
	t.Helper()
	h.write(t, "prompt", prompt)
	return filepath.Join(h.dir, "prompt")
}

// sweep kills all processes of the home.
func (h *Home) sweep() error {
	return new(proc.Sweeper).Sweep(context.Background(), "HOME="+h.dir)
}

// environ returns the environment of a run: nothing of the user's except the PATH.
func (h *Home) environ() []string { return append(h.settings(), h.more...) }

func (h *Home) settings() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "TMPDIR=" + h.temp(), "TERM=dumb", "LANG=C.UTF-8",
		"TZ=UTC", "NO_COLOR=1"}
	switch h.kind {
	case Claude, ClaudeOAuth, ACP, ACPOAuth:
		env = append(env, "ANTHROPIC_BASE_URL="+h.server, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_EXECUTABLE="+h.set.Program(Claude))
		if h.kind == ClaudeOAuth || h.kind == ACPOAuth {
			return append(env, "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-none")
		}
		return append(env, "ANTHROPIC_API_KEY=sk-ant-none")
	case Codex:
		return append(env, "MODEL_KEY=none")
	case Gemini:
		return append(env, "GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL="+h.server, "GEMINI_CLI_TRUST_WORKSPACE=true")
	case Opencode:
		return append(env, "OPENCODE_CONFIG_CONTENT="+h.opencodeConfig(), "OPENCODE_DISABLE_MODELS_FETCH=1",
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1")
	case Copilot:
		return append(env, "COPILOT_PROVIDER_BASE_URL="+h.server+"/v1", "COPILOT_PROVIDER_TYPE=openai",
			"COPILOT_PROVIDER_API_KEY=none", "COPILOT_MODEL=gpt-5", "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false",
			"COPILOT_CACHE_HOME="+h.set.copilotCache())
	}
	return env
}

// opencodeConfig returns settings with a model of the server.
func (h *Home) opencodeConfig() string {
	type object map[string]any
	text, err := json.Marshal(object{
		"model": "local/model", "autoupdate": false, "share": "disabled",
		"provider": object{"local": object{
			"npm":     "@ai-sdk/openai-compatible",
			"options": object{"baseURL": h.server + "/v1", "apiKey": "none"},
			"models": object{"model": object{
				"name": "model", "limit": object{"context": 200_000, "output": 8000},
				"cost": object{"input": 1, "output": 2, "cache_read": 0.1},
			}},
		}},
	})
	if err != nil {
		panic(err) // such values can be encoded
	}
	return string(text)
}

// codexProvider returns a setting of codex that has it use the server.
func (h *Home) codexProvider() string {
	return fmt.Sprintf(
		`model_providers.local={name="local",base_url="%s/v1",env_key="MODEL_KEY",wire_api="responses"}`, h.server)
}

// command returns the arguments of a run that reads its prompt from standard input. It continues a session if one
// is named.
func (h *Home) command(session string) []string {
	argv := []string{h.set.Program(h.kind)}
	add := func(arguments ...string) { argv = append(argv, arguments...) }
	resume := func(option ...string) {
		if session != "" {
			argv = append(append(argv, option...), session)
		}
	}
	switch h.kind {
	case Claude, ClaudeOAuth:
		add("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--allowedTools", "Bash")
		resume("--resume")
	case Codex:
		add("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5",
			"-c", "model_provider=local", "-c", h.codexProvider())
		resume("resume")
		add("-")
	case Gemini:
		add("--output-format", "stream-json", "--yolo", "-m", "gemini-2.5-pro")
		resume("--resume")
	case Opencode:
		add("run", "--format", "json")
		resume("--session")
	case Copilot:
		add("--output-format", "json", "--allow-all-tools", "--no-color")
		if session != "" {
			add("--resume=" + session)
		}
	}
	return argv
}

// interactive returns the arguments of a session of claude or codex on a terminal, which begins with the prompt. The
// home has the settings that answer their first questions.
func (h *Home) interactive(t testing.TB) []string {
	t.Helper()
	h.more = append(h.more, "TERM=xterm-256color")
	if h.kind == Codex {
		return []string{
			h.set.Program(h.kind), "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5",
			"-c", "model_provider=local", "-c", h.codexProvider(), "-c", "check_for_update_on_startup=false",
			"-c", fmt.Sprintf(`projects.%q.trust_level="trusted"`, h.work), prompt,
		}
	}
	h.write(t, ".claude.json", fmt.Sprintf(`{"hasCompletedOnboarding": true, "theme": "dark",
		"customApiKeyResponses": {"approved": ["sk-ant-none"]},
		"projects": {%q: {"hasTrustDialogAccepted": true}}}`, h.work))
	return []string{h.set.Program(h.kind), "--allowedTools", "Bash", "--", prompt}
}

// unpackCopilot has copilot unpack itself, once, into a directory that all homes share.
func (s *Set) unpackCopilot(h *Home) error {
	s.unpack.Do(func() {
		done, err := filepath.Glob(filepath.Join(s.copilotCache(), "pkg/*/*/.extraction-complete"))
		if err != nil || len(done) > 0 {
			s.unpackErr = err
			return
		}
		cmd := exec.Command(s.Program(Copilot), "--version")
		cmd.Dir, cmd.Env = h.work, h.environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			s.unpackErr = fmt.Errorf("unpacking copilot: %w\n%s", err, out)
		}
	})
	return s.unpackErr
}

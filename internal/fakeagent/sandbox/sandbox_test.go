package sandbox

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/load"
)

func open(t *testing.T, plan string) *Sandbox {
	t.Helper()
	p, err := fakeagent.Parse(plan)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, "/usr/bin/coppice")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, dir := range []string{s.Dir, s.copies} {
			if _, err := os.Lstat(dir); dir != "" && !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
	})
	return s
}

func TestCommand(t *testing.T) {
	t.Parallel()
	s := open(t, "ok")
	for command, expected := range map[string]string{
		"claude -p":                                  "BIN/claude -p",
		"/usr/local/bin/codex exec --json -":         "BIN/codex exec --json -",
		"./node_modules/.bin/gemini -p x":            "BIN/gemini -p x",
		"env -u X A=b timeout 60 opencode run":       "env -u X A=b timeout 60 BIN/opencode run",
		"env PATH=/usr/bin copilot":                  "env PATH=/usr/bin BIN/copilot",
		"npx -y @anthropic-ai/claude-code@latest -p": "BIN/claude -p",
		"nice bunx @openai/codex exec x":             "nice BIN/codex exec x",
		"node /opt/claude.js -p":                     "BIN/claude -p",
		"npx claude-code-acp":                        "BIN/claude-agent-acp",
		"./coder.sh":                                 "./coder.sh",
		"./work.sh /data/claude docker":              "./work.sh /data/claude docker",
		"python3 agent.py claude":                    "python3 agent.py claude",
		"bash run.sh":                                "bash run.sh",
		"docker run redis":                           "docker run redis",
		"xargs claude -p":                            "xargs claude -p",
		"flock lock claude":                          "flock lock claude",
		"npm run build":                              "npm run build",
		"./goose --once":                             "./goose --once",
	} {
		argv := strings.Fields(command)
		got, _, err := s.Command(argv)
		if text := strings.ReplaceAll(strings.Join(got, " "), s.bin(), "BIN"); err != nil || text != expected {
			t.Errorf("%s: %s %v, expected %s", command, text, err, expected)
		}
		if strings.Join(argv, " ") != command {
			t.Errorf("%s was changed to %q", command, argv)
		}
	}
	for text, expected := range map[string]string{
		"claude -p 'x' | tee log":                       "claude -p 'x' | tee log",
		"exec /usr/local/bin/claude -p \"$(cat x)\"":    "exec BIN/claude -p \"$(cat x)\"",
		"cd x && ~/.local/bin/codex exec y; ./a/gemini": "cd x && BIN/codex exec y; BIN/gemini",
		"A=b timeout 5 $HOME/bin/claude -p":             "A=b timeout 5 BIN/claude -p",
		"exec claude -p 'read /docs/claude'":            "exec claude -p 'read /docs/claude'",
		"while true; do /x/claude -p <t; done":          "while true; do BIN/claude -p <t; done",
		"out=$(/x/claude -p y)":                         "out=$(BIN/claude -p y)",
		"./run.sh --to /x/claude":                       "./run.sh --to /x/claude",
		"/x/claude-helper":                              "/x/claude-helper",
		"if ! /x/claude -p; then exit 1; fi":            "if ! BIN/claude -p; then exit 1; fi",
	} {
		got, _, err := s.Command([]string{"/bin/sh", "-c", text})
		if err != nil || len(got) != 3 || strings.ReplaceAll(got[2], s.bin(), "BIN") != expected {
			t.Errorf("%s: %q %v, expected %s", text, got, err, expected)
		}
	}
	for _, c := range [][]string{
		{"docker", "run", "img", "claude", "-p"}, {"ssh", "host", "claude -p x"}, {"sudo", "-u", "bob",
			"/usr/bin/codex", "exec"},
		{"pnpm", "dlx", "@anthropic-ai/claude-code"}, {"flock", "l", "/usr/bin/claude"}, {"xargs", "/usr/bin/claude"},
		{"opencode", "acp"}, {"gemini", "--acp"}, {"npx", "codex-acp"}, {"aider", "--message", "x"}, {"env",
			"A=b", "qwen", "-p"},
		{"sh", "-c", "docker run img claude -p"}, {"bash", "-lc", "npx @openai/codex exec x"}, {"sh", "-c",
			"cd x; aider y"},
		{"sh", "-c", "sh -c '/usr/bin/claude -p'"}, {"env", "A=b", "sh", "-c", "exec aider"},
	} {
		if got, _, err := s.Command(c); err == nil || !strings.Contains(err.Error(), "the command ") {
			t.Errorf("%q: %q %v, expected an error", c, got, err)
		}
	}
	for _, c := range [][]string{nil, {}, {""}, {"sh", "-c"}, {"sh", "-c", ""}, {"env"}, {"npx"}} {
		if got, _, err := s.Command(c); err != nil || len(got) != len(c) {
			t.Errorf("%q: %q %v", c, got, err)
		}
	}
}

// Whatever a command is, it is refused or has as many words of a shell as before, and no path of a command line begins
// a program of it.
func FuzzShell(f *testing.F) {
	f.Add("cd x && /usr/bin/claude -p 'y' | tee z")
	f.Add("`/a/codex`; ( /b/gemini )")
	s := &Sandbox{Setting: fakeagent.Setting{Dir: "/run/fake"}}
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := s.Command([]string{"/bin/sh", "-c", text})
		if err != nil {
			return
		}
		if len(got) != 3 {
			t.Fatalf("%q", got)
		}
		again, _, err := s.Command(got)
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%q becomes %q, and that %q %v", text, got, again, err)
		}
	})
}

func tree(children ...spec.Child) *spec.Tree {
	return &spec.Tree{Root: &spec.Node{Name: "t", Children: children}}
}

func TestTree(t *testing.T) {
	t.Parallel()
	s := open(t, "b:quota,pool:crash")
	var notes []string
	s.Note = func(text string) { notes = append(notes, text) }
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("PATH=/opt/bin\nOPENAI_API_KEY=secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := map[string]string{"PATH": "/x", "ANTHROPIC_API_KEY": "one", "CLAUDE_CONFIG_DIR": "/c", "OTHER": "y"}
	a := &spec.Agent{Name: "a", Command: []string{"/bin/claude", "-p"}, Env: shared}
	b := &spec.Agent{Name: "b", Command: []string{"codex", "exec"}, EnvFiles: []string{file, "/does/not/exist"}}
	inside := &spec.Agent{Name: "in", Program: new(spec.Program)}
	issue := &aidefile.Agent{File: aidefile.File{Triggers: []aidefile.Trigger{{Kind: aidefile.Issue}}},
		Settings: aidefile.Settings{Command: []string{"gemini"}}}
	aide := &spec.Agent{Name: "aide", Aide: issue}
	template := &spec.Agent{Name: "pool", Command: []string{"copilot"}}
	tr := tree(spec.Child{Agent: a}, spec.Child{Agent: b}, spec.Child{Agent: inside}, spec.Child{Agent: aide},
		spec.Child{Node: &spec.Node{Name: "pool", Template: template}})
	tr.Persistence.Path = "/home/user/state.db"
	tr.Orders = []*spec.Order{{Name: "o", Command: []string{"/x/claude"}, Env: map[string]string{"HOME": "/nowhere"}}}
	if err := s.Tree(tr); err != nil {
		t.Fatal(err)
	}
	if a.Command[0] != s.fake("claude") || b.Command[0] != s.fake("codex") ||
		template.Command[0] != s.fake("copilot") ||
		aide.Aide.Command[0] != s.fake("gemini") || tr.Orders[0].Command[0] != s.fake("claude") ||
		issue.Command[0] != "gemini" {
		t.Errorf(
			"%q %q %q %q %q %q",
			a.Command,
			b.Command,
			template.Command,
			aide.Aide.Command,
			tr.Orders[0].Command,
			issue.Command,
		)
	}
	if got := aide.Aide.File.Triggers; len(got) != 1 || got[0].Kind != aidefile.Manual || len(notes) != 1 ||
		!strings.Contains(notes[0], "t/aide does not look for issues") {
		t.Errorf("%v %v", got, notes)
	}
	if tr.Persistence.Path != "" {
		t.Error(tr.Persistence.Path)
	}
	if a.Env["PATH"] != s.bin()+":/x" || a.Env["OTHER"] != "y" || strings.Contains(a.Env["ANTHROPIC_API_KEY"], "one") ||
		!strings.HasPrefix(a.Env["CLAUDE_CONFIG_DIR"], s.Dir) || shared["PATH"] != "/x" {
		t.Errorf("%v %v", a.Env, shared)
	}
	if b.Env["PATH"] != s.bin()+":/opt/bin" || !strings.HasPrefix(b.Env["OPENAI_API_KEY"], "fake-") || len(b.Env) != 2 {
		t.Errorf("%v", b.Env)
	}
	if home := tr.Orders[0].Env["HOME"]; !strings.HasPrefix(home, s.Dir) {
		t.Error(home)
	}
	// Accounts that differ still do.
	one, _ := s.environ(map[string]string{"ANTHROPIC_API_KEY": "one", "CLAUDE_CONFIG_DIR": "/a"})
	two, _ := s.environ(map[string]string{"ANTHROPIC_API_KEY": "two", "CLAUDE_CONFIG_DIR": "/b"})
	if one["ANTHROPIC_API_KEY"] == two["ANTHROPIC_API_KEY"] || one["CLAUDE_CONFIG_DIR"] == two["CLAUDE_CONFIG_DIR"] ||
		one["ANTHROPIC_API_KEY"] != a.Env["ANTHROPIC_API_KEY"] {
		t.Errorf("%v %v", one, two)
	}
}

func TestTreeErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plan     string
		agent    spec.Agent
		expected string
	}{
		{"ok", spec.Agent{Command: []string{"ssh", "h", "claude"}},
			"agent t/a cannot run with fakes: the command \"ssh h claude\" starts claude by ssh"},
		{"ok", spec.Agent{User: "bob"}, "agent t/a cannot run with fakes: it runs as user bob"},
		{"refused", spec.Agent{Command: []string{"gemini"}},
			`agent t/a cannot run with fakes: part "refused" of the plan: gemini has no scenario "refused"; it has ok,`},
		{"b:ok", spec.Agent{Command: []string{"claude"}},
			`part "b:ok" of the plan is for an agent that the file does not have; it has t/a`},
		{"ok", spec.Agent{Aide: &aidefile.Agent{Settings: aidefile.Settings{Command: []string{"aider"}}}},
			"starts aider, which has no fake"},
	} {
		c.agent.Name = "a"
		err := open(t, c.plan).Tree(tree(spec.Child{Agent: &c.agent}))
		if err == nil || !strings.Contains(err.Error(), c.expected) {
			t.Errorf("%v, expected %s", err, c.expected)
		}
	}
	t1 := tree()
	t1.Orders = []*spec.Order{{Name: "o", Command: []string{"/bin/sh", "-c", "docker run claude"}}}
	if err := open(t, "ok").Tree(t1); err == nil || !strings.Contains(err.Error(), "order o cannot run with fakes") {
		t.Error(err)
	}
	p := &load.Program{Settings: &load.Settings{File: "grove.toml", Divine: load.Divine{Command: []string{"aider"}}}}
	if err := open(t, "ok").Program(p); err == nil ||
		!strings.Contains(err.Error(), "the command of [divine] in grove.toml") {
		t.Error(err)
	}
}

// A home has links to all but what command lines keep, and to fakes where installers put these.
func TestHome(t *testing.T) {
	t.Parallel()
	s := open(t, "ok")
	real := t.TempDir()
	for _, name := range []string{
		".gitconfig", ".claude.json", ".claude/.credentials.json", ".claude/local/claude", ".local/bin/claude",
		".local/bin/other",
		".config/opencode/auth.json", ".config/git/config", ".codex/auth.json", "src/x",
	} {
		file := filepath.Join(real, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home, err := s.home(real)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.home(real); err != nil || again != home {
		t.Errorf("%s %v", again, err)
	}
	for _, name := range []string{".gitconfig", ".local/bin/other", ".config/git/config", "src/x"} {
		if text, err := os.ReadFile(filepath.Join(home, name)); string(text) != name {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
	for _, name := range []string{".claude.json", ".claude/.credentials.json", ".codex", ".config/opencode"} {
		if _, err := os.Lstat(filepath.Join(home, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	for _, name := range []string{".claude/local/claude", ".local/bin/claude"} {
		if to, err := os.Readlink(filepath.Join(home, name)); to != s.fake("claude") {
			t.Errorf("%s is a link to %q %v", name, to, err)
		}
	}
	for _, missing := range []string{"", "/does/not/exist", "relative"} {
		if home, err := s.home(missing); err != nil || home == "" {
			t.Errorf("%q: %v", missing, err)
		}
	}
	l := linker{real: real, dir: t.TempDir(), links: maxLinks - 1}
	if err := l.link(""); err == nil || !strings.Contains(err.Error(), "has more than 20000 entries") {
		t.Error(err)
	}
}

func TestEnter(t *testing.T) {
	for name, value := range map[string]string{"PATH": "/p", "HOME": t.TempDir(), "SAGE_API_KEY": "secret",
		"SAGE_LLM_URL": "http://x"} {
		t.Setenv(name, value)
	}
	before := os.Environ()
	p, _ := fakeagent.Parse("quota@10m")
	s, err := New(p, "/usr/bin/coppice")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Enter(); err != nil {
		t.Fatal(err)
	}
	if _, set := os.LookupEnv("SAGE_API_KEY"); set || os.Getenv("PATH") != s.bin()+":/p" ||
		!strings.HasPrefix(os.Getenv("HOME"), s.Dir) {
		t.Errorf("%q", os.Environ())
	}
	got, err := fakeagent.ParseSetting(os.Getenv(fakeagent.EnvName))
	if err != nil || got.Dir != s.Dir || got.Plan.String() != s.Plan.String() || !got.Plan.SeedSet ||
		!got.Start.Equal(s.Start) {
		t.Errorf("%+v %v", got, err)
	}
	if head := s.Head(); !strings.Contains(head, "are fakes, no model is called; plan quota@10m0s, seed ") {
		t.Error(head)
	}
	if sum := s.Summary(); !strings.Contains(sum, "no calls") {
		t.Error(sum)
	}
	s.Close()
	if after := os.Environ(); !reflect.DeepEqual(sorted(after), sorted(before)) {
		t.Errorf("%q, before %q", after, before)
	}
}

func sorted(all []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range all {
		m[s] = true
	}
	return m
}

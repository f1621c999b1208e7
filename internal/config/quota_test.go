package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
)

// quotaFleet has agents of claude and codex.
const quotaFleet = `[[supervisor]]
name = "night"
children = ["a", "b"]
[[agent]]
name = "a"
command = ["claude", "-p", "--model", "opus"]
[[agent]]
name = "b"
command = "timeout 9 claude -p -m=us/anthropic.haiku-5"
[[agent]]
name = "c"
command = "claude -p"
env = { ANTHROPIC_MODEL = "claude-opus-4-7" }
[[agent]]
name = "d"
command = "codex exec --json -m gpt"
[[agent]]
name = "s"
command = "./x.sh -m nothing"
cli = "claude"
[[agent]]
name = "p"
command = "claude -p --model opus"
pool = { max = 2 }
`

// The first quota that is for an agent is its own.
func TestQuotaOfAgent(t *testing.T) {
	all := []string{"a", "b", "c", "d", "s", "p"}
	for _, c := range []struct {
		keys     string
		expected string
	}{
		{``, "a b c s p"},
		{`agents = "night"`, "a b"},
		{`agents = ["a", "c"]`, "a c"},
		{`agents = ["f/night/a", "/c"]`, "a c"},
		{`agents = "night/*"`, "a b"},
		{`agents = "*/*"`, "a b c s p"},
		{`agents = "p/*"`, "p"},
		{`agents = "f"`, "a b c s p"},
		{`models = "*opus*"`, "a c p"},
		{`models = ["opus", "us/*haiku*"]`, "a b p"},
		{`models = "*/anthropic*"`, "b"},
		{`models = "*"`, "a b c p"},
		{`models = "*opus*"` + "\n" + `agents = "night"`, "a"},
	} {
		tree, err := Parse("f/coppice.toml", []byte("[[quota]]\nname = \"main\"\ncli = \"claude\"\n"+c.keys+"\n"+quotaFleet))
		if err != nil {
			t.Fatalf("%s: %v", c.keys, err)
		}
		var got []string
		for at, child := range tree.All() {
			a := child.Agent
			if child.Node != nil && child.Node.Template != nil {
				a, at = child.Node.Template, at+"/1"
			}
			if a != nil && tree.Quotas[0].IsFor(at, a) {
				got = append(got, a.Name)
			}
		}
		slices.SortFunc(got, func(a, b string) int { return slices.Index(all, a) - slices.Index(all, b) })
		if strings.Join(got, " ") != c.expected {
			t.Errorf("%s: for %q, expected %s", c.keys, got, c.expected)
		}
	}
}

func TestQuotaTables(t *testing.T) {
	dir := aideProject(t, map[string]string{
		"coppice.toml": `include = ["more.toml"]
[[quota]]
name = "main"
cli = "claude"
models = "*opus*"
env = { CLAUDE_CONFIG_DIR = "/x" }
env_file = "keys"
next = "spare.2"
[[agent]]
name = "a"
command = "claude -p --model opus"
`, "more.toml": "[[quota]]\nname = \"spare.2\"\ncli = \"claude\"\n", "keys": "ANTHROPIC_API_KEY=sk-secret\n"})
	l, err := LoadUnchecked(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	main := l.Tree.Quotas[0]
	if len(l.Tree.Quotas) != 2 || main.Next != "spare.2" || !maps.Equal(main.Env, map[string]string{"CLAUDE_CONFIG_DIR": "/x"}) ||
		!slices.Equal(main.EnvFiles, []string{filepath.Join(dir, "keys")}) || len(l.Notices) != 0 {
		t.Errorf("%+v, %v", l.Tree.Quotas, l.Notices)
	}
}

// A quota that nothing uses is a notice, and not an error: its agents may come later.
func TestUnusedQuota(t *testing.T) {
	for text, expected := range map[string]string{
		"[[quota]]\nname = \"x\"\ncli = \"claude\"\n[[quota]]\nname = \"y\"\ncli = \"claude\"\n": `no agent uses the quota "y"`,
		"[[quota]]\nname = \"x\"\ncli = \"gemini\"\n":                                            `no agent uses the quota "x": none runs gemini`,
		"[[quota]]\nname = \"x\"\ncli = \"claude\"\nmodels = \"fable\"\n":                        `no agent uses the quota "x"`,
	} {
		l, err := load("f/coppice.toml", "/f", []byte(text+quotaFleet), nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Notices) != 1 || !strings.Contains(l.Notices[0].Message, expected) {
			t.Errorf("%q: %v, expected %s", text, l.Notices, expected)
		}
	}
}

func TestBadQuotas(t *testing.T) {
	const main = "[[quota]]\nname = \"main\"\ncli = \"claude\"\n"
	for _, c := range []struct{ text, expected string }{
		{"[[quota]]\n", `1:3: [[quota]] without name, expected one (string)`},
		{"[[quota]]\nname = \"x\"\n", `1:3: [[quota]] without cli, expected one (claude, codex, gemini, opencode, copilot)`},
		{"[[quota]]\nname = \"x\"\ncli = \"cluade\"\n", `did you mean "claude"?`},
		{"[[quota]]\nname = \"x\"\ncli = \"plain\"\n", `3:7: cli is plain, expected the command line of a language model`},
		{"[[quotas]]\nname = \"x\"\n", `unknown table "quotas" in the file; did you mean "quota"?`},
		{main + "fallback = \"x\"\n", `4:1: unknown key "fallback" in [[quota]]; did you mean "next"?`},
		{main + "account = {}\n", `4:1: unknown key "account" in [[quota]]; did you mean "env"?`},
		{"[quota]\nname = \"x\"\n", "expected an array of tables; write [[quota]]"},
		{main + main, `5:8: the name "main" is taken by another quota, expected another one (that is in f/coppice.toml:1)`},
		{"[[quota]]\nname = \"claude\"\ncli = \"claude\"\n", `2:8: the name "claude" is that of an account that agents without a [[quota]] share, expected another one; write "claude-main", for example`},
		{"[[quota]]\nname = \"codex-12ab9f\"\ncli = \"codex\"\n", `is that of an account that agents without`},
		{"[[quota]]\nname = \"a b\"\ncli = \"codex\"\n", `2:8: the name "a b", expected letters, digits, dots, dashes and underscores`},
		{"[[quota]]\nname = \"a/b\"\ncli = \"codex\"\n", `2:8: the name "a/b" contains "/"`},
		{main + "agents = \"nigth\"\n", `4:10: "nigth" matches no agent, expected the name or path of agents, or a pattern; did you mean "night"?`},
		{main + "agents = [\"a\", \"f/night/x\"]\n", `4:16: "f/night/x" matches no agent`},
		{main + "agents = [\"d\"]\n", `4:11: "d" matches no agent that runs claude, expected one: f/d runs codex; cli of an agent says which command line a script calls`},
		{main + "agents = \"[\"\n", `4:10: "[" is not a pattern, expected the name or path of agents, such as "night/*"`},
		{main + "agents = []\n", `4:10: agents is empty, expected a pattern`},
		{main + "models = \"[\"\n", `4:10: "[" is not a pattern, expected one such as "*opus*"`},
		{main + "next = \"main\"\n", `4:8: next is the quota itself, expected another one`},
		{main + "next = \"spar\"\n[[quota]]\nname = \"spare\"\ncli = \"claude\"\n", `4:8: there is no quota "spar", expected the name of one; did you mean "spare"?`},
		{main + "next = \"o\"\n[[quota]]\nname = \"o\"\ncli = \"codex\"\n", `4:8: the quota "o" is of codex, expected one of claude`},
		{main + "next = \"o\"\n[[quota]]\nname = \"o\"\ncli = \"claude\"\n", `4:8: the quota "o" has the same env and env_file, expected another account; env or env_file chooses the account of a quota`},
		{main + "env = { CLAUDE_CONFIG_DIR = \"~/x\" }\n", `4:29: the value of "CLAUDE_CONFIG_DIR" begins with ~, which is not expanded; write the whole path`},
		{main + "env = { COPPICE_X = \"x\" }\n", `4:21: the variable "COPPICE_X" is set by Coppice itself`},
		{main + "env_file = [\"x\", \"x\"]\n", `4:18: the file "/f/x" is listed twice`},
		{strings.Repeat(main, spec.MaxQuotas+1), "there are 101 quotas with 0 patterns, expected at most 100 and 1000"},
	} {
		_, err := load("f/coppice.toml", "/f", []byte(c.text+quotaFleet), nil, false)
		if got := errorText(err); !strings.Contains(got, c.expected) {
			t.Errorf("%s\n%s\nexpected %s", c.text, got, c.expected)
		}
	}
	// A value may be a secret.
	_, err := load("f/coppice.toml", "/f", []byte(main+"env = { K = \"~/secret\" }\n"+quotaFleet), nil, false)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	dir := aideProject(t, map[string]string{"coppice.toml": main + "env_file = \"keys\"\n[[agent]]\nname = \"a\"\ncommand = \"true\"\n"})
	if _, err := Load(filepath.Join(dir, "coppice.toml")); !strings.Contains(errorText(err), "coppice.toml:4:12: env_file: ") {
		t.Error(err)
	}
}

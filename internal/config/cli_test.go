package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// The command line of an agent is the one that it names, or else the one that its command is.
func TestCLIOfAgent(t *testing.T) {
	for _, c := range []struct {
		keys     string
		expected agentcli.CLI
	}{
		{"command = \"claude -p\"", agentcli.Claude},
		{"command = \"./night.sh\"", agentcli.Plain},
		{"command = \"./night.sh\"\ncli = \"codex\"", agentcli.Codex},
		{"command = \"claude -p\"\ncli = \"plain\"", agentcli.Plain},
	} {
		tree, err := Parse("coppice.toml", []byte("[[agent]]\nname = \"a\"\n"+c.keys+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Root.Children[0].Agent.CommandLine(); got != c.expected {
			t.Errorf("%s: %s, expected %s", c.keys, got, c.expected)
		}
	}
}

// An Aidefile that names a command line calls it in the usual way, unless the command of the project is that command
// line.
func TestCLIOfAidefile(t *testing.T) {
	codex := agentcli.Command(agentcli.Codex)
	for _, c := range []struct {
		aide, file string
		command    []string
		expected   agentcli.CLI
	}{
		{"", "", agentcli.Command(agentcli.Claude), agentcli.Claude},
		{"", "cli = \"codex\"\n", codex, agentcli.Codex},
		{"cli = \"codex\"", "", codex, agentcli.Codex},
		{"cli = \"codex\"", "cli = \"claude\"\n", agentcli.Command(agentcli.Claude), agentcli.Claude},
		{"command = \"true\"", "cli = \"codex\"\n", codex, agentcli.Codex},
		{"command = \"true\"\ncli = \"codex\"", "cli = \"codex\"\n", []string{"true"}, agentcli.Codex},
		{"command = \"true\"\ncli = \"codex\"", "", []string{"true"}, agentcli.Codex},
		{"command = \"true\"\ncli = \"codex\"", "cli = \"plain\"\n", []string{"true"}, agentcli.Plain},
		{"command = \"codex exec --json -m gpt-5 -\"", "cli = \"codex\"\n", strings.Fields("codex exec --json -m gpt-5 -"),
			agentcli.Codex},
		{"", "cli = \"acp\"\n", []string{"claude-agent-acp"}, agentcli.ACP},
		{"command = \"gemini --acp\"", "", []string{"gemini", "--acp"}, agentcli.ACP},
		{"command = \"gemini --acp\"", "cli = \"acp\"\n", []string{"gemini", "--acp"}, agentcli.ACP},
		{"command = \"./agent.sh\"\ncli = \"acp\"", "", []string{"./agent.sh"}, agentcli.ACP},
	} {
		dir := aideProject(t, map[string]string{
			"coppice.toml": "[aide]\n" + c.aide + "\n[[agent]]\naidefile = \"a\"\n", "a/Aidefile": c.file})
		l, err := LoadUnchecked(filepath.Join(dir, "coppice.toml"))
		if err != nil {
			t.Fatal(err)
		}
		a := l.Tree.Root.Children[0].Agent
		if !slices.Equal(a.Aide.Command, c.command) || a.CommandLine() != c.expected {
			t.Errorf("%q, %q: %q of %s, expected %q of %s", c.aide, c.file, a.Aide.Command, a.CommandLine(), c.command, c.expected)
		}
	}
	_, err := Parse("coppice.toml", []byte("[[agent]]\nname = \"a\"\ncommand = \"true\"\ncli = \"acp\"\n"))
	if err == nil || !strings.Contains(err.Error(), "needs an Aidefile") {
		t.Error(err)
	}
	dir := aideProject(t, map[string]string{"Aidefile": "cli = \"codex\"\n"})
	t.Setenv("PATH", dir)
	l, err := LoadAll(filepath.Join(dir, "Aidefile"))
	if err == nil || !strings.Contains(err.Error(), `the command "codex" is not in PATH`) {
		t.Errorf("%v, %v", l.Tree, err)
	}
}

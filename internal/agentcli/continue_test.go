package agentcli

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The options of a command are kept, and its prompt stays its prompt.
func TestContinue(t *testing.T) {
	for _, c := range []struct{ command, expected string }{ // "" if it cannot be continued
		{"claude -p --output-format stream-json", "claude --resume S -p --output-format stream-json"},
		{"claude -p --allowedTools Bash -- prompt", "claude --resume S -p --allowedTools Bash -- prompt"},
		{"claude prompt --print", "claude --resume S prompt --print"},
		{"env A=1 /opt/claude -p", "env A=1 /opt/claude --resume S -p"},
		{"npx -y @anthropic-ai/claude-code -p", "npx -y @anthropic-ai/claude-code --resume S -p"},
		{"claude -p -- --continue", "claude --resume S -p -- --continue"},
		{"claude prompt", ""}, {"claude -- -p", ""}, {"claude -p -c", ""}, {"claude -p --continue", ""},
		{"claude -p --resume=x", ""}, {"claude -p -r x", ""}, {"claude -p --session-id=x", ""},
		{"claude -p --no-session-persistence", ""}, {"claude -p --worktree", ""},

		{"codex exec --json -", "codex exec --json resume S -"},
		{"codex exec --json", "codex exec --json resume S"},
		{"codex exec", "codex exec resume S"},
		{"codex exec -s read-only -c a=b --model=m prompt", "codex exec -s read-only -c a=b --model=m resume S prompt"},
		{"codex -m m e prompt --json", "codex -m m e resume S prompt --json"},
		{"codex exec --json -- --last", "codex exec --json resume S -- --last"},
		{"codex exec prompt -- x", "codex exec resume S prompt -- x"},
		{"codex exec resume --last", ""}, {"codex exec review", ""}, {"codex prompt", ""}, {"codex", ""},
		{"codex exec --unknown x prompt", ""}, {"codex exec -i a.png prompt", ""}, {"codex exec --ephemeral", ""},
		{"codex exec prompt -s read-only", ""}, {"codex -- exec", ""}, {"codex exec -mgpt prompt", ""},

		{"gemini --output-format stream-json -p x", "gemini --resume S --output-format stream-json -p x"},
		{"gemini -r latest", ""}, {"gemini --session-id x", ""}, {"gemini --acp", ""}, {"gemini -i x", ""},

		{"opencode run --format json prompt", "opencode run --session S --format json prompt"},
		{"opencode run -- -c", "opencode run --session S -- -c"},
		{"opencode run -c", ""}, {"opencode run --session=x", ""}, {"opencode serve", ""}, {"opencode", ""},
		{"opencode run --command x", ""}, {"opencode acp", ""},

		{"copilot --output-format json -p x", "copilot --resume=S --output-format json -p x"},
		{"copilot --continue", ""}, {"copilot --resume", ""}, {"copilot --session-id x", ""}, {"copilot --acp", ""},

		{"./run.sh -p", ""}, {"sh -c claude", ""}, {"claude-agent-acp", ""}, {"", ""},
	} {
		argv := strings.Fields(c.command)
		got, ok := Continue(Detect(argv), argv, "S")
		if strings.Join(got, " ") != c.expected || ok != (c.expected != "") {
			t.Errorf("%s: %s %v, expected %s", c.command, strings.Join(got, " "), ok, c.expected)
		}
		if strings.Join(argv, " ") != c.command {
			t.Errorf("%s: has changed", c.command)
		}
	}
	for _, session := range []string{"", "-p", "--dangerously-skip-permissions", "a b", "a/b", "a\n", strings.Repeat("a", 200)} {
		if got, ok := Continue(Claude, []string{"claude", "-p"}, session); ok {
			t.Errorf("session %q: %q", session, got)
		}
	}
	if _, ok := Continue(Gemini, []string{"claude", "-p"}, "S"); ok {
		t.Error("another command line is continued")
	}
}

// Words are inserted in one place, after the program and not after a "--", and a command that was continued is not
// continued again.
func TestContinueKeepsWords(t *testing.T) {
	words := rapid.SampledFrom([]string{"claude", "codex", "gemini", "opencode", "copilot", "env", "exec", "run", "-p",
		"--json", "-c", "--", "-", "x", "-m", "--resume", "resume", "--model=m", "A=b", "-i", "S"})
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOfN(words, 0, 8).Draw(t, "argv")
		got, ok := Continue(Detect(argv), argv, "S")
		if !ok {
			return
		}
		n := len(got) - len(argv)
		at := 0
		for at < len(argv) && got[at] == argv[at] {
			at++
		}
		found := false
		for i := 0; i <= at; i++ {
			found = found || slices.Equal(slices.Delete(slices.Clone(got), i, i+n), argv)
		}
		_, arguments := detect(argv)
		if dashes := slices.Index(arguments, "--"); !found || at == 0 || dashes >= 0 && at > len(argv)-len(arguments)+dashes+1 {
			t.Fatalf("%q: %q", argv, got)
		}
		if again, ok := Continue(Detect(got), got, "S"); ok {
			t.Fatalf("%q: %q, and again %q", argv, got, again)
		}
	})
}

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// A script that names the command line that it calls is read as that, and shares its account.
func TestCLIOfScript(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 1)
	script := filepath.Join(c.dir, "night.sh")
	exectest.Write(t, script, fmt.Sprintf("#!/bin/sh\n%s/claude -p\n", c.dir))
	write(t, filepath.Join(c.dir, "coppice.toml"), fmt.Sprintf(`[project]
name = "t"
[[agent]]
name = "named"
command = [%[1]q]
cli = "claude"
restart = "never"
[[agent]]
name = "unnamed"
command = [%[1]q]
restart = "never"
[[agent]]
name = "told"
command = ["%[2]s/claude"]
cli = "plain"
restart = "never"
`, script, c.dir))
	c.says(claudeFails("usage_limit_reached", "You've hit your 5-hour limit", time.Now().Add(time.Hour)))
	c.up()
	if n := c.awaitState("t/named", "waiting"); !strings.HasSuffix(n.Reason, "(reset reported by claude)") {
		t.Errorf("%+v", n)
	}
	for _, name := range []string{"t/unnamed", "t/told"} {
		if n := c.awaitState(name, "stopped"); n.LastExit != "exit code 1" {
			t.Errorf("%+v", n)
		}
	}
	if all := c.quotas(); len(all) != 1 || all[0].Name != "claude" {
		t.Errorf("%+v", all)
	}
}

// Two Aidefiles of a project have different command lines, without a script.
func TestCLIOfAidefile(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	result := map[string]string{
		"claude": `{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":3,"output_tokens":4}}`,
		"codex":  `{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":20}}`,
	}
	toml := "[project]\nname = \"t\"\n"
	for _, dir := range []string{"bin", "claude", "codex"} {
		if err := os.Mkdir(filepath.Join(f.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, cli := range []string{"claude", "codex"} {
		exectest.Write(t, filepath.Join(f.dir, "bin", cli),
			fmt.Sprintf("#!/bin/sh\n"+unasked+"{ echo \"$@\"; cat; } >>%s/%s.called\necho '%s'\n",
				f.dir, cli, result[cli]))
		write(t, filepath.Join(f.dir, cli, "Aidefile"), fmt.Sprintf("cli = %q\n[persona]\nname = %[1]q\n", cli))
		toml += fmt.Sprintf("[[agent]]\naidefile = %q\nenv = { PATH = \"%s/bin:/usr/bin:/bin\" }\n", cli, f.dir)
	}
	write(t, filepath.Join(f.dir, "coppice.toml"), toml)
	f.up()
	for cli, expected := range map[string]struct{ arguments, tokens string }{
		"claude": {"-p --output-format stream-json --verbose\n", "(7 tokens)"},
		"codex":  {"exec --json -\n", "(30 tokens)"},
	} {
		f.do("fire", cli, "do this")
		if n := f.awaitState("t/"+cli, "stopped"); n.Failed {
			t.Errorf("%+v", n)
		}
		got, _ := os.ReadFile(filepath.Join(f.dir, cli+".called"))
		if !strings.HasPrefix(string(got), expected.arguments) || !strings.Contains(string(got), "do this") {
			t.Errorf("%s was called with %s", cli, got)
		}
		if out := f.do("logs", cli); !strings.Contains(out, expected.tokens) {
			t.Errorf("%s: %s", cli, out)
		}
	}
}

package doctor

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Versions that were not measured are named, and those that do not start are problems.
func TestModels(t *testing.T) {
	measured := agentcli.Measured(agentcli.Claude)
	newest := measured[len(measured)-1]
	for name, c := range map[string]struct{ program, script, expected string }{
		"measured": {"claude", "echo '" + newest + " (Claude Code)'", "ok claude version " + newest},
		"between":  {"claude", "echo 2.1.200", "ok claude version 2.1.200"},
		"newer":    {"claude", "echo 9.0.0", "warning claude version 9.0.0 of DIR/claude is newer than " + newest},
		"older":    {"claude", "echo 1.0.0", "warning claude version 1.0.0 of DIR/claude is older than " + measured[0]},
		"silent":   {"codex", "echo hello", `warning codex DIR/codex does not say its version: "hello"`},
		"broken":   {"gemini", "echo bad >&2; exit 3", "problem gemini DIR/gemini --version: exit status 3: bad"},
		"missing":  {"", "", `problem claude command cannot be run: stat DIR/claude: no such file or directory`},
		"plain":    {"work.sh", "exit 1", ""},
		"acp":      {"claude-agent-acp", "exit 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			command := "./claude"
			if c.program != "" {
				command = "./" + c.program
				exectest.Write(t, filepath.Join(dir, c.program), "#!/bin/sh\n"+c.script+"\n")
			}
			d := &doctor{agents: map[string]*spec.Agent{"t/a": {Command: []string{command, "-p"}, Dir: dir}}}
			d.models(t.Context())
			var got []string
			for _, f := range d.found {
				got = append(got, strings.ReplaceAll(fmt.Sprintf("%s %s %s", f.Level, f.Check, f.Detail), dir, "DIR"))
			}
			if text := strings.Join(got, "\n"); !strings.HasPrefix(text, c.expected) || (text == "") != (c.expected == "") {
				t.Errorf("%q, expected %q", text, c.expected)
			}
		})
	}
}

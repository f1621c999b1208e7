package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Wrong arguments are refused in our own words, which say what to do, and not
// in those of the library.
func TestWrongArguments(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() || cmd.Args == nil {
			return
		}
		library := regexp.MustCompile(`arg\(s\)|^unknown command|^invalid argument ".*" for`)
		for _, args := range [][]string{{}, {"a"}, {"a", "b", "c", "d", "e", "f"}} {
			err := cmd.Args(cmd, args)
			if err != nil && library.MatchString(err.Error()) {
				t.Errorf("%s %s: %v", cmd.CommandPath(), strings.Join(args, " "), err)
			}
			if err != nil && exitCode(err) != exitUsage {
				t.Errorf("%s %s: exit code %d, want %d", cmd.CommandPath(), strings.Join(args, " "), exitCode(err), exitUsage)
			}
		}
	}
	var out bytes.Buffer
	root := newRoot(&streams{nil, &out, &out})
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" { // the library's own
			walk(cmd)
		}
	}
}

// What is spelled wrong is answered with what was probably meant.
func TestMisspelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for args, want := range map[string]string{
		"hlep":               `did you mean "coppice help"?`,
		"expalin x":          `did you mean "coppice explain"?`,
		"order histroy":      `did you mean "coppice order history"?`,
		"order xyzzy":        "see coppice order --help",
		"ps --jsn":           "did you mean --json?",
		"ls --jsn":           "did you mean --json?",
		"up --dry-rnu":       "did you mean --dry-run?",
		"logs --folow x":     "did you mean --follow?",
		"ps --xyzzy":         "see coppice ps --help",
		"ps -x":              "see coppice ps --help",
		"events --typ agent": "did you mean --type?",

		"events --type agent.crashd":          `--type: there is no event type "agent.crashd"; did you mean "agent.crashed"?`,
		"events --type agent.* --type agnt.*": `--type: no event type matches "agnt.*"; did you mean "agent.*"?`,
	} {
		if out, err := coppice(t, dir, exitUsage, strings.Fields(args)...); out != "" || !strings.Contains(err, want) {
			t.Errorf("%s: %q, %q, want %q", args, out, err, want)
		}
	}
}

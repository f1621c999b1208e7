package test

import (
	"strings"
	"testing"
)

// Misspelled words are answered with a suggestion.
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

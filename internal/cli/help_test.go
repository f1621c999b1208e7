package cli

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
)

// terminalWidth is the width of the narrowest terminal that help must fit.
const terminalWidth = 80

// eachCommand calls do with each command, including hidden ones.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}

// helpOf returns the output of --help.
func helpOf(cmd *cobra.Command) string {
	var out bytes.Buffer
	cmd.SetOut(&out)
	defer cmd.SetOut(nil)
	cmd.InitDefaultHelpFlag()
	_ = cmd.Help()
	return out.String()
}

// shortVerbs are the verbs that short descriptions begin with.
var shortVerbs = strings.Fields(`Add Answer Apply Approve Archive Ask Attach Block Check Claim Classify Close Comment Compare Copy
	Delete Disable Drain Edit Enable Export Fire Forget Format Generate Import Install Join Keep List Open Pause Print Raise Read Reconcile
	Record Reject Release Reload Remove Report Request Reset Restart Restore Resume Retry Run Send Serve Set Show Start Stop Suspend
	Test Watch Write`)

// Each help text fits 80 columns, and each short description is brief and begins with a verb.
func TestHelpTexts(t *testing.T) {
	t.Parallel()
	root := newRoot(&command.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, nil)
	seen := 0
	eachCommand(root, func(cmd *cobra.Command) {
		seen++
		for line := range strings.Lines(helpOf(cmd)) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > terminalWidth {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		if n := utf8.RuneCountInString(cmd.Short); n == 0 || n > 50 {
			t.Errorf("%s: the short description has %d characters, expected 1 to 50: %s", cmd.CommandPath(), n, cmd.Short)
		}
		verb, _, _ := strings.Cut(cmd.Short, " ")
		if !slices.Contains(shortVerbs, strings.TrimSuffix(verb, ",")) {
			t.Errorf("%s: %q is no verb of shortVerbs", cmd.CommandPath(), cmd.Short)
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short description ends with a dot: %s", cmd.CommandPath(), cmd.Short)
		}
	})
	if seen < 80 {
		t.Errorf("only %d commands were found", seen)
	}
}

// Help lists the groups and their commands in order; each visible command is in exactly one group.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	root := newRoot(&command.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, nil)
	var listed, want []string
	for _, line := range regexp.MustCompile(`(?m)^(?:([A-Z][A-Za-z ]+):$|  ([a-z-]+)  )`).FindAllStringSubmatch(helpOf(root), -1) {
		listed = append(listed, line[1]+line[2])
	}
	groupsOf := map[string]int{}
	for _, g := range groups() {
		if g.title == "" {
			continue
		}
		want = append(want, g.title)
		for _, c := range g.commands {
			name, _, _ := strings.Cut(c.names, " ")
			want = append(want, name)
			groupsOf[name]++
		}
	}
	from := slices.Index(listed, want[0])
	if from < 0 || len(listed) < from+len(want) || !slices.Equal(listed[from:from+len(want)], want) {
		t.Errorf("the help lists %v, want %v", listed, want)
	}
	for _, cmd := range root.Commands() {
		expected := 1
		if cmd.Hidden {
			expected = 0
		}
		if got := groupsOf[cmd.Name()]; got != expected {
			t.Errorf("%s is in %d groups, expected %d", cmd.Name(), got, expected)
		}
	}
}

// Each constructor builds the command with its names. Arguments that begin with a name need no
// other constructor.
func TestConstructors(t *testing.T) {
	t.Parallel()
	s := &command.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	all := constructorsFor(nil)
	for _, c := range all {
		cmd := c.build(s)
		if names := strings.Join(append([]string{cmd.Name()}, cmd.Aliases...), " "); names != c.names {
			t.Errorf("the constructor of %q builds %q", c.names, names)
		}
		for name := range strings.FieldsSeq(c.names) {
			for _, args := range [][]string{{name}, {name, "-h"}, {"--file=a", "--file=ps", name, "ps"}} {
				if got := constructorsFor(args); len(got) != 1 || got[0].names != c.names {
					t.Errorf("%q needs %d commands, expected %s alone", args, len(got), c.names)
				}
			}
		}
	}
	for _, line := range []string{
		"", "help", "help ps", "completion bash", "__complete p", "-h", "--version", "-f", "--file d ps", "-x ps", "pss",
		"--file=ps", "ls_", "-- ps",
	} {
		if got := constructorsFor(strings.Fields(line)); len(got) != len(all) {
			t.Errorf("%q needs %d commands, expected %d", line, len(got), len(all))
		}
	}
}

func TestFilled(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"a b":                              "a b",
		"one two three four":               "one two\nthree four",
		"one\ntwo three":                   "one two\nthree",
		"one\n\ntwo":                       "one\n\ntwo",
		"a\n\n  as  it is and longer\n\nb": "a\n\n  as  it is and longer\n\nb",
		"a\n  kept\nb":                     "a\n  kept\nb",
		"--a-long-option b":                "--a-long-option\nb",
		"äöü äöü äöü":                      "äöü äöü\näöü",
		"end\n\n":                          "end",
	} {
		if got := fillLines(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A command that does something itself and also groups others shows both, and rejects words that are no command.
func TestHelpOfGroupThatRuns(t *testing.T) {
	t.Parallel()
	root := newRoot(&command.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, nil)
	runs := 0
	eachCommand(root, func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() || !runsAlone(cmd) {
			if cmd.HasSubCommands() && strings.Contains(helpOf(cmd), "\n  "+cmd.CommandPath()+" [flags]\n") {
				t.Errorf("%s --help has a usage without a command", cmd.CommandPath())
			}
			return
		}
		runs++
		for _, usage := range []string{"\n  " + cmd.CommandPath() + " [flags]\n", "\n  " + cmd.CommandPath() + " COMMAND\n"} {
			if !strings.Contains(helpOf(cmd), usage) {
				t.Errorf("%s --help has no %q", cmd.CommandPath(), usage)
			}
		}
		if text := manPage(cmd); strings.Count(text, `\fB`+cmd.CommandPath()+`\fR`) < 2 {
			t.Errorf("the manual page of %s has one usage:\n%s", cmd.CommandPath(), text)
		}
		if err := cmd.Args(cmd, []string{"x"}); command.ExitCode(err) != command.ExitUsage {
			t.Errorf("%s x: %v", cmd.CommandPath(), err)
		}
	})
	if runs == 0 {
		t.Error("no command is one")
	}
}

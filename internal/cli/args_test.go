package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
)

// Invalid arguments are rejected with our own helpful errors, not with those of cobra.
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
			if err != nil && command.ExitCode(err) != command.ExitUsage {
				t.Errorf("%s %s: exit code %d, want %d", cmd.CommandPath(), strings.Join(args, " "), command.ExitCode(err), command.ExitUsage)
			}
		}
	}
	var out bytes.Buffer
	root := newRoot(&command.Streams{Out: &out, Err: &out}, nil)
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" { // of cobra itself
			walk(cmd)
		}
	}
}

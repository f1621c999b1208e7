package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/mcp/operator"
)

// operatorFlags are the flags of coppice mcp --operator.
type operatorFlags struct {
	on     bool
	allow  []string
	remote *command.Remote
}

func (f *operatorFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "operator", false, "serve tools for the assistant of a person")
	cmd.Flags().StringSliceVar(&f.allow, "allow", nil,
		"with --operator, the `ACTS` to offer, or all (default: none)")
	f.remote.Flags(cmd)
}

// check returns an error for flags that do not go together.
func (f *operatorFlags) check(tokenFile string) error {
	switch {
	case f.on && tokenFile != "":
		return command.Usagef("--token-file is for agents, and --operator for people; expected one of them")
	case !f.on && len(f.allow) > 0:
		return command.Usagef("--allow needs --operator: an agent has all of its tools")
	case !f.on && f.remote.File != "":
		return command.Usagef("--file needs --operator: an agent calls the daemon that runs it")
	}
	return nil
}

// run serves the tools, or prints the configuration.
func (f *operatorFlags) run(s *command.Streams, printConfig bool) error {
	tools, err := operator.Tools(operator.Options{
		Look: f.remote.LookFor, Ask: f.remote.AskFor, Person: command.UserName(), Allow: f.allow,
	})
	switch {
	case err != nil:
		return command.Usagef("--allow: %w", err)
	case printConfig:
		return f.printConfig(s)
	}
	return serveMCP(s, operator.Instructions, tools)
}

// printConfig prints the configuration to stdout, and instructions for people to stderr.
func (f *operatorFlags) printConfig(s *command.Streams) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file, err := f.remote.Find()
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	if filepath.Base(file) == config.FileName {
		file = filepath.Dir(file)
	}
	args := []string{"mcp", "--operator", "--file", file}
	if len(f.allow) > 0 {
		args = append(args, "--allow", strings.Join(f.allow, ","))
	}
	err = writeMCPConfig(s.Out, "coppice-operator", mcpServer{Command: self, Args: args, AlwaysLoad: true})
	if err != nil {
		return err
	}
	line := shellQuoted(self)
	for _, arg := range args {
		line += " " + shellQuoted(arg)
	}
	fmt.Fprintf(s.Err, `
Put this into the settings of your assistant, or let Claude Code do it for you alone:
  claude mcp add coppice-operator --scope user -- %s
`, line)
	return nil
}

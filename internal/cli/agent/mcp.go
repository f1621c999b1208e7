package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/mcp"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func NewMCP(s *command.Streams) *cobra.Command {
	var printConfig bool
	var tokenFile string
	people := operatorFlags{remote: command.NewRemote(s)}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP tools for agents and assistants",
		Long: `Serve the commands of an agent (coppice agent) as tools of the Model Context
Protocol, on stdin and stdout, until stdin ends. It acts as the agent in whose environment it
runs. Outside of an agent it starts, too, and each tool says what is missing.

With --operator, the tools are for the assistant of a person: they show the fleet, and act on
it as far as --allow names acts, such as start, stop, restart and answer.`,
		Example: `  coppice mcp --print-config > .mcp.json
  coppice mcp --operator --allow start,stop,answer --print-config`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := people.check(tokenFile); err != nil {
				return err
			}
			switch {
			case people.on:
				return people.run(s, printConfig)
			case printConfig:
				return printMCPConfig(s)
			}
			act, done := actor(tokenFile)
			defer done()
			return serveMCP(s, mcp.AgentInstructions, mcp.AgentTools(act))
		},
	}
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the contents of .mcp.json, and exit")
	cmd.Flags().StringVar(&tokenFile, "token-file", "",
		"read the token of the agent from `FILE`, not from COPPICE_TOKEN")
	people.add(cmd)
	return cmd
}

// serveMCP serves tools on the standard streams.
func serveMCP(s *command.Streams, instructions string, tools []mcp.Tool) error {
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	return mcp.Serve(ctx, mcp.Options{
		Version: command.Version(), Instructions: instructions, Tools: tools, In: s.In, Out: s.Out,
		Logger: slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// actor returns a function that calls the daemon as the agent running this program. Outside of an
// agent, the function returns an error that explains this.
func actor(tokenFile string) (act mcp.Act, done func()) {
	fails := func(err error) (mcp.Act, func()) {
		return func(context.Context, time.Duration, func(context.Context, *api.Client) error) error { return err },
			func() {}
	}
	me, err := command.Self()
	if tokenFile != "" {
		if me, err = command.SelfWithTokenFile(tokenFile); err != nil {
			return fails(err)
		}
	}
	// Some clients pass the reference itself if a variable is not set.
	if strings.HasPrefix(me.Socket, "${") || strings.HasPrefix(me.Token, "${") {
		err = fmt.Errorf("%s and %s are not set", proc.EnvSocket, proc.EnvToken)
	}
	if err != nil {
		return fails(fmt.Errorf("this session is not an agent of coppice: %s and %s are not set. "+
			"Do not call this tool again, and go on without it. "+
			"To people: the tools work in programs that coppice.toml names, and in what those "+
			"start; see coppice mcp --help", proc.EnvSocket, proc.EnvToken))
	}
	client := api.DialAgent(me.Socket, me.Token)
	return func(ctx context.Context, timeout time.Duration, do func(context.Context, *api.Client) error) error {
		return api.Retry(ctx, timeout, func() error { return do(ctx, client) })
	}, client.Close
}

// printMCPConfig prints the configuration to stdout, and instructions for people to stderr.
func printMCPConfig(s *command.Streams) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The empty default keeps the reference itself from becoming the value.
	passed := func(name string) string { return "${" + name + ":-}" }
	err = writeMCPConfig(s.Out, "coppice", mcpServer{self, []string{"mcp"}, true, map[string]string{
		proc.EnvSocket: passed(proc.EnvSocket), proc.EnvToken: passed(proc.EnvToken),
	}})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, `
Put this into .mcp.json in the directory that the agent works in, or let Claude Code do it there:
  claude mcp add coppice --scope project --env '%s=%s' --env '%s=%s' -- %s mcp
`, proc.EnvSocket, passed(proc.EnvSocket), proc.EnvToken, passed(proc.EnvToken), shellQuoted(self))
	return nil
}

// mcpServer is a server in the configuration of a client.
type mcpServer struct {
	Command    string            `json:"command"`
	Args       []string          `json:"args"`
	AlwaysLoad bool              `json:"alwaysLoad"` // so that Claude Code offers the tools without a search for them
	Env        map[string]string `json:"env,omitempty"`
}

// writeMCPConfig writes the contents of .mcp.json.
func writeMCPConfig(w io.Writer, name string, server mcpServer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(map[string]map[string]mcpServer{"mcpServers": {name: server}})
}

// shellQuoted quotes a word for a shell.
func shellQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

package agent

import (
	"context"
	"encoding/json"
	"fmt"
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
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve agent commands as MCP tools on stdio",
		Long: `Serve the commands of an agent (coppice agent) as tools of the Model Context
Protocol, on stdin and stdout, until stdin ends. It acts as the agent in whose environment it
runs. Outside of an agent it starts, too, and each tool says what is missing.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if printConfig {
				return printMCPConfig(s)
			}
			return serveMCP(s, tokenFile)
		},
	}
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the contents of .mcp.json, and exit")
	cmd.Flags().StringVar(&tokenFile, "token-file", "",
		"read the token of the agent from `FILE`, not from COPPICE_TOKEN")
	return cmd
}

func serveMCP(s *command.Streams, tokenFile string) error {
	act, done := actor(tokenFile)
	defer done()
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	return mcp.Serve(ctx, mcp.Options{
		Version: command.Version(), Instructions: mcp.AgentInstructions, Tools: mcp.AgentTools(act),
		In: s.In, Out: s.Out,
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
	type server struct {
		Command    string            `json:"command"`
		Args       []string          `json:"args"`
		AlwaysLoad bool              `json:"alwaysLoad"` // so that Claude Code offers the tools without a search for them
		Env        map[string]string `json:"env"`
	}
	// The empty default keeps the reference itself from becoming the value.
	passed := func(name string) string { return "${" + name + ":-}" }
	config := map[string]map[string]server{"mcpServers": {"coppice": {self, []string{"mcp"}, true, map[string]string{
		proc.EnvSocket: passed(proc.EnvSocket), proc.EnvToken: passed(proc.EnvToken),
	}}}}
	e := json.NewEncoder(s.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(config); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, `
Put this into .mcp.json in the directory that the agent works in, or let Claude Code do it there:
  claude mcp add coppice --scope project --env '%s=%s' --env '%s=%s' -- %s mcp
`, proc.EnvSocket, passed(proc.EnvSocket), proc.EnvToken, passed(proc.EnvToken), shellQuoted(self))
	return nil
}

// shellQuoted quotes a word for a shell.
func shellQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

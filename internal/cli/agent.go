package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
)

func newAgent(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Report and ask from inside an agent",
		Long: `What an agent says and asks for itself. These commands are for programs that
coppice runs: they find the daemon and prove who they are by variables that each
agent has in its environment (see: coppice agent env). While no daemon answers
they wait for one, as agents outlive it.`,
	}
	cmd.AddCommand(newAgentEnv(s), newAgentReady(), newAgentHeartbeat(), newAgentRequestRestart(), newAgentHook(s),
		newAgentDrainCheck(s), newAgentDrainAck(),
		newAgentBelief(s), newAgentOutcome(s), newMail(s, agentMail()), newAsk(s), newTask(s, agentTasks()))
	return cmd
}

// agentPatience is how long an agent waits for a daemon to answer.
const agentPatience = time.Minute

// self is what the environment says of the agent that runs this program.
func self() (proc.Self, error) {
	me := proc.Self{Agent: os.Getenv(proc.EnvAgent), Socket: os.Getenv(proc.EnvSocket), Token: os.Getenv(proc.EnvToken)}
	fmt.Sscan(os.Getenv(proc.EnvIncarnation), &me.Incarnation)
	if me.Socket == "" || me.Token == "" {
		return me, usageError(fmt.Errorf("no agent of coppice runs this: %s and %s are not set; "+
			"these commands are for programs that coppice.toml names, and what those start",
			proc.EnvSocket, proc.EnvToken))
	}
	if strings.ContainsFunc(me.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return me, &exitError{exitAuth, fmt.Errorf("%s is no token: it has blanks, line ends or other "+
			"characters that no token has", proc.EnvToken)}
	}
	return me, nil
}

// askAsAgent calls do with a client that acts as the agent which runs this
// program. While no daemon answers do is called again and again: it has to be
// something that may be done twice.
func askAsAgent(do func(context.Context, *api.Client) error) error {
	return askAsAgentFor(agentPatience, do)
}

// lookAsAgent is askAsAgent: agents are told by a daemon, or nothing.
func lookAsAgent(_ *streams, do func(context.Context, *api.Client) error) error {
	return askAsAgent(do)
}

// askAsAgentFor is askAsAgent with another patience.
func askAsAgentFor(patience time.Duration, do func(context.Context, *api.Client) error) error {
	me, err := self()
	if err != nil {
		return err
	}
	client := api.DialAgent(me.Socket, me.Token)
	defer client.Close()
	ctx, stop := untilSignal(context.Background())
	defer stop()
	return api.Retry(ctx, patience, func() error { return do(ctx, client) })
}

func newAgentEnv(s *streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Show the identity of this agent",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			me, err := self()
			if err != nil {
				return err
			}
			var who token.Caller
			if err := askAsAgent(func(ctx context.Context, c *api.Client) error {
				who, err = c.Whoami(ctx)
				return err
			}); err != nil {
				return err
			}
			if asJSON {
				return s.printJSON(map[string]any{"agent": who.Path, "incarnation": who.Incarnation,
					"socket": me.Socket})
			}
			return s.printLines([]string{
				fmt.Sprintf("%s=%s", proc.EnvAgent, proc.Plain(who.Path)),
				fmt.Sprintf("%s=%d", proc.EnvIncarnation, who.Incarnation),
				fmt.Sprintf("%s=%s", proc.EnvSocket, proc.Plain(me.Socket)),
			})
		},
	}
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

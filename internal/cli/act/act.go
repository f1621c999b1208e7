// Package act has the commands that start, stop and drain agents.
package act

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// NewActs are the commands that do something to agents.
func NewActs(s *command.Streams) []*cobra.Command {
	return []*cobra.Command{
		newAct(s, api.Start, "started", "Start agents that are stopped or held back", ""),
		newAct(s, api.Stop, "stopped", "Stop agents until they are started by hand",
			"\nOnly coppice start starts them again; resume, restarts of the daemon and changes of the file do not."),
		newAct(s, api.Restart, "restarted", "Stop agents and start them again", "\nIt counts as no failure."),
		newAct(s, api.Reset, "reset", "Reset failure counts, and start held agents", ""),
		newAct(s, api.Suspend, "suspended", "Stop agents until they are resumed",
			"\nWithout a path, or with \".\", the whole project is: nothing starts until "+
				"coppice\nresume, also in later daemons."),
		newAct(s, api.Resume, "resumed", "Resume suspended or paused agents", "\nWithout a path, or with \".\", "+
			"the whole project does. What was stopped or\nsuspended by itself stays so."),
	}
}

func newAct(s *command.Streams, action api.Action, done, short, more string) *cobra.Command {
	r := command.NewRemote(s)
	whole := action == api.Suspend || action == api.Resume // may be about the project
	already := "is already running"
	if action == api.Stop || action == api.Suspend {
		already = "is already stopped"
	}
	use := " PATH..."
	if whole {
		use = " [PATH...]"
	}
	cmd := &cobra.Command{
		Use:   string(action) + use,
		Short: short,
		Long: short + ".\nA supervisor stands for all agents below it. The command returns when it is done.\nAn " +
			"agent that is already in that state is named, and is no error." + more,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !whole {
				return errors.New("the path of an agent or supervisor is missing; coppice tree shows them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				paths = []string{"."}
			}
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				var failed []error
				for _, path := range paths {
					at := path
					if path == "." && whole {
						path, at = "the project is", "/"
					}
					acted, err := c.Act(ctx, at, action)
					for _, other := range acted.Already {
						fmt.Fprintf(s.Out, "%s %s\n", proc.Plain(other), already)
					}
					switch {
					case err == nil && acted.Changed > 0:
						fmt.Fprintf(s.Out, "%s %s\n", proc.Plain(path), done)
					case err == nil && len(acted.Already) == 0:
						fmt.Fprintf(s.Out, "%s has nothing in it\n", proc.Plain(path))
					case err == nil:
					case ctx.Err() != nil, errors.Is(err, api.ErrDown), errors.Is(err, api.ErrStopping):
						return errors.Join(append(failed, err)...) // the others would say the same
					default:
						failed = append(failed, err)
					}
				}
				return errors.Join(failed...)
			})
		},
		ValidArgsFunction: r.CompletePath(true),
	}
	r.Flags(cmd)
	return cmd
}

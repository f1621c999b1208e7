package act

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func NewDrain(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	timeout := drain.DefaultTimeout
	var reason string
	cmd := &cobra.Command{
		Use:   "drain PATH...",
		Short: "Drain agents, then stop them",
		Long: `Ask agents to finish their work, then stop them until coppice start. A supervisor
means all agents below it. Each agent is nudged, can ask with coppice agent drain-check or
hook, and reports that it has finished with coppice agent drain-ack. After the timeout it is
stopped anyway.

The command returns when all agents have stopped. The drain continues if the command is
interrupted or the daemon is replaced; coppice start ends it.`,
		Example: `  coppice drain fleet/writer --timeout 10m --reason 'new release'`,
		Args:    command.Some("the path of an agent or supervisor is missing; coppice tree shows them"),
		RunE: func(_ *cobra.Command, paths []string) error {
			if timeout <= 0 || timeout > drain.MaxTimeout {
				return command.Usagef("--timeout is %v, expected more than 0 and at most %v",
					timeout, drain.MaxTimeout)
			}
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				errs := make([]error, len(paths))
				var wg sync.WaitGroup
				var mu sync.Mutex
				for i, path := range paths {
					wg.Go(func() {
						req := drain.Request{Path: path, Timeout: timeout.Seconds(), Reason: reason}
						if errs[i] = drainOne(ctx, c, req); errs[i] == nil {
							mu.Lock()
							defer mu.Unlock()
							fmt.Fprintf(s.Out, "%s drained\n", plaintext.Line(path))
						}
					})
				}
				wg.Wait()
				for _, err := range errs {
					if err != nil &&
						(ctx.Err() != nil || errors.Is(err, api.ErrDown) || errors.Is(err, api.ErrStopping)) {
						return err // the others failed for the same reason
					}
				}
				return errors.Join(errs...)
			})
		},
		ValidArgsFunction: r.CompletePath(true),
	}
	r.Flags(cmd)
	cmd.Flags().Var((*timespan.Flag)(&timeout), "timeout", "how long they may take, such as 90s or 1d")
	cmd.Flags().StringVar(&reason, "reason", "", "why, a `TEXT` for agents and people; 256 bytes are kept")
	return cmd
}

// drainOne drains one path and waits for the end, even if another daemon takes over.
func drainOne(ctx context.Context, c *api.Client, req drain.Request) error {
	_, err := drain.Begin.Call(ctx, c, req)
	if errors.Is(err, api.ErrLost) {
		req.Again = true
		err = api.Retry(ctx, command.AgentTimeout, func() error {
			_, err := drain.Begin.Call(ctx, c, req)
			return err
		})
	}
	return err
}

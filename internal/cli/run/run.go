// Package run has the commands that start and stop a daemon, and manage its state.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/cli/sage"
	"github.com/coppice-dev/coppice/internal/cli/top"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/fakeagent/sandbox"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

func NewRun(s *command.Streams) *cobra.Command {
	var file string
	var trace sage.Trace
	var fake string
	cmd := &cobra.Command{
		Use:   "run [FILE.sg|DIR]",
		Short: "Run a fleet or a Sage program in the foreground",
		Long: `Run the fleet in the foreground until no agent runs or will run again. If orders,
pools with a check, or triggers of Aidefiles may start something later, it runs until Ctrl-C.

On a terminal it shows the live tree above the output of the agents; piped, it
writes plain lines; with --json, one event a line on stdout. All other commands work on it from
another terminal.

Ctrl-C (or SIGTERM) stops all agents, those that depend on others first, within
the shutdown time; a second one kills them. In the live tree, q asks and then
stops them as Ctrl-C does. The exit code is 0 when the fleet has ended, 1 when
the limit of the root was reached, 78 when the file has errors, and 128 plus
the number of the signal that stopped it.

With a FILE.sg, or a DIR in a project with a grove.toml, it runs that Sage program. So it does
without an argument if there is a grove.toml and no coppice.toml. Output of the program goes to
standard output, events of its supervisors to standard error. The exit codes are the same, and
1 if the program is not valid.

With --fake, no model is called: fakes of claude, codex, gemini, opencode and copilot play a
plan, such as quota@10m. The state of the project is not touched, and pipelines work in a copy
of their repository. See docs/fake.md.`,
		Example: `  coppice run
  coppice run --fake ok
  coppice run --fake 'quota@10m+30m,night/coder:crash%10,seed=7'`,
		Args: sage.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			var plan *fakeagent.Plan
			if cmd.Flags().Changed("fake") {
				p, err := fakeagent.Parse(fake)
				if err != nil {
					return command.Usagef("--fake is invalid: %w", err)
				}
				plan = &p
			}
			switch {
			case len(args) > 0 && file != "":
				return command.Usagef("%s and --file %s, expected one of them", args[0], file)
			case len(args) > 0 && strings.HasSuffix(args[0], ".toml"):
				return command.UsageError(command.NoArgs(cmd, args))
			case len(args) > 0 && args[0] == "":
				return command.Usagef("the name of the program is empty, expected a file or a directory")
			case len(args) > 0:
				return inSandbox(s, plan, func(in *sandbox.Sandbox) error { return runProgram(s, args[0], trace, in) })
			}
			path, err := command.FindConfig(file)
			if err != nil {
				return err
			}
			if grove.Is(path) {
				path = filepath.Dir(path)
				return inSandbox(s, plan, func(in *sandbox.Sandbox) error { return runProgram(s, path, trace, in) })
			}
			if err := command.OnlyPeople(path, "coppice run"); err != nil {
				return err
			}
			return inSandbox(s, plan, func(in *sandbox.Sandbox) error { return run(s, path, trace, in) })
		},
	}
	cmd.Flags().StringVar(&fake, "fake", "", "call fakes of claude, codex and others, which play this `PLAN`")
	trace.Add(cmd)
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "events and output as NDJSON")
	return cmd
}

// view shows a run. Its methods may be called concurrently.
type view interface {
	Event(e supervisor.Event)
	Output(path string, incarnation uint64, line proc.Line)
	// Order shows an event of an order.
	Order(e event.Event)
	// Watch shows the fleet until ctx is done.
	Watch(ctx context.Context, c *controller.Controller)
	// Close shows remaining output, and then the summary.
	Close(summary []string) error
}

// run runs a fleet to its end, in a sandbox unless it is nil.
func run(s *command.Streams, path string, trace sage.Trace, in *sandbox.Sandbox) error {
	to, closeTrace, err := trace.Open()
	if err != nil {
		return err
	}
	defer closeTrace()
	stop, ctx := foreground.NewStopper()
	v := newView(s, stop)
	log := s.Err
	if live, ok := v.(*top.Live); ok {
		log = live
	}
	return runFleet(ctx, s, stop, v, in, daemon.ServeOptions{
		Config: path, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Trace: to,
	})
}

// runFleet runs a fleet to its end and shows it.
func runFleet(
	ctx context.Context,
	s *command.Streams,
	stop *foreground.Stopper,
	v view,
	in *sandbox.Sandbox,
	o daemon.ServeOptions,
) error {
	began := time.Now()
	var sum summary
	watching, ended := context.WithCancel(context.Background())
	defer ended()
	var shown sync.WaitGroup
	o.Once, o.Output = true, v.Output
	o.OnEvent = func(e supervisor.Event) {
		sum.note(e)
		v.Event(e)
	}
	o.Up = func(c *controller.Controller, _ string) {
		shown.Go(func() { v.Watch(watching, c) })
		shown.Go(func() { showOrders(watching, c, began, v) })
	}
	if in != nil {
		o.Sandbox = in
		in.Note = func(text string) { o.Logger.Warn(text) }
	}
	failed := serve(ctx, stop, o)
	if in != nil {
		os.Remove(filepath.Join(filepath.Dir(o.Config), endpoint.Dir)) // made for the socket, unless something is in it
	}
	ended()
	shown.Wait()
	if err := v.Close(sum.lines()); err != nil && failed == nil {
		failed = fmt.Errorf("writing to the standard output: %w", err)
	}
	if bad, ok := errors.AsType[config.Errors](failed); ok { // in the format of validate
		fmt.Fprintln(s.Err, bad)
		return command.Exit(command.ExitConfig, nil)
	}
	if stop.First() != 0 {
		return stop.Signalled()
	}
	if limit, ok := errors.AsType[*supervisor.LimitError](failed); ok {
		return command.Exit(command.ExitFailure, limit)
	}
	return failed
}

// showOrders shows the events of orders since the start of a run.
func showOrders(ctx context.Context, c *controller.Controller, began time.Time, v view) {
	for e, err := range c.Events(ctx, event.Query{Filter: event.Filter{Types: []string{"order.*"}}, Follow: true}) {
		if err != nil {
			return // the run has ended; errors of the event log are not shown
		}
		if strings.HasPrefix(string(e.Type), "order.") && !e.Time.Before(began) {
			v.Order(e)
		}
	}
}

// serve runs the daemon in this process. Signals stop the fleet, in order and then by killing.
func serve(ctx context.Context, stop *foreground.Stopper, o daemon.ServeOptions) error {
	release := stop.Listen() // before the first agent starts, so that no signal leaves one behind
	defer release()
	up := o.Up
	o.Version, o.Killed = command.Version(), stop.Killed()
	o.Up = func(c *controller.Controller, socket string) {
		stop.Control(c)
		up(c, socket)
	}
	err := daemon.Serve(ctx, o)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil { // stopped before it had started
		return nil
	}
	return coded(err)
}

// newView returns the view for the flags and the terminal.
func newView(s *command.Streams, stop *foreground.Stopper) view {
	out, ok := s.Out.(*os.File)
	tty := ok && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	switch {
	case s.JSON:
		return foreground.NewJSONView(s.Out, stop)
	case tty && term.IsTerminal(int(s.In.Fd())):
		return top.NewLive(s.In, out, stop)
	}
	return foreground.NewPlainView(s.Out, tty, stop)
}

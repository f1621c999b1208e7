package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/offline"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/status"
)

func NewDown(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var keep, local bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop all agents and end the daemon",
		Long: `Stop all agents and end the daemon. All are asked at the same time,
except that an agent is asked after those that depend on it have ended. An agent
that has not ended within its grace, or shutdown_timeout if that is longer, is
killed and listed. With --keep-agents the agents go on without the daemon, and
the next daemon takes them over. The command returns when the daemon has ended;
Ctrl-C only stops waiting for that. It also stops agents whose daemon was killed,
and exits with 0 if there is nothing to stop. In a fleet of several machines it
stops all of it; with --local it ends only the daemon of this machine, and the
fleet goes on: others start its agents. If no other node takes any, it says so
first. With --local --keep-agents these go on for up to 10 s, for a daemon that is
started here before.`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			p, inFleet := fleetOf(r)
			if s.JSON && (!local || !inFleet) {
				return command.Usagef("--json goes with --local, on a node of a fleet of several machines")
			}
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				if local && inFleet {
					return downLocal(ctx, c, r, s, p, keep)
				}
				st, err := status.Get.Call(ctx, c, api.None{})
				switch {
				case errors.Is(err, api.ErrDown):
					return alreadyDown(ctx, r, s, keep)
				case errors.Is(err, api.ErrNoController):
					return fmt.Errorf("%w; to end the daemon of this machine alone: coppice down --local", err)
				case err != nil:
					return err
				}
				pid, standsBy, err := daemonHere(r, st, keep)
				if err != nil {
					return err
				}
				_, err = control.Down.Call(ctx, c, control.DownRequest{Keep: keep})
				if err != nil && !errors.Is(err, api.ErrStopping) {
					return err
				}
				what := "all agents are stopped"
				var report <-chan shutdown.Report
				if keep {
					what = "the agents go on"
				} else {
					report = farewell(ctx, c)
				}
				if standsBy {
					go endStandby(ctx, c, pid)
				}
				if err := untilDown(ctx, c, pid); err != nil {
					return err
				}
				if err := ended(ctx, r, s, keep, false, report); err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.Out, "%s is down; %s\n", plaintext.Line(st.Project), what)
				return err
			})
		},
	}
	r.Flags(cmd)
	cmd.Flags().BoolVar(&keep, "keep-agents", false, "leave the agents running")
	cmd.Flags().BoolVar(&local, "local", false, "of a fleet, end the daemon of this machine alone")
	s.JSONFlag(cmd, "one object, with --local on a node of a fleet")
	return cmd
}

// ended tells how a daemon has ended, and stops what it has left. left means that agents of an earlier daemon may run.
func ended(
	ctx context.Context, r *command.Remote, s *command.Streams, keep, left bool, report <-chan shutdown.Report,
) error {
	printOverdue(s, lastWords(report).Overdue)
	file, err := r.Find()
	if err != nil {
		return err
	}
	if !keep && (left || project.Killed(file)) { // perhaps before it had stopped everything
		_, err = stopOrphans(ctx, r, s)
	}
	return err
}

// daemonHere returns the process of the daemon of this machine, and whether it stands by in a fleet. The error
// says that the agents of the fleet cannot be kept from here.
func daemonHere(r *command.Remote, st status.Status, keep bool) (pid int, standsBy bool, err error) {
	p, ok := fleetOf(r)
	if !ok {
		return st.Controller.PID, false, nil
	}
	self, err := member.Load(p.Node())
	if err != nil {
		return 0, false, err
	}
	if keep && self.Name() != st.Controller.Host {
		return 0, true, fmt.Errorf("this is node %s, and the controller is node %s: --keep-agents is for that "+
			"machine; for this one alone: coppice down --local --keep-agents", self.Name(), st.Controller.Host)
	}
	holder, _ := p.Locked()
	return holder.PID, self.Name() != st.Controller.Host, nil
}

// farewell asks for the report of the shutdown, and returns a channel that gets it. It never comes if the daemon has
// ended before it could answer. Another daemon may have been started since, which reports only when it is stopped, too.
func farewell(ctx context.Context, c *api.Client) <-chan shutdown.Report {
	report := make(chan shutdown.Report, 1)
	go func() {
		defer close(report)
		if all, err := shutdown.GetReport.Call(ctx, c, api.None{}); err == nil {
			report <- all
		}
	}()
	return report
}

// lastWords returns the report of a daemon that has ended; an empty one if it does not come. What the daemon has sent
// is here or on its way. report may be nil.
func lastWords(report <-chan shutdown.Report) (all shutdown.Report) {
	if report == nil {
		return all
	}
	select {
	case all = <-report:
	case <-time.After(lastWordsTime):
	}
	return all
}

// lastWordsTime bounds the wait for what a daemon has sent before it ended.
const lastWordsTime = time.Second

// asides returns where a command writes what does not belong to its JSON.
func asides(s *command.Streams) io.Writer {
	if s.JSON {
		return s.Err
	}
	return s.Out
}

// printOverdue lists the agents that had to be killed.
func printOverdue(s *command.Streams, all []shutdown.Overdue) {
	for _, late := range all {
		waited := time.Duration(late.Waited * float64(time.Second)).Round(100 * time.Millisecond)
		fmt.Fprintf(asides(s), "%s did not stop within %v, and was killed\n", plaintext.Line(late.Who()), waited)
	}
}

// alreadyDown stops agents that run without a daemon, unless keep is set, and prints the result.
func alreadyDown(ctx context.Context, r *command.Remote, s *command.Streams, keep bool) error {
	note := "already down: no daemon is running"
	if !keep {
		stopped, err := stopOrphans(ctx, r, s)
		if err != nil || stopped {
			return err
		}
		note += ", and no agents"
	}
	if _, ok := fleetOf(r); ok {
		note += " on this node; other nodes of the fleet may run: coppice node ls"
	}
	_, err := fmt.Fprintln(asides(s), note)
	return err
}

// stopOrphans stops agents and orders that run without a daemon, and reports whether there were
// any. It also kills what is left of agents that were lost.
func stopOrphans(ctx context.Context, r *command.Remote, s *command.Streams) (any bool, err error) {
	file, err := r.Find()
	if err == nil {
		err = command.OnlyPeople(file, "coppice down")
	}
	if err != nil {
		return false, err
	}
	logger := slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	stopped, err := offline.Stop(ctx, file, logger)
	for _, path := range stopped.Lost {
		fmt.Fprintf(asides(s), "%s was lost; what it left behind was killed\n", plaintext.Line(path))
	}
	for _, path := range stopped.Agents {
		fmt.Fprintf(asides(s), "%s stopped\n", plaintext.Line(path))
	}
	printOverdue(s, stopped.Late)
	if err != nil || len(stopped.Agents) == 0 && stopped.Orders == 0 {
		return false, err
	}
	what := plaintext.Plural(len(stopped.Agents), "agent")
	if stopped.Orders > 0 {
		what += " and " + plaintext.Plural(stopped.Orders, "run") + " of orders"
	}
	_, err = fmt.Fprintf(asides(s), "%s without a daemon, all stopped\n", what)
	return true, err
}

// untilDown waits until the daemon with a pid has ended: it no longer answers, and its process is
// gone. While the daemon stops its agents, it is not asked for its status, which has all of them.
func untilDown(ctx context.Context, c *api.Client, pid int) error {
	return untilReplaced(ctx, c, pid, func() (bool, error) {
		st, err := status.Get.Call(ctx, c, api.None{})
		return err == nil && st.Controller.PID != pid, err
	})
}

// untilReplaced waits until the daemon with a pid has ended: it no longer answers, or replaced reports that another
// one does, and its process is gone.
func untilReplaced(ctx context.Context, c *api.Client, pid int, replaced func() (bool, error)) error {
	gone := exitCheck(pid)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	silent := false
	var deadline time.Time
	for {
		if !silent {
			err := c.Reach(ctx)
			if err == nil && gone() { // another daemon may have been started
				silent, err = replaced()
			}
			silent = silent || errors.Is(err, api.ErrDown)
			deadline = time.Now().Add(10 * time.Second)
		}
		// The daemon closes its socket before it ends, and releases its lock when it ends.
		if silent && (gone() || time.Now().After(deadline)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// standbyTime is how long a daemon that stands by has to learn that its fleet was stopped.
const standbyTime = 5 * time.Second

// endStandby ends a daemon that stands by once no controller has answered for a while: if it is cut off from the store,
// it does not learn that its fleet was stopped. It returns when ctx ends.
func endStandby(ctx context.Context, c *api.Client, pid int) {
	gone := exitCheck(pid)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time // when the first of some requests found no controller
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_, err := status.Get.Call(ctx, c, api.None{})
		switch {
		case !errors.Is(err, api.ErrNoController):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > standbyTime && !gone():
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may just have ended
			return
		}
	}
}

// exitCheck returns a function that reports whether a process has ended. A zombie counts as ended,
// because its parent may never reap it.
func exitCheck(pid int) (gone func() bool) {
	id, unknown := proc.Identify(pid)
	return func() bool {
		return pid <= 0 || pid == os.Getpid() || syscall.Kill(pid, 0) == syscall.ESRCH || unknown == nil &&
			proc.Observe(id) == proc.Dead
	}
}

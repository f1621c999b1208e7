package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cli/cluster"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/cli/sage"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/web"
	"github.com/coppice-dev/coppice/supervisor"
)

func NewUp(s *command.Streams) *cobra.Command {
	var file string
	var detach, dry bool
	var fake, url string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the daemon that keeps the fleet running",
		Long: `Start the daemon. Agents outlive it: when it is killed, the next one takes them over.

In the foreground it prints events until Ctrl-C, which stops all agents in order; a second
Ctrl-C kills those that have not ended. With -d it goes into the background, and the command
returns when every agent has been started. If something needs a person, it is listed as by
coppice status and the exit code is 1; the daemon stays up. If a daemon is already up, up -d
prints this list and exits with 0; up in the foreground fails.

With --dry-run it starts and stops nothing, and prints what a daemon would do first, or what a
running daemon is about to do. Without a daemon it runs the checks of pools; with a daemon it
uses their last results.

With --store, this machine becomes a node of the fleet that has its state there, as by coppice
cluster init, unless it is one. Agents run on all nodes of a fleet. One node is the controller,
which decides what runs where; another one takes over when it is lost.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("fake") {
				return command.Usagef("coppice up has no --fake: fakes and their state live for one run; use " +
					"coppice run --fake")
			}
			path, err := command.FindConfig(file)
			if err != nil {
				return err
			}
			if s.JSON && !dry {
				return command.Usagef("--json goes with --dry-run")
			}
			if dry {
				return upDry(s, path)
			}
			if err := command.OnlyPeople(path, "coppice up"); err != nil {
				return err
			}
			if url != "" {
				if err := cluster.Enter(s, "coppice up", path, url); err != nil {
					return err
				}
			}
			if detach {
				return upDetached(s, path)
			}
			return up(s, path)
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().StringVar(&fake, "fake", "", "not here: see coppice run --fake")
	cmd.Flags().MarkHidden("fake")
	cmd.Flags().StringVar(&url, "store", "", "be a node of the fleet with the store at this `URL`: "+
		"etcd://HOST[:PORT][,...][/PREFIX]")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "go into the background")
	cmd.Flags().BoolVarP(&dry, "dry-run", "n", false, "only print what would be done; runs the checks of pools")
	s.JSONFlag(cmd, "one object, with --dry-run")
	return cmd
}

// upDry prints what a daemon would do first, or what a running daemon is about to do.
func upDry(s *command.Streams, path string) error {
	p, err := project.Open(path)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(context.Background())
	defer stop()
	if _, locked := p.Locked(); !locked {
		if p.InFleet() {
			return command.Exit(command.ExitNoDaemon, project.ErrFleet)
		}
		pass, err := controller.Preview(ctx, path, slog.New(slog.NewTextHandler(s.Err, nil)))
		if err != nil {
			return coded(err)
		}
		return printPass(s, pass)
	}
	socket, err := endpoint.Path(p.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	client := api.Dial(socket)
	defer client.Close()
	return patrol(ctx, s, client, true)
}

// previewTimeout bounds the call of a running daemon.
const previewTimeout = 30 * time.Second

// readyFD is the descriptor on which a background daemon reports to the command that started it.
const (
	readyFD  = 3
	readyEnv = "COPPICE_READY_FD"
)

// readyReport is that report, one line of JSON.
type readyReport struct {
	Message string             `json:"message"`
	Unwell  []status.Attention `json:"unwell,omitempty"` // problems
	Code    int                `json:"code"`
	Waits   bool               `json:"waits,omitempty"`  // it does not work yet, and goes on trying
	Holder  int                `json:"holder,omitempty"` // pid of another daemon that holds the project
}

// readyDelay is how long agents have run when their daemon reports, so that it notices those that exit at once.
const readyDelay = 500 * time.Millisecond

// delayOf returns how long a daemon waits before its report. It does not wait for agents that it has adopted, which
// have run long enough.
func delayOf(nodes []status.Node, now time.Time) (delay time.Duration) {
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Kind != "agent":
		case n.StartedAt != nil:
			delay = max(delay, readyDelay-now.Sub(*n.StartedAt))
		case n.State != supervisor.Stopped.String() && n.State != supervisor.Suspended.String():
			return readyDelay
		}
	}
	return min(delay, readyDelay)
}

// up runs the daemon.
func up(s *command.Streams, path string) error {
	report := func(readyReport) {}
	if os.Getenv(readyEnv) == fmt.Sprint(readyFD) {
		os.Unsetenv(readyEnv)
		syscall.CloseOnExec(readyFD)
		pipe := os.NewFile(readyFD, "ready")
		report = func(r readyReport) {
			json.NewEncoder(pipe).Encode(r)
			pipe.Close()
			report = func(readyReport) {}
		}
	}
	logger := slog.New(slog.NewTextHandler(s.Err, nil))
	printing, cancel := context.WithCancel(context.Background())
	defer cancel()
	to, closeTrace, err := sage.Trace{}.Open() // the environment may ask for a trace
	if err != nil {
		return err
	}
	defer closeTrace()
	stop, ctx := foreground.NewStopper()
	err = serve(ctx, stop, daemon.ServeOptions{
		Config: path, Logger: logger, Trace: to, Hurry: stop.Reloads(),
		Web: func(w spec.Web, kept store.Store, socket, node string) daemon.Face {
			return web.Host(w, web.Options{
				Client: api.Dial(socket), File: path, By: command.UserName(), Logger: logger, Store: kept, Node: node,
			})
		},
		Up: func(c *controller.Controller, socket string) {
			fmt.Fprintf(s.Out, "up, process %d, socket %s\n", os.Getpid(), socket)
			go printEvents(printing, s.Out, c)
		},
		Ready: func(c *controller.Controller) {
			delay := readyDelay
			if nodes, err := c.Model().Nodes(context.Background(), ""); err == nil {
				delay = delayOf(nodes, time.Now())
			}
			select {
			case <-time.After(delay):
			case <-c.Ended(): // reported as an error below
				return
			}
			r := readyReport{Message: "up"}
			if st, err := c.Model().Status(context.Background()); err == nil {
				r = readyReport{Message: summaryOf(c, st), Unwell: unwell(st)}
			}
			report(r)
		},
		Standby: func(message string) {
			fmt.Fprintln(s.Out, plaintext.Line(message))
			report(readyReport{Message: message})
		},
		Waiting: func(message string) { report(readyReport{Message: message, Waits: true}) },
	})
	if err != nil {
		r := readyReport{Message: err.Error(), Code: command.ExitCode(err)}
		if locked, ok := errors.AsType[*project.LockedError](err); ok {
			r.Holder = locked.Holder.PID
		}
		report(r)
	}
	return err
}

// coded adds the exit code to configuration errors.
func coded(err error) error {
	if _, ok := errors.AsType[config.Errors](err); ok {
		return command.Exit(command.ExitConfig, err)
	}
	return err
}

// printEvents prints the events of a controller, a line each. In a fleet, those of the controllers of other nodes
// follow in the same log.
func printEvents(ctx context.Context, w io.Writer, c *controller.Controller) {
	started := false
	for e, err := range c.Events(ctx, event.Query{After: c.Before(), Follow: true}) {
		if err != nil || started && e.Type == event.ControllerStarted {
			return
		}
		started = started || e.Type == event.ControllerStarted
		fmt.Fprintf(w, "%s %s\n", e.Time.Local().Format(time.TimeOnly), plaintext.Line(e.Message))
		if e.Type == event.ControllerStopped {
			return
		}
	}
}

// summaryOf summarizes the fleet in a line.
func summaryOf(c *controller.Controller, st status.Status) string {
	total := 0
	for _, n := range st.Summary {
		total += n
	}
	idle := ""
	if n := st.Summary[aidefile.Idle.String()] + st.Summary[aidefile.Done.String()]; n > 0 {
		idle = fmt.Sprintf(", %d waiting for a trigger", n)
	}
	line := fmt.Sprintf("%s is up: %d of %s running%s, process %d",
		st.Project, st.Summary["running"], plaintext.Plural(total, "agent"), idle, st.Controller.PID)
	if paths := stoppedByHand(c); len(paths) > 0 {
		line += "; stopped by hand: " + strings.Join(paths, ", ")
	}
	if !st.Store.OK {
		line += "; state cannot be kept: " + st.Store.Error
	}
	return line
}

// maxStopped is how many paths stoppedByHand returns.
const maxStopped = 5

// stoppedByHand returns the paths of nodes that only a start brings back, without those in a
// stopped supervisor.
func stoppedByHand(c *controller.Controller) (paths []string) {
	nodes, err := c.Model().Nodes(context.Background(), "")
	if err != nil {
		return nil
	}
	more := 0
	for _, n := range nodes {
		switch {
		case !n.StoppedByHand:
		case len(paths) == maxStopped:
			more++
		default:
			paths = append(paths, n.Path)
		}
	}
	if more > 0 {
		paths = append(paths, fmt.Sprintf("and %d more", more))
	}
	return paths
}

// unwell returns what does not run as it should, without rejected files and open questions.
func unwell(st status.Status) []status.Attention {
	return slices.DeleteFunc(st.Attention, func(a status.Attention) bool { return !a.Unwell() })
}

// unwellError lists problems as the error of up -d; nil if there are none.
func unwellError(all []status.Attention) error {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	for _, a := range all {
		for i, line := range show.AttentionOf(a, nil, time.Now(), terminal.Paint{}) {
			b.WriteString("\n  " + strings.Repeat("  ", min(i, 1)) + line)
		}
	}
	return errors.New("not well:" + b.String())
}

// upDetached starts the daemon in the background and waits for its readiness.
func upDetached(s *command.Streams, path string) error {
	_, notices, err := load.Tree(path)
	if err != nil { // report errors here, not in the log file
		return command.Exit(command.ExitConfig, err)
	}
	for _, n := range notices {
		fmt.Fprintln(s.Err, n)
	}
	p, err := project.Open(path)
	if err != nil {
		return err
	}
	if holder, locked := p.Locked(); locked {
		return alreadyUp(s, p, holder.PID)
	}
	if err := p.Make(); err != nil {
		return err
	}
	log, err := private.OpenFile(p.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, "up", "--file", path)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", readyEnv, readyFD))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(r, 1<<20)).ReadBytes('\n')
	var report readyReport
	if err != nil || json.Unmarshal(line, &report) != nil {
		cmd.Wait()
		return fmt.Errorf("the daemon ended before it was up; see its log: %s", p.Log())
	}
	switch {
	case report.Holder != 0: // another daemon was faster
		cmd.Wait()
		return alreadyUp(s, p, report.Holder)
	case report.Code != 0:
		cmd.Wait()
		return command.Exit(report.Code, errors.New(report.Message))
	}
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	if report.Waits {
		return errors.New(plaintext.Line(report.Message) + "; the daemon stays, and goes on as soon as it can")
	}
	fmt.Fprintln(s.Out, plaintext.Line(report.Message))
	return unwellError(report.Unwell)
}

// alreadyUp reports that a daemon is already running, with its problems if it answers.
func alreadyUp(s *command.Streams, p project.Project, pid int) error {
	const message = "%s is already up, process %d; it reloads the file when it changes\n"
	if _, err := fmt.Fprintf(s.Out, message, plaintext.Line(p.Dir), pid); err != nil {
		return err
	}
	socket, err := endpoint.Path(p.Dir)
	if err != nil {
		return err
	}
	client := api.Dial(socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), command.ProjectTimeout)
	defer cancel()
	if st, err := status.Get.Call(ctx, client, api.None{}); err == nil {
		if e := unwellError(unwell(st)); e != nil {
			fmt.Fprintln(s.Out, e)
		}
	}
	return nil // the daemon is up, as requested
}

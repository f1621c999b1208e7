package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func newRun(s *streams) *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the fleet in the foreground until it has ended",
		Long: `Run the fleet in the foreground until no agent runs or will run again.

On a terminal it shows the live tree above the output of the agents; piped, it
writes plain lines; with --json, one event a line on stdout.

Ctrl-C (or SIGTERM) stops all agents in reverse order, each within its shutdown
time; once more kills them. The exit code is 0 when the fleet has ended, 1 when
the limit of the root was reached, 78 when the file is at fault, and 128 plus
the number of the signal that stopped it.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := findConfig(file)
			if err != nil {
				return err
			}
			tree, err := config.Load(path)
			if err != nil {
				fmt.Fprintln(s.err, err)
				return &exitError{code: exitConfig}
			}
			return run(s, tree, asJSON)
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print events and output as NDJSON")
	return cmd
}

// view shows a run. Its methods may be called from many goroutines.
type view interface {
	event(e supervisor.Event)
	output(agent supervisor.Self, line proc.Line)
	// watch shows the fleet until ctx is done.
	watch(ctx context.Context, f *daemon.Fleet)
	// close shows what is left to show, then the summary.
	close(summary []string) error
}

// run runs a fleet from its start to its end.
func run(s *streams, tree *spec.Tree, asJSON bool) error {
	stop := &stopper{}
	v := newView(s, asJSON, stop)
	var sum summary
	fleet, err := daemon.Launch(context.Background(), tree, daemon.Observer{
		Event: func(e supervisor.Event) {
			sum.note(e)
			v.event(e)
		},
		Output: v.output,
	})
	if err != nil {
		return err
	}
	stop.fleet.Store(fleet)

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away must not leave agents behind
	ctx, ended := context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case sig := <-signals:
				stop.signal(sig.(syscall.Signal))
			case <-ctx.Done():
				return
			}
		}
	}()
	shown := make(chan struct{})
	go func() {
		v.watch(ctx, fleet)
		close(shown)
	}()

	failed := fleet.Wait()
	ended()
	<-shown
	if err := v.close(sum.lines()); err != nil && failed == nil {
		failed = fmt.Errorf("writing to the standard output: %w", err)
	}
	var limit *supervisor.LimitError
	switch sig := syscall.Signal(stop.by.Load()); {
	case sig != 0:
		return &exitError{exitSignalled + int(sig), fmt.Errorf("stopped by %v", sig)}
	case errors.As(failed, &limit):
		return &exitError{exitFailure, limit}
	}
	return failed
}

// newView chooses how a run is shown.
func newView(s *streams, asJSON bool, stop *stopper) view {
	out, ok := s.out.(*os.File)
	tty := ok && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	switch {
	case asJSON:
		return newJSONView(s.out, stop)
	case tty && term.IsTerminal(int(s.in.Fd())):
		return newLiveView(s.in, out, stop)
	}
	return newPlainView(s.out, tty, stop)
}

// stopper ends a fleet: the first time it is asked in order, then brutally.
type stopper struct {
	fleet atomic.Pointer[daemon.Fleet]
	by    atomic.Int32 // the first signal
	since atomic.Int64 // Unix nanoseconds of it
}

// twice is how soon the same wish may come again and still be one: timeout(1)
// and some shells signal both the process and its group.
const twice = 200 * time.Millisecond

func (s *stopper) signal(sig syscall.Signal) {
	f := s.fleet.Load()
	switch now := time.Now().UnixNano(); {
	case f == nil:
	case s.by.CompareAndSwap(0, int32(sig)):
		s.since.Store(now)
		f.Stop()
	case now-s.since.Load() > int64(twice):
		f.Kill()
	}
}

// broken ends a fleet whose output nobody reads any more.
func (s *stopper) broken() {
	if f := s.fleet.Load(); f != nil {
		f.Stop()
	}
}

// Package offline works on projects without a daemon. It stops the agents and jobs that a killed
// daemon has left running, and backs up, restores and copies the store.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/guard"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Stopped is the result of Stop.
type Stopped struct {
	Agents []string // paths, in the order in which they ended
	Lost   []string // paths of agents that had ended unseen, sorted; what they left behind was killed
	Orders int      // runs of orders
	Late   []shutdown.Overdue
}

// Stop stops the agents and the runs of orders of a project whose daemon was killed. Package shutdown
// defines the order of the agents. The next daemon finds an orderly shutdown. The error is a
// *project.LockedError if a daemon runs.
func Stop(ctx context.Context, file string, logger *slog.Logger) (stopped Stopped, err error) {
	p, err := project.Open(file)
	if err != nil {
		return stopped, err
	}
	if _, err := os.Stat(p.Slots()); errors.Is(err, fs.ErrNotExist) {
		return stopped, nil // nothing ever ran
	}
	lock, err := p.Lock()
	if err != nil {
		return stopped, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	defer func() {
		if err == nil {
			p.WriteExitRecord(nil)
			err = guard.End(p)
		}
	}()
	tree, _, err := load.Tree(file)
	if err != nil { // agents must stop even if the file is invalid
		tree = &spec.Tree{Root: &spec.Node{Name: "?"}, Patrol: spec.DefaultPatrol()}
	}
	runtimes, end, err := p.OpenRuntimes(ctx, tree, logger, nil)
	if err != nil {
		return stopped, err
	}
	defer func() { err = errors.Join(err, end()) }()
	all, err := agent.ListSlots(ctx, runtimes)
	if err != nil {
		return stopped, err
	}
	// Slots in an unknown state are stopped, too: StopOffline waits until their state is known.
	all = slices.DeleteFunc(all, func(s agent.Slot) bool { return !s.Lives() && !s.Unrecorded })
	if p.InFleet() {
		leave(ctx, p, runtimes, logger)
	}
	if stopped.Orders, err = job.HaltAll(ctx, job.Options{Dir: p.Jobs(), Logger: logger}); err != nil {
		return stopped, err
	}
	if err := endChecks(ctx, p); err != nil {
		return stopped, err
	}
	if len(all) == 0 {
		return stopped, nil
	}
	result := agent.StopOffline(ctx, tree, runtimes, all)
	stopped.Agents, stopped.Late = result.Paths(), result.Overdue
	var events []event.Event
	for _, o := range result.Lost {
		stopped.Lost = append(stopped.Lost, o.Path)
		events = append(events, agent.LateExit(o.Path, o.Ended))
	}
	for _, a := range result.Stopped {
		events = append(events, event.Event{
			Time: time.Now(), Type: event.AgentStopped, Path: a.Path, Incarnation: a.Incarnation, Actor: "user",
			Message: fmt.Sprintf("%s stopped: its daemon had been killed", a.Path),
		})
	}
	var errs []error
	for _, path := range result.FailedPaths() {
		errs = append(errs, fmt.Errorf("stopping %s: %w", path, result.Failed[path]))
	}
	if p.InFleet() { // where the controller logs that its agents are lost
		return stopped, errors.Join(errs...)
	}
	if err := writeEvents(ctx, p.WithPersistence(tree.Persistence), logger, events, len(errs) == 0); err != nil {
		errs = append(errs, fmt.Errorf("logging the stopped agents: %w", err))
	}
	return stopped, errors.Join(errs...)
}

// leave has the agents of a node of a fleet end as at its deadline. Otherwise a daemon that starts here before the
// lease has ended would report their ends to the controller, which counts them as failures.
func leave(ctx context.Context, p project.Project, runtimes []runtime.Runtime, logger *slog.Logger) {
	self, err := member.Load(p.Node())
	if err == nil {
		var until *deadline.Writer
		if until, err = deadline.NewWriter(p.DeadlineFile()); err == nil {
			err = until.Leave(self.Name())
		}
	}
	if err != nil { // they are stopped nevertheless
		logger.Warn("the exits of the agents do not say that this node has left the fleet", "error", err)
		return
	}
	agent.CheckDeadline(ctx, runtimes)
}

// closeTimeout bounds the wait for the last events to be written.
const closeTimeout = 5 * time.Second

// writeEvents appends events to the log of a project without a daemon. If orderly is set, the next
// daemon finds an orderly shutdown.
func writeEvents(
	ctx context.Context, p project.Project, logger *slog.Logger, events []event.Event, orderly bool,
) (err error) {
	if p.Database() == "" {
		return nil
	}
	db, err := p.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, err := event.Open(event.Config{Store: db, Logger: logger})
	if err != nil {
		return err
	}
	for i, e := range events {
		if i == len(events)-1 && orderly {
			log.Append(e, agent.MarkOrderly(false))
			continue
		}
		log.Append(e)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return log.Close(end)
}

// endChecks ends the checks of pools and orders of a project without a daemon.
func endChecks(ctx context.Context, p project.Project) error {
	socket, err := endpoint.Path(p.Dir)
	if err != nil {
		return err
	}
	return errors.Join(gate.End(ctx, p.Jobs()), pool.NewRunner(socket).Clear(ctx))
}

// Package service handles requests about tasks, and releases the tasks of agents that exit.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/notice"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/condition"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/internal/task/queue"
	"github.com/coppice-dev/coppice/internal/token"
)

// Tree provides the nodes of the project to a Service.
type Tree interface {
	Project() string
	// Full returns the full path of a node, given an abbreviated one.
	Full(path string) string
	HasAgent(path string) bool
	HasSupervisor(path string) bool
	// Pools returns the pools whose tasks an agent may claim.
	Pools(path string) []string
}

// Options configure a Service.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	Tree   Tree
	// Patrol returns the settings for claims and purges.
	Patrol func() spec.Patrol
	// Claimed is called when a task is claimed, and Asked when what people are asked about tasks may
	// have changed. They must not block, and may be nil.
	Claimed, Asked func()
	// Used returns what the attempts at a task have used, by their numbers. Those of which nothing is known are
	// missing.
	Used func(ctx context.Context, id string) (map[int]cost.Sum, error)
	// Blocked are the options for tasks that wait for a condition. Open sets its Log, Full and Logger.
	Blocked condition.Options
	// Background runs a function until it returns or the daemon stops.
	Background func(func(context.Context))
	// Nudge sends a nudge to an agent.
	Nudge func(ctx context.Context, path, text string)
	// Await runs wait while the agent does not count as idle. It returns ErrNothing if the agent is
	// asked to finish.
	Await func(ctx context.Context, who token.Caller, wait func(context.Context) error) error
}

// Service handles requests about the tasks of a Queue, and releases the tasks of agents that exit.
type Service struct {
	queue   *queue.Queue
	o       Options
	worked  worked
	blocked *condition.Watcher
}

// Open reads the tasks from the store.
func Open(ctx context.Context, o Options) (s *Service, err error) {
	s = &Service{o: o}
	o.Blocked.Log, o.Blocked.Full, o.Blocked.Logger = o.Log, o.Tree.Full, o.Logger
	s.blocked = condition.New(o.Blocked)
	s.queue, err = queue.Open(ctx, queue.Options{
		Store: o.Store, Name: o.Tree.Project(), Logger: o.Logger,
		MaxClaims: func() int { return o.Patrol().MaxClaims },
		PoolLimit: func() pools.Limit {
			p := o.Patrol()
			return pools.Limit{Max: p.MaxFailedTasks, Within: p.FailedTasksWindow}
		},
		HasCheck:  func(name string) bool { return spec.FindService(o.Blocked.Services(), name) != nil },
		LastEvent: s.lastEvent,
		Also: func(e task.Event) []store.Op {
			if e.Waits {
				s.blocked.Changed()
			}
			if e.Kind == task.Claimed && o.Claimed != nil {
				o.Claimed()
			}
			if (e.Asks || e.Pool != nil) && o.Asked != nil {
				o.Asked()
			}
			return append(s.worked.noted(e), o.Log.Op(logEntry(e)))
		},
	})
	if err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the queue. Steps that are not durable fail.
func (s *Service) Close() { s.queue.Close() }

// PausedPools returns the pools whose tasks are paused.
func (s *Service) PausedPools() []pools.Pool { return s.queue.PausedPools() }

// WhyNoTasks returns why an agent can claim no task of one of its pools, in a line; empty if that is not so.
func (s *Service) WhyNoTasks(path string) string {
	mine := s.o.Tree.Pools(path)
	for _, p := range s.PausedPools() {
		if slices.Contains(mine, p.Name) {
			return fmt.Sprintf("the tasks of its pool %s are paused: %s: coppice task resume %[1]s", p.Name, p.Reason)
		}
	}
	return ""
}

// lastEvent returns the number of the last event that was logged before the call.
func (s *Service) lastEvent(ctx context.Context) (uint64, error) {
	// While the store takes no events it takes no outcome either.
	if err := s.o.Log.SyncTo(ctx, s.o.Log.Mark()); err != nil && ctx.Err() != nil {
		return 0, err
	}
	_, last, err := s.o.Log.Last(ctx, 0, nil)
	return last, err
}

// ServicesChanged applies another list of services to the tasks that wait for one.
func (s *Service) ServicesChanged() { s.blocked.Changed() }

// Gates returns what blocked tasks wait for, the longest wait first.
func (s *Service) Gates() []task.Gate { return s.blocked.Gates() }

// Parked returns the number of parked tasks.
func (s *Service) Parked() int { return s.queue.Parked() }

// Counts returns the number of tasks by status.
func (s *Service) Counts() map[task.Status]int { return s.queue.Counts() }

// Run releases the tasks of ended incarnations in the background, and removes old tasks. pending
// reports whether it is not known yet if an agent is running.
func (s *Service) Run(pending func(path string) bool) {
	s.retry("cannot release the tasks of agents that have exited; retrying",
		func(ctx context.Context) error { return s.queue.Sweep(ctx, pending) })
	s.o.Background(s.purge)
	s.o.Background(func(ctx context.Context) { s.blocked.Run(ctx, s.queue) })
}

// maxPurgeWait bounds the time until changed purge settings take effect.
const maxPurgeWait = 30 * time.Second

// purge removes old tasks of orders at intervals, if configured. The first pass is immediate, since
// the daemon may stop before the interval is over.
func (s *Service) purge(ctx context.Context) {
	var last time.Time
	for {
		p, wait := s.o.Patrol(), maxPurgeWait
		if p.Purges() {
			if time.Since(last) >= p.GCInterval {
				last = time.Now()
				if _, err := s.queue.Purge(ctx, p.TTL); err != nil && ctx.Err() == nil {
					s.o.Logger.Warn("cannot remove old closed tasks", "error", err)
				}
			}
			wait = min(wait, p.GCInterval)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Bounds on the pause between attempts.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
)

// retry calls a function in the background until it succeeds.
func (s *Service) retry(warning string, do func(context.Context) error) {
	s.o.Background(func(ctx context.Context) {
		for pause := minRetry; ; pause = min(2*pause, maxRetry) {
			err := do(ctx)
			if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
				return
			}
			if pause == minRetry {
				s.o.Logger.Warn(warning, "error", err)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	})
}

// Start allows a new incarnation to claim tasks.
func (s *Service) Start(who token.Caller, secret string) {
	s.worked.begin(who, token.ID(secret))
	s.queue.Begin(who.Path, task.Life{Incarnation: who.Incarnation, ID: token.ID(secret)})
	s.releaseOrphans(who.Path)
}

func (s *Service) releaseOrphans(path string) {
	s.retry("cannot release the tasks of an agent that has exited; retrying",
		func(ctx context.Context) error { return s.queue.ReleaseOrphans(ctx, path) })
}

// Submit creates a task for an order, and nudges the assigned agent.
func (s *Service) Submit(ctx context.Context, by task.Actor, d task.Draft) (task.Task, error) {
	return s.submit(ctx, token.Caller{}, by, d)
}

func (s *Service) submit(
	ctx context.Context, caller token.Caller, by task.Actor, d task.Draft,
) (t task.Task, err error) {
	if d.Assignee, err = s.assignee(d.Assignee); err != nil {
		return t, err
	}
	t, fresh, err := s.queue.Create(ctx, by, d)
	if err == nil && fresh {
		s.nudge(t, caller)
	}
	return t, err
}

// nudge tells an agent about a task that another one has assigned to it.
func (s *Service) nudge(t task.Task, by token.Caller) {
	if s.o.Tree.HasAgent(t.Assignee) && t.Assignee != by.Path && t.Ready {
		s.o.Background(func(ctx context.Context) {
			s.o.Nudge(ctx, t.Assignee, fmt.Sprintf("coppice: there is a task for you, %s. Please run: "+
				"coppice agent task show %[1]s", t.ID))
		})
	}
}

// assignee returns the full path of an agent, or else the name of a person.
func (s *Service) assignee(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	full := s.o.Tree.Full(strings.Trim(name, "/"))
	switch {
	case s.o.Tree.HasAgent(full):
		return full, nil
	case s.o.Tree.HasSupervisor(full):
		return "", fmt.Errorf("%w: %s is a supervisor, and a task is assigned to one agent, or "+
			"with --pool to all of a pool", api.ErrInvalid, full)
	}
	return name, nil
}

// Notices is a notice.Source for the tasks that an agent can work on.
func (s *Service) Notices(ctx context.Context, who token.Caller, _ string) ([]notice.Notice, error) {
	h, err := s.queue.Hook(ctx, claimant(who, ""), s.o.Tree.Pools(who.Path))
	if err != nil {
		return nil, apiError(err)
	}
	var all []notice.Notice
	add := func(tasks []task.Task, format string) {
		for _, t := range tasks {
			text := fmt.Sprintf(format, t.ID, mail.Title(t.Title))
			all = append(all, notice.Notice{Kind: "task", ID: t.ID, Text: text})
		}
	}
	const mine = "%[1]s is yours and in progress: %[2]s. Run \"coppice agent task show %[1]s\" to read it, "
	for _, t := range h.Mine {
		end := "\"coppice agent task close %[1]s\" when it is done."
		if t.DoneWhen != "" {
			end = "\"coppice agent outcome completed --task %[1]s --evidence TEXT\" when it is done."
		}
		add([]task.Task{t}, mine+end)
	}
	add(h.Ready, "%[1]s is assigned to you: %[2]s. Run \"coppice agent task claim %[1]s\" to begin it.")
	add(h.Pool, "%[1]s is ready in your pool: %[2]s. Run \"coppice agent task claim\" to begin what comes first.")
	if h.More > 0 {
		all = append(all, notice.Notice{Kind: "task", Text: fmt.Sprintf("%d more tasks are ready for you.", h.More)})
	}
	return all, nil
}

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/notice"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// aides are the agents of Aidefiles: what their triggers, and people, start.
type aides struct {
	mu     sync.Mutex
	byPath map[string]*aider
	queues map[string]*aidefile.Queue // by their keys in the store
}

// aider is one of them.
type aider struct {
	gate     *trigger.Gate
	starting sync.Mutex // held by who starts a run

	mu      sync.Mutex
	agent   *aidefile.Agent
	order   runner.RunRequest // what its last run was told
	queue   *aidefile.Queue
	changed bool               // the queue, since it was written last
	held    supervisor.Reason  // why it is down, where a person wants that and its supervisor does not know it any more
	failing string             // why its issues cannot be looked at
	leave   context.CancelFunc // ends what watches its triggers
}

// aider returns the agent of an Aidefile at a path; nil if it is none.
func (c *Controller) aider(path string) *aider {
	a := c.fleet().agents[path]
	if a == nil || a.Aide == nil {
		return nil
	}
	c.aides.mu.Lock()
	defer c.aides.mu.Unlock()
	return c.aides.byPath[path]
}

// aideSaved is what is known of the nodes of a fleet from before, as far as it
// is true of agents of Aidefiles: none of them starts with the tree, a run that
// lives or is pending goes on, and no counter outlives the daemon.
func (c *Controller) aideSaved(f *fleet, p *past) func(string) (*supervisor.Saved, *supervisor.SavedSelf) {
	return func(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
		s, self := p.saved(path)
		a := f.agents[path]
		if a == nil || a.Aide == nil {
			return s, self
		}
		if s == nil {
			s = new(supervisor.Saved)
		}
		r, policy := p.records[path], a.Aide.File.Policy
		s.Restarts, s.Attempt, s.Counted = 0, 0, nil
		goesOn := true
		switch {
		case s.Adopt, s.State == supervisor.Paused:
		case s.State == supervisor.Suspended:
			goesOn = false
		case r != nil && r.State == supervisor.Restarting.String():
			s.State, s.NextAt, s.Reason = supervisor.Restarting, r.NextAt, supervisor.ReasonTransientFailed
		case r != nil && !p.orderly && r.Ended && r.State == supervisor.Waiting.String() && r.LastExit != nil &&
			policy.Follows(r.LastExit.exit()):
			// It was being started again when the daemon was killed.
			s.State, s.NextAt, s.Reason = supervisor.Restarting, time.Time{}, supervisor.ReasonTransientFailed
		case c.opts.Once && !waits(a.Aide):
			s.State = supervisor.Waiting // one life of the tree is one run
		default:
			s.State, s.Reason, s.NextAt, goesOn = supervisor.Stopped, supervisor.ReasonTransientClean, time.Time{},
				false
		}
		c.newAider(path, a.Aide, goesOn)
		return s, self
	}
}

// waits reports whether anything but a person starts the agent.
func waits(a *aidefile.Agent) bool {
	for _, t := range a.File.Triggers {
		if t.Kind != aidefile.Manual {
			return true
		}
	}
	return false
}

// newAider notes an agent; goesOn says that a run of it lives or is pending.
func (c *Controller) newAider(path string, a *aidefile.Agent, goesOn bool) {
	c.aides.mu.Lock()
	defer c.aides.mu.Unlock()
	if c.aides.byPath == nil {
		c.aides.byPath = make(map[string]*aider)
	}
	if c.aides.byPath[path] != nil {
		return
	}
	g := &aider{agent: a, gate: trigger.NewGate(a.File.Policy, goesOn), order: byHand(), queue: c.aides.queue(path)}
	g.gate.Ended = g.settle
	if o, err := runner.Read(c.orderPath(path)); goesOn && err == nil {
		if g.order = o; o.Issue > 0 {
			g.queue.Take(o.Issue, o.Task)
		}
	}
	g.queue.FreeAll(g.order.Issue) // whose runs ended with the daemon, or never began
	c.aides.byPath[path] = g
}

// followAides has the triggers of the fleet in force, and no others, start runs.
func (c *Controller) followAides() {
	f := c.fleet()
	c.aides.mu.Lock()
	defer c.aides.mu.Unlock()
	for path, g := range c.aides.byPath {
		if a := f.agents[path]; a == nil || a.Aide == nil {
			g.follow(nil)
			delete(c.aides.byPath, path)
			if a == nil {
				c.clearAide(path)
			}
		}
	}
	for path, g := range c.aides.byPath {
		a := f.agents[path].Aide
		g.mu.Lock()
		same := g.leave != nil && reflect.DeepEqual(g.agent, a)
		g.agent = a
		g.mu.Unlock()
		if same {
			continue
		}
		g.gate.Follow(a.File.Policy)
		ctx, cancel := context.WithCancel(context.Background())
		g.follow(cancel)
		c.watchTriggers(ctx, path, g, a)
	}
}

// relent has agents that were given up under another policy than now, or whose
// pending restart the new one does not want, wait for their triggers, with a
// fresh count: what a limit has held that has changed goes on at once elsewhere,
// but no run begins without a trigger.
func (c *Controller) relent(ctx context.Context, next *fleet) {
	for path, a := range next.agents {
		g := c.aider(path)
		if g == nil || !isAide(a) || g.policy() == a.Aide.File.Policy {
			continue
		}
		g.starting.Lock()
		if p, err := c.place(path, g); err == nil {
			i, err := p.Supervisor.Child(p.ID)
			policy := a.Aide.File.Policy
			unwanted := i.State == supervisor.Restarting && !policy.Follows(i.LastExit)
			if i.State == supervisor.Restarting && !i.LastExit.Clean() {
				saved, _, err := p.Supervisor.Save(p.ID)
				unwanted = unwanted || err == nil && saved.Attempt > policy.MaxRestarts
			}
			if err == nil && (i.State == supervisor.GivenUp || unwanted) {
				err = errors.Join(p.Supervisor.TerminateChild(ctx, p.ID, supervisor.ReasonChanged),
					p.Supervisor.Reset(p.ID))
				c.untroubled("an agent that was given up cannot be told of its new policy", path, err)
			}
		}
		g.starting.Unlock()
	}
}

// policy is the one in force when it was last told of its Aidefile.
func (g *aider) policy() aidefile.Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.agent.File.Policy
}

// follow ends what watches the triggers, and notes what ends the next.
func (g *aider) follow(leave context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leave != nil {
		g.leave()
	}
	g.leave = leave
}

// watchTriggers starts runs when the triggers of an agent fire, until ctx ends.
func (c *Controller) watchTriggers(ctx context.Context, path string, g *aider, a *aidefile.Agent) {
	var crons []aidefile.Trigger
	var schedules []aidefile.Schedule
	for _, t := range a.File.Triggers {
		switch t.Kind {
		case aidefile.Cron:
			crons, schedules = append(crons, t), append(schedules, t.Schedule)
		case aidefile.Issue:
			c.whileUp(ctx, func(ctx context.Context) {
				trigger.Poll(ctx, a.PollInterval, slowestPoll,
					func(ctx context.Context) error { return c.pollIssues(ctx, path, g, a) })
			})
		}
	}
	if len(schedules) == 0 {
		return
	}
	c.whileUp(ctx, func(ctx context.Context) {
		trigger.Watch(ctx, schedules, func(d aidefile.Due) {
			t := crons[d.Index]
			o := runner.RunRequest{Trigger: t.String(), Task: t.Task()}
			if d.Late {
				c.tellSkipped(path, o, fmt.Sprintf("it was due at %s, which nobody noticed in time",
					d.At.UTC().Format(time.RFC3339)), d.Missed)
				return
			}
			c.fire(ctx, path, o)
		})
	})
}

// whileUp runs f beside the tree until ctx ends or the controller is to end.
func (c *Controller) whileUp(ctx context.Context, f func(context.Context)) {
	c.background.run(func(up context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(up, cancel)()
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-c.down:
				cancel()
			case <-ended:
			}
		}()
		f(ctx)
	})
}

// place is where an agent of an Aidefile is in the tree.
func (c *Controller) place(path string, g *aider) (trigger.Place, error) {
	sup, id, err := c.locate(path)
	if err != nil {
		return trigger.Place{}, err
	}
	s := c.fleet().specs[path]
	s.Saved = &supervisor.Saved{Incarnation: c.last(path)}
	return trigger.Place{Supervisor: sup, ID: id, Spec: s, Gate: g.gate}, nil
}

// fire starts a run of an agent, if one is to start now, and tells of it. The
// error wraps trigger.ErrSkipped if there is none.
func (c *Controller) fire(ctx context.Context, path string, o runner.RunRequest) error {
	g := c.aider(path)
	if g == nil {
		return fmt.Errorf("%w: %s has no Aidefile, and no triggers", api.ErrInvalid, path)
	}
	err := c.tryFire(ctx, path, g, o)
	select {
	case <-c.down:
		return err // nobody wonders why nothing starts any more
	default:
	}
	if errors.Is(err, trigger.ErrSkipped) && ctx.Err() == nil {
		c.tellSkipped(path, o, strings.TrimPrefix(err.Error(), trigger.ErrSkipped.Error()+": "), 0)
	}
	return err
}

func (c *Controller) tryFire(ctx context.Context, path string, g *aider, o runner.RunRequest) error {
	if !g.starting.TryLock() {
		return fmt.Errorf("%w: another run of it is being started", trigger.ErrSkipped)
	}
	defer g.starting.Unlock()
	if g.isHeld() {
		return fmt.Errorf("%w: %s", trigger.ErrSkipped, aidefile.Decide(aidefile.Stopped).Reason)
	}
	if c.drains.Has(path) {
		return fmt.Errorf("%w: it is to finish, and to stay down", trigger.ErrSkipped)
	}
	p, err := c.place(path, g)
	if err != nil {
		return fmt.Errorf("%w: %w", trigger.ErrSkipped, err)
	}
	return p.Fire(ctx, func(d aidefile.Decision) error {
		c.tellFired(path, g, o, d.Reason)
		return nil
	})
}

// tellFired notes that a run begins.
func (c *Controller) tellFired(path string, g *aider, o runner.RunRequest, reason string) {
	o.Fired = time.Now()
	o.Chain = o.Fired
	g.mu.Lock()
	g.order, g.held = o, supervisor.NoReason
	if o.Issue > 0 {
		g.queue.Take(o.Issue, o.Task)
		g.changed = true
	}
	g.mu.Unlock()
	data := map[string]any{"trigger": o.Trigger, "task": firstLine(o.Task)}
	if o.Issue > 0 {
		data["issue"] = o.Issue
	}
	c.log.Append(event.Event{
		Type: event.AgentFired, Path: path, Actor: "controller",
		Message: fmt.Sprintf("%s fired by %s", path, source(o)),
	}.With(data), g.keepIssues(path)...)
}

func (c *Controller) tellSkipped(path string, o runner.RunRequest, reason string, missed int) {
	data := map[string]any{"trigger": o.Trigger, "reason": reason}
	if o.Issue > 0 {
		data["issue"] = o.Issue
	}
	if missed > 0 {
		data["missed"] = missed
	}
	c.log.Append(event.Event{
		Type: event.AgentFireSkipped, Path: path, Actor: "controller",
		Message: fmt.Sprintf("%s not fired by %s: %s", path, source(o), reason),
	}.With(data))
}

// source is what has fired, in words.
func source(o runner.RunRequest) string {
	switch {
	case o.Issue > 0:
		return fmt.Sprintf("issue %d", o.Issue)
	case o.Trigger == aidefile.Trigger{}.String():
		return "hand"
	}
	return o.Trigger
}

// firstLine is the first line of a task, for an event.
func firstLine(task string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	return strings.ToValidUTF8(fmt.Sprintf("%.200s", line), "")
}

// heldBy is why its triggers are not heard though nothing of it is listed.
func (g *aider) heldBy() supervisor.Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *aider) isHeld() bool { return g.heldBy() != supervisor.NoReason }

func (g *aider) hold(why supervisor.Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = why
}

// startAide is the Start function of an agent of an Aidefile.
func (c *Controller) startAide(start func(context.Context) (supervisor.Process,
	error)) func(context.Context) (supervisor.Process, error) {
	return func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		g := c.aider(self.Path)
		if g == nil {
			return nil, supervisor.ErrIgnore // it has just gone
		}
		return g.gate.Start(func(ctx context.Context) (supervisor.Process, error) {
			if err := c.giveOrder(self.Path, g); err != nil {
				return nil, err
			}
			p, err := start(ctx)
			if err != nil {
				return nil, err
			}
			return told{p}, nil
		})(ctx)
	}
}

// giveOrder writes what the run is told.
func (c *Controller) giveOrder(path string, g *aider) error {
	if c.opts.Work == "" {
		return nil
	}
	g.mu.Lock()
	o := g.order
	o.Aidefile, o.Settings = g.agent.Path, g.agent.Settings
	g.mu.Unlock()
	file := c.orderPath(path)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return o.Write(file)
}

// orderPath is the file of an agent's order, in a directory of its own.
func (c *Controller) orderPath(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(c.opts.Work, fmt.Sprintf("%.40s-%s", fileName(path), hex.EncodeToString(sum[:6])),
		runner.RequestName)
}

// clearAide removes what is left of an agent that is gone from the file, if its
// supervisor had forgotten it before: then nobody else has to do with it any more.
func (c *Controller) clearAide(path string) {
	above, id, _ := cutLast(path)
	sup := c.find(above)
	if sup == nil {
		return
	}
	if _, err := sup.Child(id); !errors.Is(err, supervisor.ErrNotFound) {
		return
	}
	c.mu.Lock()
	delete(c.sessions, path)
	c.mu.Unlock()
	for _, place := range c.opts.Runtimes {
		c.remove(c.background.ctx, place, path)
	}
	c.removeOrder(path)
}

// removeOrder removes what the runs of an agent have left behind that is gone.
func (c *Controller) removeOrder(path string) {
	if c.opts.Work == "" {
		return
	}
	if err := os.RemoveAll(filepath.Dir(c.orderPath(path))); err != nil {
		c.opts.Logger.Warn("what the runs of an agent that is gone have left behind cannot be removed", "path", path,
			"error", err)
	}
}

// fileName is what people recognise a path by.
func fileName(path string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && r != '/' && r > ' ' && r != 0x7f {
			return r
		}
		return '_'
	}, path[strings.LastIndexByte(path, '/')+1:])
}

// runs is what an incarnation of an agent of an Aidefile runs, and what it finds
// in its environment: the secrets that the daemon has there.
func (c *Controller) runs(path string, a *aidefile.Agent) (argv, env []string) {
	for _, key := range a.File.Vault {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return runner.Argv("/proc/self/exe", c.orderPath(path)), env
}

// told is a run whose end says what it said of it last.
type told struct{ supervisor.Process }

func (p told) Exit() supervisor.Exit {
	exit := p.Process.Exit()
	if exit.Clean() {
		return exit
	}
	var code *proc.ExitError
	if errors.As(exit.Err, &code) && code.Signal == 0 && code.Code == aidefile.Spent.Code() {
		exit.Err = fmt.Errorf("%w: %w", exit.Err, supervisor.ErrDoNotRestart)
	}
	// What was ended by a signal, or for not getting on, has not said how it ends.
	var last *parted
	var unhealthy *unhealthyError
	killed := code != nil && code.Signal != 0 || errors.As(exit.Err, &unhealthy)
	if errors.As(exit.Err, &last) && last.status != "" && !killed {
		exit.Err = &ended{last.status, exit.Err}
	}
	return exit
}

// ended is the error of a run that says itself how it has ended.
type ended struct {
	status string
	exit   error
}

func (e *ended) Error() string { return fmt.Sprintf("%.*s", notice.MaxStatus, e.status) }
func (e *ended) Unwrap() error { return e.exit }

// isAide reports whether an agent has an Aidefile.
func isAide(a *spec.Agent) bool { return a != nil && a.Aide != nil }

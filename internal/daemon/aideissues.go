package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Bounds of asking for issues.
const (
	slowestPoll   = 30 * time.Minute // after errors
	askIssuesTime = time.Minute
	maxIssues     = 1000     // gh asks for a hundred at a time, and for no more than there are
	maxIssueText  = 64 << 20 // bytes of all of them
)

// aidePrefix is where it is kept which issues the agents of Aidefiles have taken.
const aidePrefix = "aides"

func issuesKey(path string) string { return aidePrefix + "/" + store.PathKey(path) + "/issues" }

// recallIssues reads which issues the runs of the last controllers were started for.
func (c *Controller) recallIssues(ctx context.Context) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, aidePrefix)
	if err != nil {
		return fmt.Errorf("reading which issues were taken: %w", err)
	}
	c.aides.mu.Lock()
	defer c.aides.mu.Unlock()
	c.aides.queues = make(map[string]*aidefile.Queue)
	for _, s := range stored {
		q := new(aidefile.Queue)
		if json.Unmarshal(s.Value, q) != nil {
			c.opts.Logger.Warn("which issues an agent has taken cannot be read and is forgotten", "key", s.Key)
			continue
		}
		c.aides.queues[s.Key] = q
	}
	return nil
}

// queue is the issues of an agent, which are remembered also while it is gone
// from the file. The caller holds the lock.
func (a *aides) queue(path string) *aidefile.Queue {
	key := issuesKey(path)
	if a.queues == nil {
		a.queues = make(map[string]*aidefile.Queue)
	}
	if a.queues[key] == nil {
		a.queues[key] = new(aidefile.Queue)
	}
	return a.queues[key]
}

// keepIssues is what writes down which issues an agent has taken, if that has
// changed since it was written last.
func (g *aider) keepIssues(path string) []store.Op {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.changed {
		return nil
	}
	value, err := json.Marshal(g.queue)
	if err != nil || len(value) > store.MaxValue {
		return nil // tens of thousands: they stay in memory
	}
	g.changed = false
	return []store.Op{{Kind: store.Put, Key: issuesKey(path), Value: value}}
}

// settle notes what the end of a run means to the issue that it was started
// for. follows says that another run follows. It is called before the supervisor
// knows of the end.
func (g *aider) settle(exit supervisor.Exit, asked, follows bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := &g.order
	if o.Issue == 0 {
		return
	}
	asked = asked || exit.Kind == supervisor.ShutDown // by a daemon that is gone
	switch {
	case exit.Kind == supervisor.Normal:
		g.queue.End(o.Issue)
		// What follows a success is for no issue that is done.
		o.Issue, o.Task = 0, aidefile.Trigger{Kind: aidefile.Issue}.Task()
	case asked, exit.Kind == supervisor.Lost && !follows: // which is nobody's failure
		g.queue.Free(o.Issue)
	case !follows:
		g.queue.End(o.Issue)
	default:
		return
	}
	g.changed = true
}

// aideChanged notes what an event means to the issue of an agent, and returns
// what has to be written with it.
func (c *Controller) aideChanged(e supervisor.Event) []store.Op {
	path := e.Header().Path()
	g := c.aider(path)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	switch e := e.(type) {
	case supervisor.LimitReached: // the chain is over
		g.queue.End(g.order.Issue)
		g.changed = g.changed || g.order.Issue > 0
	case supervisor.ChildChanged: // in a sleep; a reset is news of what was before the run that may have begun since
		if e.Reason != supervisor.ReasonReset && (e.State == supervisor.Stopped || e.State == supervisor.Suspended) {
			g.queue.Free(g.order.Issue)
			g.changed = g.changed || g.order.Issue > 0
		}
	}
	g.mu.Unlock()
	return g.keepIssues(path)
}

// resetIssues has all issues of an agent taken again; busy says that it is at one, or is about to be.
func (c *Controller) resetIssues(path string, g *aider, busy bool) {
	g.mu.Lock()
	n := g.queue.Reset()
	if o := g.order; busy && o.Issue > 0 {
		g.queue.Take(o.Issue, o.Task)
	}
	g.changed = g.changed || n > 0
	g.mu.Unlock()
	if n > 0 {
		c.log.Append(event.Event{
			Type: event.AgentReset, Path: path, Actor: "user", Message: path + ": its open issues are taken again",
		}.With(map[string]any{"issues": n}), g.keepIssues(path)...)
	}
}

// pollIssues starts a run for an issue of the agent, if there is one and it can.
func (c *Controller) pollIssues(ctx context.Context, path string, g *aider, a *aidefile.Agent) error {
	if p, err := c.place(path, g); err != nil || g.isHeld() {
		return nil
	} else if s, err := p.State(); err != nil || !aidefile.Decide(aidefile.StateOf(s, true, nil)).Run {
		return nil // nobody need ask now
	}
	open, err := askIssues(ctx, a, askIssuesTime)
	if ctx.Err() != nil {
		return nil
	}
	c.tellPoll(path, g, err)
	if err != nil {
		return err
	}
	g.mu.Lock()
	t, ok := g.queue.Next(open, len(open) < maxIssues)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	err = c.fire(ctx, path, runner.RunRequest{Trigger: aidefile.Trigger{Kind: aidefile.Issue}.String(), Task: t.Task(),
		Issue: t.Number})
	if err != nil {
		g.mu.Lock()
		g.queue.Free(t.Number) // nothing has begun, or it goes on as it was
		g.changed = true
		g.mu.Unlock()
	}
	return nil
}

// askIssues asks for the open issues of an agent, for so long at most.
func askIssues(ctx context.Context, a *aidefile.Agent, patience time.Duration) ([]aidefile.Ticket, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("gh has not ended within %v", patience))
	defer cancel()
	argv := []string{"gh", "issue", "list", "--state", "open", "--label", a.File.Label, "--limit",
		fmt.Sprint(maxIssues), "--json", "number,title,body"}
	r, err := proc.Run(ctx, proc.Command{Argv: argv, Dir: filepath.Dir(a.Path), Env: os.Environ()}, "", maxIssueText)
	switch {
	case errors.Is(err, proc.ErrCommand):
		return nil, fmt.Errorf("%w; the trigger issue needs the command line of GitHub, https://cli.github.com", err)
	case err != nil:
		return nil, err
	case r.Exit.Kind != supervisor.Normal:
		return nil, fmt.Errorf("gh issue list: %v: %.300s", r.Exit, proc.Plain(string(r.Stderr)))
	}
	return aidefile.ParseTickets(r.Stdout)
}

// tellPoll tells when the issues cannot be looked at any more, and when they can again.
func (c *Controller) tellPoll(path string, g *aider, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	g.mu.Lock()
	was := g.failing
	g.failing = text
	g.mu.Unlock()
	switch {
	case text == was:
	case text == "":
		c.log.Append(event.Event{Type: event.AgentTriggerFailed, Path: path, Actor: "controller",
			Message: path + ": its issues can be looked at again"}.With(map[string]any{"trigger": "issue",
			"recovered": true}))
	default:
		c.log.Append(event.Event{
			Type: event.AgentTriggerFailed, Path: path, Actor: "controller",
			Message: fmt.Sprintf("%s: its issues cannot be looked at, which is tried again: %s", path, text),
		}.With(map[string]any{"trigger": "issue", "error": text}))
	}
}

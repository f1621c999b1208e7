package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/liveness"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// historyLength is how many events and lines an explanation shows.
const historyLength = 10

// Explain is part of api.Service.
func (c *Controller) Explain(ctx context.Context, path string) (api.Explanation, error) {
	nodes, err := c.Nodes(ctx, path)
	if err != nil {
		return api.Explanation{}, err
	}
	n := nodes[0]
	x := api.Explanation{Node: n, Rule: n.Reason, History: []event.Event{}, Tail: []string{}, Evidence: []string{}, Claims: []api.Claim{}}
	above, id, _ := cutLast(n.Path)
	if sup := c.find(above); n.Path != c.root.Path() && sup == nil {
		x.Next, x.Hint = "it starts with "+above, "coppice explain "+above
	} else if n.Path != c.root.Path() {
		info, err := c.child(sup, id)
		if err != nil {
			return x, notFound(n.Path, err)
		}
		x.Next, x.Hint = outlook(n, info)
		if n.Aide != nil {
			if next, hint := aideOutlook(n); next != "" {
				x.Next, x.Hint = next, hint
			}
		}
		x.Evidence = slices.Concat(evidence(sup.Path(), info), vitalEvidence(n.Vitals), aideEvidence(n))
		if c.awaitsTask(n.Path) {
			x.Evidence = append(x.Evidence, "it waits for a task")
		}
	} else {
		x.Rule, x.Next = "the root runs until it is stopped", "an agent or supervisor directly under it that reaches its limit is held; the others go on"
		if c.fleet().tree.Root.Limit.Then == supervisor.Escalate {
			x.Next = "when its limit is reached, everything is stopped and the daemon ends with exit code 1"
		}
	}
	if n.NeedsInput != nil {
		x.Next, x.Hint = fmt.Sprintf("it waits for an answer to %s: %s", n.NeedsInput.ID, n.NeedsInput.Text), "coppice answer "+n.NeedsInput.ID
	}
	c.explainPool(&x)
	c.explainPatrol(&x)
	c.explainWaiting(ctx, &x)
	c.explainIdle(ctx, &x)
	x.History = c.history(ctx, n.Path)
	if n.Kind == kindAgent {
		x.Claims = c.claimed(ctx, n.Path)
		if s := c.live(n.Path); s != nil {
			var watchdog time.Duration
			if a := c.fleet().agents[n.Path]; a != nil {
				watchdog = a.Watchdog
			}
			x.Evidence = append(x.Evidence, words(s.Observe(), watchdog, time.Now())...)
			if tail, err := s.Peek(ctx, historyLength); err == nil && tail != nil {
				x.Tail = tail
			}
		} else if tail, err := c.kept(n.Path, historyLength); err == nil && tail != nil {
			x.Tail = tail
		}
		if x.Hint == "" {
			x.Hint = c.seat(n.Path)
		}
	}
	return x, nil
}

// evidence is what the last decision about a child was taken on.
func evidence(sup string, i supervisor.ChildInfo) []string {
	e := []string{fmt.Sprintf("incarnation %d, %d restarts in all", i.Incarnation, i.Restarts)}
	if i.LastExit.Kind != supervisor.NoExit {
		e = append(e, fmt.Sprintf("the last incarnation to end ended with %v", i.LastExit))
	}
	if i.Limit.Max >= 0 {
		whose := "its own limit"
		if i.Limit.Scope == supervisor.ScopeSupervisor {
			whose = "the limit of " + sup
		}
		e = append(e, fmt.Sprintf("%d counted by %s: %v", i.InWindow, whose, i.Limit))
	}
	return e
}

// words are what an agent that lives has said of itself.
func words(o runtime.Observation, watchdog time.Duration, now time.Time) (w []string) {
	n := o.Said
	if o.Life != runtime.Alive || n.Since.IsZero() {
		return nil
	}
	if n.Status != "" {
		w = append(w, fmt.Sprintf("it says: %s", n.Status))
	}
	if n.Reloading {
		w = append(w, "it says that it reads its configuration")
	}
	if !n.Stopping.IsZero() {
		w = append(w, fmt.Sprintf("it said %v ago that it stops by itself", ago(n.Stopping, now)))
	}
	if n.Errno != 0 {
		w = append(w, fmt.Sprintf("it gives the error %d (%v)", n.Errno, syscall.Errno(n.Errno)))
	}
	if watchdog > 0 && n.Alive.IsZero() {
		w = append(w, fmt.Sprintf("its watchdog has heard nothing yet, and waits %v", watchdog))
	} else if watchdog > 0 {
		w = append(w, fmt.Sprintf("its watchdog heard of it %v ago, and waits %v", ago(n.Alive, now), cmp.Or(n.Period, watchdog)))
	}
	return w
}

func ago(at, now time.Time) time.Duration { return max(0, now.Sub(at)).Round(100 * time.Millisecond) }

// outlook says what happens next to a child, and what a person can do.
func outlook(n api.Node, i supervisor.ChildInfo) (next, hint string) {
	if n.Drain != nil {
		return fmt.Sprintf("it is stopped when it says that it has finished, and in %s in any case", liveness.Brief(asDuration(n.Drain.Left).Round(time.Second))),
			"to let it go on: coppice start " + n.Path
	}
	switch i.State {
	case supervisor.Running:
		return "nothing, until it ends or is stopped", ""
	case supervisor.Starting:
		return "it runs as soon as it is ready, or fails at its start timeout", "coppice logs " + n.Path
	case supervisor.Stopping:
		return "it is killed when its shutdown time is over", ""
	case supervisor.Restarting:
		return fmt.Sprintf("it is started again in %v", until(i)), "at once: coppice start " + n.Path
	case supervisor.Waiting:
		return "it is started in its turn, after the siblings that come before it", "coppice tree"
	case supervisor.Quarantined:
		return fmt.Sprintf("it is started again in %v, when the window of its limit has room", until(i)), "at once, with fresh counters: coppice reset " + n.Path
	case supervisor.GivenUp:
		return "nothing, until somebody resets it", "coppice reset " + n.Path
	case supervisor.Paused:
		return "nothing, until somebody resumes its supervisor", "coppice resume " + parent(n.Path)
	case supervisor.Suspended:
		return "nothing, until somebody starts it", "coppice start " + n.Path
	}
	return "nothing: " + n.Reason, "coppice start " + n.Path
}

func until(i supervisor.ChildInfo) time.Duration {
	return max(0, time.Until(i.NextAt)).Round(100 * time.Millisecond)
}

func parent(path string) string {
	above, _, _ := cutLast(path)
	return above
}

// history is the last events of a node itself.
func (c *Controller) history(ctx context.Context, path string) []event.Event {
	last, _, err := c.log.Last(ctx, historyLength, func(e event.Event) bool { return e.Path == path })
	if err != nil {
		c.opts.Logger.Warn("the history of a node cannot be read", "path", path, "error", err)
	}
	return slices.Concat([]event.Event{}, last)
}

// seat is how a person gets into the session of an agent without coppice, for
// runtimes that have such sessions.
func (c *Controller) seat(path string) string {
	r, ok := c.home(path).(interface {
		AttachCommand(path string) (argv []string, dir string, err error)
	})
	if !ok {
		return ""
	}
	argv, dir, err := r.AttachCommand(path)
	if err != nil {
		return ""
	}
	for i, word := range argv {
		argv[i] = shellWord(word)
	}
	command := strings.Join(argv, " ")
	if dir != "" {
		command = "cd " + shellWord(dir) + " && " + command
	}
	return "to sit in its session: coppice attach " + shellWord(path) + ", or with all that tmux offers: " + command
}

// shellWord quotes a word for a shell, if it needs that.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:,@") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

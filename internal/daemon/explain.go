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
	"github.com/coppice-dev/coppice/internal/health"
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
	x := api.Explanation{Node: n, Rule: n.Reason, History: []event.Event{}, Tail: []string{}, Evidence: []string{},
		Claims: []api.Claim{}}
	above, id, _ := cutLast(n.Path)
	if sup := c.find(above); n.Path != c.root.Path() && sup == nil {
		x.Next, x.Hint = "it starts with "+above, "coppice explain "+above
	} else if n.Path != c.root.Path() {
		info, err := c.child(sup, id)
		if err != nil {
			return x, notFound(n.Path, err)
		}
		x.Rule, x.Next, x.Hint = outlook(n, info)
		if n.Aide != nil {
			if next, hint := aideOutlook(n); next != "" {
				x.Next, x.Hint = next, hint
			}
		}
		x.Evidence = slices.Concat(evidence(sup.Path(), n, info), health.Evidence(n.Vitals), aideEvidence(n))
		if c.health.AwaitsTask(n.Path) {
			x.Evidence = append(x.Evidence, "it waits for a task")
		}
	} else {
		x.Next = whenItEnds(n)
		if c.fleet().tree.Root.Limit.OnLimit == supervisor.Escalate {
			x.Next = "when its limit is reached, everything is stopped and the daemon ends with exit code 1"
		}
	}
	if n.Kind == kindSupervisor {
		explainContents(&x)
	}
	if n.NeedsInput != nil {
		x.Next, x.Hint = fmt.Sprintf("it waits for an answer to %s: %s", n.NeedsInput.ID, n.NeedsInput.Text),
			"coppice answer "+n.NeedsInput.ID
	}
	c.pools.Explain(&x)
	c.explainPatrol(&x)
	c.explainWaiting(ctx, &x)
	c.explainIdle(ctx, &x)
	x.History = c.history(ctx, n.Path)
	if n.Kind == kindAgent {
		x.Claims = c.claims.List(ctx, n.Path)
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
		w = append(w, fmt.Sprintf("its watchdog heard of it %v ago, and waits %v", ago(n.Alive, now),
			cmp.Or(n.Period, watchdog)))
	}
	return w
}

func ago(at, now time.Time) time.Duration { return max(0, now.Sub(at)).Round(100 * time.Millisecond) }

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
	if word != "" &&
		strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:,@") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

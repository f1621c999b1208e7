package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

func (l live) explain(ctx context.Context, x *Explanation) error {
	n, f := x.Node, l.opts.Fleet()
	above, id := cut(n.Path)
	if n.Path == f.RootPath {
		x.Next = whenItEnds(n)
		if f.Root.Limit.OnLimit == supervisor.Escalate {
			x.Next = "when its limit is reached, everything is stopped and the daemon ends with exit code 1"
		}
	} else if sup := l.Supervisor(above); sup == nil {
		x.Next, x.Hint = "it starts with "+above, "coppice explain "+above
	} else {
		info, err := l.child(sup, id)
		if err != nil {
			return err
		}
		l.explainChild(x, above, info)
	}
	if n.Kind == kindSupervisor {
		explainContents(x)
	}
	if n.NeedsInput != nil {
		x.Next, x.Hint = fmt.Sprintf("it waits for an answer to %s: %s", n.NeedsInput.ID, n.NeedsInput.Text),
			"coppice answer "+n.NeedsInput.ID
	}
	l.explainPool(x)
	if p := l.Standing(n, time.Now()); p != nil {
		x.Patrol = p
		addStanding(x, p, time.Now())
	}
	l.explainWaiting(ctx, x)
	if n.Kind == kindAgent {
		if account := l.opts.Account(n.Path); account != "" {
			x.Evidence = append(x.Evidence, account)
		}
		if tasks := l.opts.TasksOf(n.Path); tasks != "" {
			x.Evidence = append(x.Evidence, tasks)
		}
		l.explainIdle(ctx, x, f)
		l.explainSession(x, f)
	}
	return nil
}

// explainChild adds what the supervisor of a node knows of it.
func (l live) explainChild(x *Explanation, above string, info supervisor.ChildInfo) {
	n := x.Node
	x.Rule, x.Next, x.Hint = outlook(n, info)
	x.Evidence = slices.Concat(evidence(above, n, info), health.Evidence(n.Vitals))
	if n.Aide != nil {
		if t := l.Triggered(n.Path, info); t != nil {
			x.Evidence = append(x.Evidence, t.Evidence...)
			if t.Next != "" {
				x.Next, x.Hint = t.Next, t.Hint
			}
		}
	}
	if l.Health.AwaitsTask(n.Path) {
		x.Evidence = append(x.Evidence, "it waits for a task")
	}
}

// explainPool adds what there is to say of a pool, or of an instance that its pool no
// longer wants.
func (l live) explainPool(x *Explanation) {
	runs := x.Node.State == supervisor.Running.String() || x.Node.State == Degraded
	p := l.Pools.Explain(x.Node.Path, runs)
	x.Rule, x.Next, x.Hint = cmp.Or(p.Rule, x.Rule), cmp.Or(p.Next, x.Next), cmp.Or(p.Hint, x.Hint)
	x.Evidence = slices.Concat(p.Evidence, x.Evidence)
}

// explainContents says of a supervisor that runs, and that is shown otherwise because of
// what is in it, what brings that back.
func explainContents(x *Explanation) {
	n := x.Node
	if n.Uptime == 0 { // it does not run itself
		return
	}
	switch n.State {
	case supervisor.Paused.String():
		x.Rule, x.Next, x.Hint = n.Reason, "nothing in it starts, until it is resumed", "coppice resume "+n.Path
	case supervisor.Suspended.String():
		x.Rule, x.Next, x.Hint = n.Reason, "nothing, until what is in it is resumed", "coppice resume "+n.Path
	case supervisor.Stopped.String():
		x.Rule, x.Next, x.Hint = n.Reason, "nothing, until something in it is started", "coppice start "+n.Path
	case Degraded:
		x.Rule, x.Hint = n.Reason, "coppice status"
	}
}

// explainSession adds what an agent has said of itself, and how to get into its session.
func (l live) explainSession(x *Explanation, f Fleet) {
	path := x.Node.Path
	if s := l.Session(path); s != nil {
		var watchdog time.Duration
		if a := f.Agents[path]; a != nil {
			watchdog = a.Watchdog
		}
		x.Evidence = append(x.Evidence, notices(s.Observe(), watchdog, time.Now())...)
	}
	if argv, dir := l.AttachCommand(path); x.Hint == "" && len(argv) > 0 {
		x.Hint = attachHint(path, argv, dir)
	}
}

func (l live) output(ctx context.Context, path string, lines int) ([]string, error) {
	if s := l.Session(path); s != nil {
		return s.Peek(ctx, lines)
	}
	return l.opts.Output(path, lines)
}

// notices returns what an agent that runs has said of itself.
func notices(o runtime.Observation, watchdog time.Duration, now time.Time) (w []string) {
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
		w = append(w, fmt.Sprintf("it reported %v ago that it is stopping (STOPPING=1)", ago(n.Stopping, now)))
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

// ago returns how long it was between two times.
func ago(at, now time.Time) time.Duration { return max(0, now.Sub(at)).Round(100 * time.Millisecond) }

// until returns how long it takes until a child is tried again.
func until(i supervisor.ChildInfo) time.Duration {
	return max(0, time.Until(i.NextAt)).Round(100 * time.Millisecond)
}

// attachHint returns how a person gets into the session of an agent.
func attachHint(path string, argv []string, dir string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = shellWord(word)
	}
	command := strings.Join(words, " ")
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

package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Bounds on listing issues.
const (
	slowestPoll   = 30 * time.Minute // after errors
	listTimeout   = time.Minute
	maxIssues     = 1000     // gh fetches a hundred at a time, and no more than there are
	maxIssueBytes = 64 << 20 // of all issues
)

// storePrefix precedes the keys of the issues that agents have taken, and of the requests of their last runs.
const storePrefix = "aides"

func issuesKey(path string) string { return storePrefix + "/" + store.PathKey(path) + "/issues" }

// Restore reads the issues for which previous daemons have started runs, and the requests of the last runs. Call it
// before Add.
func (m *Manager) Restore(ctx context.Context) error {
	stored, _, err := m.Store.Snapshot(ctx, storePrefix)
	if err != nil {
		return fmt.Errorf("reading the issues and requests of agents: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range stored {
		if strings.HasSuffix(s.Key, requestSuffix) {
			q, err := parseSaved(s.Value)
			if err != nil {
				m.Logger.Warn("cannot read the request of the last run of an agent; forgetting it", "key", s.Key)
				continue
			}
			m.requests[s.Key] = q
			continue
		}
		q := new(aidefile.Queue)
		if json.Unmarshal(s.Value, q) != nil {
			m.Logger.Warn("cannot read the issues that an agent has taken; forgetting them", "key", s.Key)
			continue
		}
		m.queues[s.Key] = q
	}
	return nil
}

// queue returns the issues of an agent. The caller holds mu.
func (m *Manager) queue(path string) *aidefile.Queue {
	key := issuesKey(path)
	if m.queues[key] == nil {
		m.queues[key] = new(aidefile.Queue)
	}
	return m.queues[key]
}

// ops returns the operations that store the issues that the agent has taken, and the request of its last run, if these
// have changed since the last call.
func (m *Manager) ops(path string, a *agent) (ops []store.Op) {
	a.mu.Lock()
	if a.changed {
		value, err := json.Marshal(a.queue)
		if err == nil && len(value) <= maxQueue { // tens of thousands of issues are kept only in memory
			a.changed = false
			ops = append(ops, store.Op{Kind: store.Put, Key: issuesKey(path), Value: value})
		}
	}
	save, q := a.unsaved, a.request
	a.unsaved = false
	a.mu.Unlock()
	if save {
		ops = append(ops, saveRequest(path, q))
		m.mu.Lock()
		m.requests[requestKey(path)] = q
		m.mu.Unlock()
	}
	return ops
}

// runEnded updates the issue of a run that has ended. The gate calls it before the
// supervisor gets the exit.
func (a *agent) runEnded(exit supervisor.Exit, asked, follows bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := &a.request
	if q.Issue == 0 {
		return
	}
	asked = asked || exit.Kind == supervisor.ShutDown // by a previous daemon
	switch {
	case exit.Kind == supervisor.Normal:
		a.queue.End(q.Issue)
		// The issue is done, so a run that follows is not for it.
		q.Issue, q.Task, a.unsaved = 0, aidefile.Trigger{Kind: aidefile.Issue}.Task(), true
	case asked, exit.Kind == supervisor.Lost && !follows: // not a failure of the agent
		a.queue.Free(q.Issue)
	case !follows:
		a.queue.End(q.Issue)
	default:
		return
	}
	a.changed = true
}

// Observe updates the issue of an agent after an event of its supervisor, and returns the
// operations that have to be stored with the event.
func (m *Manager) Observe(e supervisor.Event) []store.Op {
	path := e.Header().Path()
	a := m.of(path)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	switch e := e.(type) {
	case supervisor.LimitReached: // the chain is over
		a.queue.End(a.request.Issue)
		a.changed = a.changed || a.request.Issue > 0
	case supervisor.ChildChanged: // stopped during a delay; a reset may arrive after the next run has begun
		if e.Reason != supervisor.ReasonReset && (e.State == supervisor.Stopped || e.State == supervisor.Suspended) {
			a.queue.Free(a.request.Issue)
			a.changed = a.changed || a.request.Issue > 0
		}
	}
	a.mu.Unlock()
	return m.ops(path, a)
}

// resetIssues lets all issues of an agent be taken again, except the current one if a
// run is in progress or pending.
func (m *Manager) resetIssues(path string, a *agent, busy bool) {
	a.mu.Lock()
	n := a.queue.Reset()
	if q := a.request; busy && q.Issue > 0 {
		a.queue.Take(q.Issue, q.Task)
	}
	a.changed = a.changed || n > 0
	a.mu.Unlock()
	if n > 0 {
		m.Log.Append(event.Event{
			Type: event.AgentReset, Path: path, Actor: "user", Message: path + ": its open issues are taken again",
		}.With(map[string]any{"issues": n}), m.ops(path, a)...)
	}
}

// pollIssues starts a run for an open issue of an agent, if there is one and a run may begin.
func (m *Manager) pollIssues(ctx context.Context, path string, a *agent, file *aidefile.Agent) error {
	if t, err := m.target(path, a); err != nil || a.isHeld() {
		return nil
	} else if s, err := t.state(); err != nil || !aidefile.Decide(aidefile.StateOf(s, true, nil)).Run {
		return nil
	}
	open, err := listIssues(ctx, file, listTimeout)
	if ctx.Err() != nil {
		return nil
	}
	m.recordPoll(path, a, err)
	if err != nil {
		return err
	}
	a.mu.Lock()
	t, ok := a.queue.Next(open, len(open) < maxIssues)
	a.mu.Unlock()
	if !ok {
		return nil
	}
	err = m.fire(ctx, path, runner.RunRequest{
		Trigger: aidefile.Trigger{Kind: aidefile.Issue}.String(), Task: t.Task(), Issue: t.Number,
	})
	if err != nil && !waits(err) { // no run begins
		a.mu.Lock()
		a.queue.Free(t.Number)
		a.changed = true
		a.mu.Unlock()
	}
	return nil
}

// listIssues asks gh for the open issues of an agent.
func listIssues(ctx context.Context, file *aidefile.Agent, timeout time.Duration) ([]aidefile.Ticket, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("gh has not ended within %v", timeout))
	defer cancel()
	argv := []string{"gh", "issue", "list", "--state", "open", "--label", file.File.Label, "--limit",
		fmt.Sprint(maxIssues), "--json", "number,title,body"}
	command := proc.Command{Argv: argv, Dir: filepath.Dir(file.Path), Env: os.Environ()}
	r, err := proc.Run(ctx, command, "", maxIssueBytes)
	switch {
	case errors.Is(err, proc.ErrCommand):
		return nil, fmt.Errorf("%w; the trigger issue needs the command line of GitHub, https://cli.github.com", err)
	case err != nil:
		return nil, err
	case r.Exit.Kind != supervisor.Normal:
		return nil, fmt.Errorf("gh issue list: %v: %.300s", r.Exit, plaintext.Line(string(r.Stderr)))
	}
	return aidefile.ParseTickets(r.Stdout)
}

// recordPoll records when the issues of an agent cannot be listed, and when they can again.
func (m *Manager) recordPoll(path string, a *agent, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	a.mu.Lock()
	was := a.failing
	a.failing = text
	a.mu.Unlock()
	switch {
	case text == was:
	case text == "":
		m.Log.Append(event.Event{
			Type: event.AgentTriggerFailed, Path: path, Actor: "controller",
			Message: path + ": its issues can be listed again",
		}.With(map[string]any{"trigger": "issue", "recovered": true}))
	default:
		m.Log.Append(event.Event{
			Type: event.AgentTriggerFailed, Path: path, Actor: "controller",
			Message: fmt.Sprintf("%s: its issues cannot be listed; trying again: %s", path, text),
		}.With(map[string]any{"trigger": "issue", "error": text}))
	}
}

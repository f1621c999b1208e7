package trigger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// Ledger is the ledger of the calls of language models.
type Ledger interface {
	// Count counts those calls of a run that are not counted yet.
	Count(ctx context.Context, r cost.Run) error
	// Chain returns the tokens that a chain of runs of an agent has used, and the sessions that the agent has used
	// last.
	Chain(ctx context.Context, path string, began time.Time) (spent int64, all []cost.Session, err error)
}

// Files are the files of the last runs of agents, on whichever machines these were.
type Files interface {
	// ReadFile returns a file of the last run of an agent; see runtime.FileReader.
	ReadFile(ctx context.Context, path, name string) ([]byte, error)
	// IsAway reports whether they are on another machine, which may take time to answer.
	IsAway(path string) bool
}

const (
	countTime  = 10 * time.Second // for the ledger to be written
	countAgain = 30 * time.Second // until a run is tried again whose last calls could not be counted
	readTime   = 5 * time.Second  // for another machine to answer
	readAgain  = 5 * time.Second  // until a run is tried again if it has not
)

// Calls returns what is known of the calls of the last run of an agent.
func (m *Manager) Calls(path string) callfile.Records {
	a := m.of(path)
	if a == nil || m.Files == nil {
		return callfile.Records{}
	}
	all, err := m.records(context.Background(), path, a)
	if !isUnanswered(err) { // which is shown with the agent
		m.LogUnexpected("cannot read what is known of the calls of a run", path, err)
	}
	return all
}

// records reads what is known of the calls of the last run of an agent. If its machine is lost, that is what was read
// last, as it is after an error.
func (m *Manager) records(ctx context.Context, path string, a *agent) (all callfile.Records, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	text, err := m.Files.ReadFile(ctx, path, callfile.Name)
	if err == nil {
		all, err = callfile.Parse(text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.known, a.unread, a.lost = all, "", false
	case errors.Is(err, fs.ErrNotExist): // it has never run, or has not begun
		all, err, a.unread = callfile.Records{}, nil, ""
	case errors.Is(err, runtime.ErrNodeLost):
		if !a.lost {
			m.Logger.Warn("what a run has used is known only in part", "path", path, "error", err)
		}
		all, a.unread, a.lost, err = a.known, err.Error(), true, nil
	default:
		all, a.unread = a.known, err.Error()
	}
	return all, err
}

// isUnanswered reports whether the files of a run can be read later.
func isUnanswered(err error) bool {
	return errors.Is(err, runtime.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}

// count counts the calls of the last run of an agent, of an incarnation that is 0 if it is not known. A call in
// progress is counted only if the run has ended. The caller holds a.counting.
func (m *Manager) count(ctx context.Context, path string, a *agent, incarnation uint64, ended bool) error {
	all, err := m.records(ctx, path, a)
	switch {
	case err != nil && isUnanswered(err):
		return fmt.Errorf("what its last run has used is not known: %w", err)
	case err != nil: // which does not get better
		m.LogUnexpected("cannot read what is known of the calls of a run", path, err)
		return nil
	case all.Run == "" && len(all.Calls) == 0:
		return nil
	}
	r := cost.RunOf(path, incarnation, all, ended)
	r.Chain, r.Task = all.Chain, all.Task
	if q := a.currentRequest(); r.Chain.IsZero() && q.Fired.Equal(all.Fired) { // of an earlier version
		r.Chain, r.Task = q.Chain, q.Work()
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	return m.Ledger.Count(ctx, r)
}

// countLast counts the calls of the last run of an agent, before another run removes what is known of them. The caller
// holds a.counting.
func (m *Manager) countLast(ctx context.Context, path string, a *agent, ended bool) error {
	err := m.count(ctx, path, a, 0, ended)
	switch {
	case err == nil:
		return nil
	case isUnanswered(err):
		return &supervisor.RetryError{At: time.Now().Add(readAgain), Err: err}
	}
	return &supervisor.RetryError{At: time.Now().Add(countAgain), Err: err}
}

// countFound counts the calls of the last run of an agent that was added. goesOn is set if a run is in progress or
// pending.
func (m *Manager) countFound(path string, a *agent, goesOn bool) {
	if m.Files == nil {
		return
	}
	count := func(ctx context.Context) {
		a.counting.Lock()
		defer a.counting.Unlock()
		if a.hasLaunched() {
			return // it was counted before
		}
		err := m.countLast(ctx, path, a, !m.Agents.IsAdopting(path))
		m.LogUnexpected("cannot count the calls of a run; they are counted before the next one", path, err)
	}
	switch {
	case !m.Files.IsAway(path):
		count(context.Background())
	case !goesOn: // otherwise its end is still to come
		m.Go(count)
	}
}

// countRun counts the calls of a run that has ended. A run that has succeeded is the last one of its chain.
func (r reportedRun) countRun(exit supervisor.Exit) {
	a := r.m.of(r.path)
	if a == nil {
		return
	}
	a.counting.Lock()
	defer a.counting.Unlock()
	err := r.m.count(context.Background(), r.path, a, r.incarnation, true)
	r.m.LogUnexpected("cannot count the calls of a run; they are counted before the next one", r.path, err)
	if exit.Kind == supervisor.Normal {
		a.resetChain()
	}
}

// history adds to a request what the runs before it have used.
func (m *Manager) history(ctx context.Context, path string, q *runner.RunRequest) error {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	spent, all, err := m.Ledger.Chain(ctx, path, q.Chain)
	if err != nil {
		return err
	}
	q.Spent, q.Sessions = spent, map[string]agentcli.Models{}
	for _, s := range all {
		q.Sessions[s.ID] = s.Usage
	}
	return nil
}

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

const (
	countTime  = 10 * time.Second // for the ledger to be written
	countAgain = 30 * time.Second // until a run is tried again whose last calls could not be counted
)

// count counts the calls of the last run of an agent, of an incarnation that is 0 if it is not known. A call in
// progress is counted only if the run has ended.
func (m *Manager) count(path string, incarnation uint64, ended bool) error {
	file := m.requestFile(path)
	q, err := runner.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has never run
	}
	var all callfile.Records
	if err == nil {
		all, err = runner.ReadRecords(file)
	}
	if err != nil { // which does not get better
		m.LogUnexpected("cannot read what is known of the calls of a run", path, err)
		return nil
	}
	r := cost.RunOf(path, incarnation, all, ended)
	r.Chain = q.Chain
	if q.Issue > 0 {
		r.Task = fmt.Sprintf("issue %d", q.Issue)
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	return m.Ledger.Count(ctx, r)
}

// countLast counts the calls of the last run of an agent, before another run removes what is known of them.
func (m *Manager) countLast(path string) error {
	if m.Dir == "" {
		return nil
	}
	if err := m.count(path, 0, !m.Agents.IsAdopting(path)); err != nil {
		return &supervisor.RetryError{At: time.Now().Add(countAgain), Err: err}
	}
	return nil
}

// countRun counts the calls of a run that has ended. A run that has succeeded is the last one of its chain.
func (r reportedRun) countRun(exit supervisor.Exit) {
	err := r.m.count(r.path, r.incarnation, true)
	r.m.LogUnexpected("cannot count the calls of a run; they are counted before the next one", r.path, err)
	a := r.m.of(r.path)
	if a == nil || exit.Kind != supervisor.Normal {
		return
	}
	a.resetChain()
	if err == nil { // what is known of its calls goes with the request
		err := r.m.writeRequest(r.path, a)
		r.m.LogUnexpected("cannot write that a chain of runs has ended", r.path, err)
	}
}

// history adds to a request what the runs before it have used.
func (m *Manager) history(path string, q *runner.RunRequest) error {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
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

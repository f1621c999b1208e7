package trigger

import (
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
)

// spentBefore returns the tokens that the chain of the next run has used before it: those that were spent before the
// run that has just ended, and those of that run. A success ends a chain.
func (m *Manager) spentBefore(path string, next runner.RunRequest) int64 {
	file := m.requestFile(path)
	last, err := runner.Read(file)
	if err != nil || !last.Chain.Equal(next.Chain) {
		return 0
	}
	calls, err := runner.ReadRecords(file)
	m.LogUnexpected("cannot read what the last run has used", path, err)
	if calls.Result == aidefile.Succeeded.String() {
		return 0
	}
	return agentcli.Add(last.Spent, calls.Used)
}

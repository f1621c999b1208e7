package aidefile

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Budget bounds one run.
type Budget struct {
	// Tokens are those of input and output together.
	Tokens int64
	// Chain are those of all runs of a chain together: of a run that a trigger
	// has begun, and of those that follow it until one succeeds; 0: no bound.
	Chain int64
	// Timeout is how long the run may take, with all its tries and what runs
	// before it; 0: for ever.
	Timeout time.Duration
	// MaxRetries is how many times the command is tried again in the same run.
	MaxRetries int
}

// Meter counts what one run uses.
type Meter struct {
	Budget
	used  int64
	calls int
}

// Used are the tokens that were reported, Left those that remain.
func (m *Meter) Used() int64 { return m.used }
func (m *Meter) Left() int64 { return max(0, m.Tokens-m.used) }

// Calls is how often the command was called.
func (m *Meter) Calls() int { return m.calls }

// Call counts a call of the command, unless the budget is exhausted: then it
// says by what.
func (m *Meter) Call() error {
	switch {
	case m.used >= m.Tokens:
		return &Exhausted{fmt.Sprintf("%d of %d tokens are used up", m.used, m.Tokens)}
	case m.calls > m.MaxRetries:
		return &Exhausted{fmt.Sprintf("all %d tries have failed", m.calls)}
	}
	m.calls++
	return nil
}

// Record adds what a call has used. What is negative is nothing.
func (m *Meter) Record(tokens int64) {
	m.used = agentcli.Add(m.used, tokens)
}

// Within is the budget of a run of a chain that has used so many tokens before
// it; the error says that none are left.
func (b Budget) Within(spent int64) (Budget, error) {
	if b.Chain <= 0 {
		return b, nil
	}
	if spent >= b.Chain {
		return b, &Exhausted{fmt.Sprintf("its chain of runs has used %d tokens, of %d", spent, b.Chain)}
	}
	b.Tokens = min(b.Tokens, b.Chain-max(0, spent))
	return b, nil
}

// Exhausted is the error of a run whose budget is used up.
type Exhausted struct{ what string }

func (e *Exhausted) Error() string { return "budget exhausted: " + e.what }

// Overspent is the error of a call that has used more than was left to it.
func Overspent(used, of int64) *Exhausted {
	return &Exhausted{fmt.Sprintf("%d tokens are used, of %d", used, of)}
}

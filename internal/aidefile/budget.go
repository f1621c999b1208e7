package aidefile

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Budget bounds a run.
type Budget struct {
	// Tokens bounds input and output tokens together.
	Tokens int64
	// Chain bounds the tokens of a chain: the run that a trigger has started and those
	// that follow it until one succeeds. 0 means no bound.
	Chain int64
	// Timeout bounds the run with all its attempts and the hooks before it. 0 means no bound.
	Timeout time.Duration
	// Silence bounds the time in which the model writes nothing while no tool works. 0 means DefaultSilence.
	Silence time.Duration
	// MaxRetries bounds how often a run calls the command again.
	MaxRetries int
}

// Meter counts the tokens and calls of a run.
type Meter struct {
	Budget
	used    int64
	known   int // calls whose tokens are known
	unknown int // calls whose tokens are not
	calls   int
}

// Used returns the tokens that were reported, Left those that remain: at most, if Unknown.
func (m *Meter) Used() int64 { return m.used }
func (m *Meter) Left() int64 { return max(0, m.Tokens-m.used) }

// Unknown reports whether a call has not reported what it has used.
func (m *Meter) Unknown() bool { return m.unknown > 0 }

// UsedText returns the tokens that were used, for people.
func (m *Meter) UsedText() string {
	switch {
	case m.unknown == 0:
		return fmt.Sprint(m.used)
	case m.known == 0:
		return "unknown"
	}
	return fmt.Sprintf("at least %d", m.used)
}

// LeftText returns the tokens that remain, for people.
func (m *Meter) LeftText() string {
	if m.Unknown() {
		return fmt.Sprintf("at most %d", m.Left())
	}
	return fmt.Sprint(m.Left())
}

// Calls returns how often the command was called.
func (m *Meter) Calls() int { return m.calls }

// Call counts a call of the command. It returns an Exhausted if the budget is used up.
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

// Record adds the tokens of a call; a negative number counts as 0. known is false if it has not reported any.
func (m *Meter) Record(tokens int64, known bool) {
	if !known {
		m.unknown++
		return
	}
	m.known++
	m.used = agentcli.Add(m.used, tokens)
}

// Within returns the budget of a run in a chain that has used spent tokens before it. It
// returns an Exhausted if none are left.
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

// Overspent returns the error of a call that has used more tokens than were left.
func Overspent(used, of int64) *Exhausted {
	return &Exhausted{fmt.Sprintf("%d tokens are used, of %d", used, of)}
}

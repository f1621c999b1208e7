package runner

import (
	"cmp"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/supervisor"
)

// try is a call of the command that has failed.
type try struct {
	err    error
	record agentcli.Record
	// worked says that it has done anything that its session has and a fresh one would not.
	worked bool
	answer string // the end of what was said last, by it or a try before it
}

// failedTry returns the try that has just failed. last is the one before it; nil if there is none.
func (r *Runner) failedTry(err error, last *try) *try {
	calls := r.records.Records().Calls
	record, answer := calls[len(calls)-1], r.handOver()
	worked := record.Calls > 0 || record.Tokens != nil && *record.Tokens > 0 || answer != ""
	if answer == "" && last != nil {
		answer = last.answer
	}
	return &try{err, record, worked, answer}
}

// session returns the session that the next try continues; empty if it begins a fresh one.
func (t *try) session() string {
	if t == nil || t.record.Next != agentcli.Resume || !t.worked {
		return ""
	}
	return t.record.Session
}

// maxAnswer bounds what the next try is told of the output of a command that is not known, in bytes.
const maxAnswer = 4000

// handOver returns what the model has said last, for the next call; of a command that is not known, the end of its
// output.
func (r *Runner) handOver() string {
	end := r.current.End("", 0, agentcli.NotStopped)
	text := cmp.Or(end.Output.Said, end.Session.Said)
	if text == "" && !end.Output.Seen {
		if text = r.answer(); len(text) > maxAnswer {
			text = "[cut] " + strings.ToValidUTF8(text[len(text)-maxAnswer:], "")
		}
	}
	return strings.TrimSpace(text)
}

// answer returns the text that the last call reports as its answer, or else all its text.
func (r *Runner) answer() string {
	if r.current == nil {
		return ""
	}
	if text := r.current.Report().Text; text != "" {
		return text
	}
	return r.tail.String()
}

// slowBase is by how much the first pause is longer if the server of the model or the connection is at fault: 30 s, as
// another call soon would end the same way, and make it worse.
const slowBase = 30

// pauseAfter returns the pause after a try, the first being 0, that ended with an obstacle.
func pauseAfter(n int, of outcome.ObstacleKind, base time.Duration, policy aidefile.Policy) time.Duration {
	_, backoff, _ := policy.Child(base)
	pause := backoff.Delay(n)
	switch of {
	case outcome.RateLimit, outcome.Overloaded, outcome.Network:
		if base <= 0 {
			base = time.Second
		}
		base = slowBase * min(base, aidefile.MaxSleep)
		slow := supervisor.Backoff{Kind: supervisor.Exponential, Base: base, Cap: aidefile.MaxSleep}
		pause = max(pause, slow.Delay(n))
	}
	return pause
}

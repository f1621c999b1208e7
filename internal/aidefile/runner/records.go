package runner

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// stored reports that what is known of the run could not be stored, unless err is nil.
func (r *Runner) stored(err error) {
	if err != nil {
		r.say("cannot store what is known of the run: %v", err)
	}
}

// chainUsed returns the tokens that the chain of runs has used so far.
func (r *Runner) chainUsed() int64 { return agentcli.Add(r.request.Spent, r.meter.Used()) }

// chainSpent reports whether the chain has no tokens left for another run, and why.
func (r *Runner) chainSpent() (reason string, ok bool) {
	if r.file == nil {
		return "", false
	}
	_, err := r.file.Budget.Within(r.chainUsed())
	if err == nil {
		return "", false
	}
	return strings.TrimPrefix(err.Error(), "budget exhausted: "), true
}

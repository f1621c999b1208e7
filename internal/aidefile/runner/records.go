package runner

import (
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
)

// ReadRecords reads what is known of the last run of the request in a file; see callfile.Read.
func ReadRecords(request string) (callfile.Records, error) {
	q, err := Read(request)
	if err != nil {
		return callfile.Records{}, err
	}
	return callfile.Read(recordsFile(request), q.Fired)
}

// RemoveRecords removes what is known of the last run of the request in a file.
func RemoveRecords(request string) error { return callfile.Remove(recordsFile(request)) }

// recordsFile returns the file next to a request with what is known of its run.
func recordsFile(request string) string { return filepath.Join(filepath.Dir(request), callfile.Name) }

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

package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/private"
)

// recordsName is the file next to the request with what is known of its run.
const recordsName = "calls.json"

// Records has what is known of a run.
type Records struct {
	Fired time.Time `json:"fired"` // of the request
	// Run identifies the run: another run of the same request has another one.
	Run string `json:"run"`
	// Began is the start of the run.
	Began time.Time `json:"began,omitzero"`
	// Dropped is the number of calls before Calls, which are no longer listed.
	Dropped int               `json:"dropped"`
	Calls   []agentcli.Record `json:"calls"`
	// Running is the call in progress, as if it ended now. Readers find it at the end of Calls, too.
	Running *agentcli.Record `json:"running,omitempty"`
	// Refused is why the account does not serve the call in progress; nil if it does, or that is not known.
	Refused *agentcli.Record `json:"refused,omitempty"`
	// Used is what the run has used so far, as far as that is known, with the call in progress. Of a total of a
	// session it has what was not counted before.
	Used int64 `json:"used"`
}

const (
	maxRecords = 100     // calls that are kept, the last ones
	maxUnknown = 10      // kinds of unknown objects that are kept of each
	maxFile    = 8 << 20 // bytes of a file of records
)

// runningGap is the least time between two records of a call in progress.
const runningGap = time.Second

// began stores that the run has begun, in place of what is known of the run before.
func (r *Runner) began() {
	r.records.Fired, r.records.Began = r.request.Fired, time.Now()
	r.store()
}

// addRecord stores what is known of a call that has ended.
func (r *Runner) addRecord(c agentcli.Record) {
	all := &r.records
	if len(all.Calls) == maxRecords {
		all.Calls = all.Calls[1:]
		all.Dropped++
	}
	all.Calls = append(all.Calls, r.storable(c))
	all.Running, all.Refused, all.Used = nil, nil, r.meter.Used()
	r.store()
}

// storeRunning stores what the call in progress has used, and whether its account serves it, if that has changed, and
// not too often. If the run is killed it is the last that is known of it.
func (r *Runner) storeRunning(used int64) {
	all := &r.records
	total := agentcli.Add(r.meter.Used(), used)
	if time.Since(r.stored) < r.runningGap {
		return
	}
	end := r.current.End("it was killed with its run", 0, agentcli.NotStopped)
	refused := r.refused(end)
	if all.Running != nil && all.Used == total && sameRefusal(refused, all.Refused) {
		return
	}
	record := end.Record()
	r.count(&record)
	record.Began = r.callBegan
	record = r.storable(record)
	all.Running, all.Refused, all.Used = &record, refused, total
	r.store()
}

// sameRefusal reports whether two calls are not served for the same reason, or are both served.
func sameRefusal(a, b *agentcli.Record) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Verdict == b.Verdict
}

// refused returns why the account does not serve the call in progress; nil if it does, or that is not known.
func (r *Runner) refused(end agentcli.End) *agentcli.Record {
	record, refused := end.Refusal()
	if !refused {
		return nil
	}
	record = r.storable(record)
	return &record
}

// storable returns a record without secrets, and bounded.
func (r *Runner) storable(c agentcli.Record) agentcli.Record {
	c.Reason, c.Rule = r.secrets.redact(c.Reason), r.secrets.redact(c.Rule)
	if len(c.Unknown) > maxUnknown {
		few := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(c.Unknown))[:maxUnknown] {
			few[name] = c.Unknown[name]
		}
		c.Unknown = few
	}
	return c
}

func (r *Runner) store() {
	r.stored = time.Now()
	text, err := json.Marshal(r.records)
	if err == nil {
		err = private.Replace(filepath.Join(r.dir, recordsName), text)
	}
	if err != nil {
		r.say("cannot store what is known of the run: %v", err)
	}
}

// ReadRecords reads what is known of the last run of the request in a file, once it has ended. The call in progress of
// a run that was killed is its last one.
func ReadRecords(request string) (Records, error) {
	q, err := Read(request)
	if err != nil {
		return Records{}, err
	}
	none := Records{Fired: q.Fired}
	path := filepath.Join(filepath.Dir(request), recordsName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil // the run was killed before it could begin
	}
	if err != nil {
		return none, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return none, err
	}
	if len(text) > maxFile {
		return none, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	var all Records
	if err := json.Unmarshal(text, &all); err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	if !all.Fired.Equal(q.Fired) { // of the run before
		return none, nil
	}
	if all.Running != nil {
		all.Calls = append(all.Calls, *all.Running)
	}
	return all, nil
}

// RemoveRecords removes what is known of the last run of the request in a file.
func RemoveRecords(request string) error {
	err := os.Remove(filepath.Join(filepath.Dir(request), recordsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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

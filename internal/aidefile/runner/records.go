package runner

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// recordsName is the file next to the request with what is known of the calls of its run.
const recordsName = "calls.json"

// Records has what is known of the calls of a run, in their order.
type Records struct {
	Fired time.Time         `json:"fired"` // of the request
	Calls []agentcli.Record `json:"calls"`
}

// maxRecords bounds the calls that are kept, the last ones.
const maxRecords = 100

// addRecord keeps what is known of a call for the daemon.
func (r *Runner) addRecord(c agentcli.Record) {
	c.Reason = r.secrets.redact(c.Reason)
	if len(r.records) == maxRecords {
		r.records = r.records[1:]
	}
	r.records = append(r.records, c)
	text, err := json.Marshal(Records{r.request.Fired, r.records})
	if err == nil {
		err = replace(filepath.Join(r.dir, recordsName), text)
	}
	if err != nil {
		r.say("cannot store what is known of the call: %v", err)
	}
}

// ReadRecords reads what is known of the calls of the run whose request is in a file. A run that has made no
// call has none.
func ReadRecords(request string) (Records, error) {
	q, err := Read(request)
	if err != nil {
		return Records{}, err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(request), recordsName))
	if errors.Is(err, fs.ErrNotExist) {
		return Records{Fired: q.Fired}, nil
	}
	if err != nil {
		return Records{}, err
	}
	var all Records
	if err := json.Unmarshal(text, &all); err != nil {
		return Records{}, err
	}
	if !all.Fired.Equal(q.Fired) { // of the run before
		return Records{Fired: q.Fired}, nil
	}
	return all, nil
}

package callfile

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/private"
)

const (
	maxRecords = 100 // calls that are kept, the last ones
	maxUnknown = 10  // kinds of unknown objects that are kept of each
)

// noteGap is the least time between a write of the file and one for the call in progress.
const noteGap = time.Second

// File is the file of a run, for the process that makes the run. It belongs to one goroutine. Each write replaces the
// file whole or not at all. After an error the run can go on: the next write has everything.
type File struct {
	path    string
	redact  func(string) string
	records Records
	stored  time.Time // when it was written last
}

// New returns the File at path of the run of a request that was fired at a time. It writes nothing yet. redact removes
// the secrets from a text.
func New(path string, fired time.Time, redact func(string) string) *File {
	return &File{
		path: path, redact: redact,
		records: Records{Fired: fired, Run: rand.Text(), Calls: []agentcli.Record{}},
	}
}

// SetWork says to which chain of runs the run belongs, and what it works at; see Records. Call it before Begin.
func (f *File) SetWork(chain time.Time, task string) { f.records.Chain, f.records.Task = chain, task }

// Records returns what was written last. Its slice and pointers must not be changed.
func (f *File) Records() Records { return f.records }

// Begin writes that the run begins now, in place of what is known of the run before.
func (f *File) Begin() error {
	f.records.Began = time.Now()
	return f.store()
}

// Add writes what is known of a call that has ended. used is what the run has used with it, in tokens.
func (f *File) Add(call agentcli.Record, used int64) error {
	all := &f.records
	if len(all.Calls) == maxRecords {
		all.Calls = all.Calls[1:]
		all.Dropped++
	}
	all.Calls = append(all.Calls, f.storable(call))
	all.Running, all.Refused, all.Used = nil, nil, used
	return f.store()
}

// Note writes what is known of the call in progress: if the run is killed, that is the last of it. used is what the run
// has used with it, in tokens. now returns the record of the call as if it ended now, and why its account does not
// serve it, or nil; see call.Interrupted. Note does nothing within a second after a write, or if neither used nor the
// refusal has changed.
func (f *File) Note(used int64, now func() (call agentcli.Record, refused *agentcli.Record)) error {
	if time.Since(f.stored) < noteGap {
		return nil
	}
	all := &f.records
	call, refused := now()
	if refused != nil {
		r := f.storable(*refused)
		refused = &r
	}
	if all.Running != nil && all.Used == used && sameRefusal(refused, all.Refused) {
		return nil
	}
	call = f.storable(call)
	all.Running, all.Refused, all.Used = &call, refused, used
	return f.store()
}

// sameRefusal reports whether two calls are not served for the same reason, or are both served.
func sameRefusal(a, b *agentcli.Record) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Verdict == b.Verdict
}

// storable returns a record without secrets, and bounded.
func (f *File) storable(c agentcli.Record) agentcli.Record {
	c.Reason, c.Rule = f.redact(c.Reason), f.redact(c.Rule)
	if len(c.Unknown) > maxUnknown {
		few := map[string]int{}
		for _, name := range slices.Sorted(maps.Keys(c.Unknown))[:maxUnknown] {
			few[name] = c.Unknown[name]
		}
		c.Unknown = few
	}
	return c
}

func (f *File) store() error {
	f.stored = time.Now()
	text, err := json.Marshal(f.records)
	if err != nil {
		return err
	}
	return private.Replace(f.path, text)
}

// Package callfile keeps what is known of the calls of a run in a file. A run is a process that calls command lines of
// language models. It writes the file with a File; the daemon reads it while the run goes on, and at its end.
package callfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/private"
)

// Name is the name of the file in the directory of a run.
const Name = "calls.json"

// Records has what is known of a run.
type Records struct {
	Fired time.Time `json:"fired"` // of the request
	// Chain is the start of the chain of runs that it belongs to, and Task is what it works at, for people; both may be
	// empty.
	Chain time.Time `json:"chain,omitzero"`
	Task  string    `json:"task,omitempty"`
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
	// Used is what the run has used so far, in tokens, as far as that is known, with the call in progress. Of a total
	// of a session it has what was not counted before.
	Used int64 `json:"used"`
}

// maxFile bounds a file that is read, in bytes.
const maxFile = 8 << 20

// Read reads what is known of a run. If there is no file, nothing is known: the run was killed before it could begin.
// The call in progress of a run that was killed is its last one. An error names the file.
func Read(path string) (Records, error) {
	text, err := private.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Records{}, nil
	}
	if err != nil {
		return Records{}, err
	}
	all, err := Parse(text)
	if err != nil {
		return Records{}, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// Parse parses the text of a file.
func Parse(text []byte) (all Records, err error) {
	if err := json.Unmarshal(text, &all); err != nil {
		return Records{}, err
	}
	if all.Running != nil {
		all.Calls = append(all.Calls, *all.Running)
	}
	return all, nil
}

// Remove removes the file at path, if there is one.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

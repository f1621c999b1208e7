package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
)

// exitRecord describes how a daemon has ended. There is none while a daemon runs, or after a daemon
// was killed. Only messages use it.
type exitRecord struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"` // empty if the daemon was asked to stop
}

func (p Project) exitRecord() string { return filepath.Join(p.State, "ended.json") }

// maxExitRecord is the largest size of an exit record in bytes.
const maxExitRecord = 1 << 20

// RemoveExitRecord removes the record of how the last daemon ended.
func (p Project) RemoveExitRecord() { os.Remove(p.exitRecord()) }

// WriteExitRecord records that this daemon has ended, and the reason unless it was asked to stop.
func (p Project) WriteExitRecord(err error) {
	r := exitRecord{At: time.Now()}
	if err != nil && !errors.Is(err, context.Canceled) {
		r.Reason = err.Error()
	}
	if text, err := json.Marshal(r); err == nil {
		private.WriteFile(p.exitRecord(), text)
	}
}

// lastDaemon returns the last daemon of the project of a file. It reports false if there never was
// one, or if one is running.
func lastDaemon(file string) (Project, Holder, bool) {
	p, err := Open(file)
	if err != nil {
		return p, Holder{}, false
	}
	last := p.Holder()
	if last.PID == 0 {
		return p, last, false
	}
	_, locked := p.Locked()
	return p, last, !locked
}

// Killed reports whether the last daemon of the project of a file has ended without an exit record.
func Killed(file string) bool {
	p, _, ended := lastDaemon(file)
	if !ended {
		return false
	}
	_, err := os.Lstat(p.exitRecord())
	return os.IsNotExist(err)
}

// LastExit describes how the last daemon of the project of a file has ended. It returns "" if there
// never was one, or if one is running.
func LastExit(file string) string {
	p, last, ended := lastDaemon(file)
	if !ended {
		return ""
	}
	var r exitRecord
	text, err := private.ReadFile(p.exitRecord(), maxExitRecord)
	switch {
	case os.IsNotExist(err):
		return fmt.Sprintf("the last daemon (process %d) was killed or crashed; its agents may still run: coppice "+
			"up takes them over, coppice down stops them", last.PID)
	case err != nil || json.Unmarshal(text, &r) != nil:
		return ""
	case r.Reason == "":
		return "the last daemon was stopped on " + r.At.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("the last daemon ended on %s: %.500s", r.At.Local().Format(time.DateTime), r.Reason)
}

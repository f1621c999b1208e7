package daemon

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

// fate is how a controller has ended. There is none while one runs, nor after
// one that was killed. It is for people: nothing depends on it.
type fate struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"` // empty if it was asked to
}

func (p Project) fate() string { return filepath.Join(p.State, "ended.json") }

// maxFate is the size of the largest file that is read as a fate.
const maxFate = 1 << 20

// begin forgets how the last controller ended.
func (p Project) begin() { os.Remove(p.fate()) }

// ended notes that this controller has, and why if nobody has asked for it.
func (p Project) ended(err error) {
	f := fate{At: time.Now()}
	if err != nil && !errors.Is(err, context.Canceled) {
		f.Reason = err.Error()
	}
	if text, err := json.Marshal(f); err == nil {
		private.WriteFile(p.fate(), text)
	}
}

// Killed reports whether the last controller of the project of a file has ended
// without having said so.
func Killed(file string) bool {
	p, err := OpenProject(file)
	if err != nil || p.holder().PID == 0 {
		return false
	}
	if _, locked := p.Locked(); locked {
		return false
	}
	_, err = os.Lstat(p.fate())
	return os.IsNotExist(err)
}

// Fate says what has become of the last controller of the project of a file, in
// a clause for people; "" if there is nothing to tell: there never was one, or
// one runs.
func Fate(file string) string {
	p, err := OpenProject(file)
	if err != nil {
		return ""
	}
	last := p.holder()
	if last.PID == 0 {
		return ""
	}
	if _, locked := p.Locked(); locked {
		return ""
	}
	var f fate
	text, err := private.ReadFile(p.fate(), maxFate)
	switch {
	case os.IsNotExist(err):
		return fmt.Sprintf("the last daemon (process %d) was killed or crashed; its agents may still run: coppice "+
			"up takes them over, coppice down stops them", last.PID)
	case err != nil || json.Unmarshal(text, &f) != nil:
		return ""
	case f.Reason == "":
		return "the last daemon was stopped on " + f.At.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("the last daemon ended on %s: %.500s", f.At.Local().Format(time.DateTime), f.Reason)
}

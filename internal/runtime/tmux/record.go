package tmux

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/internal/spec"
)

// User options of a session. The first one is a record, in case that the file of the slot is
// damaged; the others are for people.
const (
	recordOption      = "@coppice_record"
	pathOption        = "@coppice_path"
	incarnationOption = "@coppice_incarnation"
)

// stateFile is in the directory of a slot. Its content is a record, of which the keeper knows a part.
const stateFile = pane.StateFile

// record is the content of a slot's state file: its last incarnation. It is written before the
// agent runs.
type record struct {
	Version     int           `json:"version"`
	Path        string        `json:"path"`
	Incarnation uint64        `json:"incarnation"`
	SpecHash    string        `json:"fingerprint,omitempty"`
	Token       string        `json:"token,omitempty"`
	Server      proc.Identity `json:"server"`
	Agent       proc.Identity `json:"agent"`
	Pane        string        `json:"pane"` // of tmux, such as %3
	StartedAt   time.Time     `json:"started_at"`
	Ready       bool          `json:"ready,omitempty"`
	Condition   spec.Ready    `json:"condition"`        // of readiness
	Socket      string        `json:"socket,omitempty"` // its NOTIFY_SOCKET
	Said        *wire.Notice  `json:"said,omitempty"`   // reported there, without signs of life
	Dir         []byte        `json:"dir"`              // for readiness commands
	Stop        int           `json:"stop"`             // signal
	Grace       time.Duration `json:"grace"`
	Log         runtime.Log   `json:"log"`
	Begin       logfile.Mark  `json:"begin"` // of its output
	Asked       proc.Asked    `json:"asked"` // before it ended
	// NoNewPrivileges is that of the launch, for readiness commands.
	NoNewPrivileges bool `json:"no_new_privileges,omitempty"`
}

func readRecord(dir string) (*record, error) {
	rec := new(record)
	if err := wire.ReadFile(filepath.Join(dir, stateFile), rec, &rec.Version); err != nil {
		return nil, err
	}
	return rec, rec.check(dir)
}

// check refuses a record of another program.
func (rec *record) check(dir string) error {
	name, err := wire.DirName(rec.Path)
	switch {
	case err != nil:
		return fmt.Errorf("slot %s: %w", dir, err)
	case name != filepath.Base(dir):
		return fmt.Errorf("slot %s belongs to agent %.200q", dir, rec.Path)
	case rec.Incarnation == 0:
		return fmt.Errorf("slot %s: damaged: no incarnation", dir)
	case strings.TrimRight(rec.Pane, "0123456789") != "%" && rec.Pane != "":
		return fmt.Errorf("slot %s: damaged: %.40q is not a pane", dir, rec.Pane)
	}
	return nil
}

func (rec *record) write(dir string) error {
	return wire.WriteFile(filepath.Join(dir, stateFile), rec)
}

// option returns the record as the value of a user option.
func (rec *record) option() (string, error) {
	b, err := json.Marshal(rec)
	return base64.RawStdEncoding.EncodeToString(b), err
}

func parseOption(s, dir string) (*record, error) {
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%s of a session: %w", recordOption, err)
	}
	rec := new(record)
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("%s of a session: %w", recordOption, err)
	}
	if rec.Version != wire.Version {
		return nil, fmt.Errorf("%s of a session: unknown version %d, expected %d", recordOption, rec.Version,
			wire.Version)
	}
	return rec, rec.check(dir)
}

// grace returns the time from the stop signal to SIGKILL; a negative time means no limit.
func (rec *record) grace() time.Duration { return cmp.Or(rec.Grace, proc.DefaultGrace) }

func (rec *record) stopSignal() syscall.Signal {
	return cmp.Or(syscall.Signal(rec.Stop), syscall.SIGTERM)
}

// readyTimeout returns the time that the incarnation has to become ready.
func (rec *record) readyTimeout() time.Duration {
	return cmp.Or(max(0, rec.Condition.Timeout), spec.DefaultReadyTimeout)
}

// outlived marks an incarnation as ready that still runs after its time to become ready. A
// record of its start does not say so.
func (rec *record) outlived(now time.Time) {
	rec.Ready = rec.Ready || now.After(rec.StartedAt.Add(rec.readyTimeout()))
}

func (rec *record) observation() *runtime.Observation {
	var said sdnotify.Notice
	said.Recall(rec.Said.Notice(time.Now()))
	return &runtime.Observation{
		Said: said,
		Path: rec.Path, Incarnation: rec.Incarnation, SpecHash: rec.SpecHash, Token: rec.Token,
		StartedAt: rec.StartedAt,
	}
}

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Project is the directory of a coppice.toml, and what the daemon keeps there.
type Project struct {
	Dir   string // absolute
	State string // Dir/.coppice, mode 0700
}

// OpenProject returns the project of a configuration file. It makes nothing.
func OpenProject(config string) (Project, error) {
	absolute, err := filepath.Abs(config)
	if err != nil {
		return Project{}, fmt.Errorf("finding the directory of %s: %w", config, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute)) // one project, one state, whatever it is called
	if err != nil {
		return Project{}, err
	}
	return Project{Dir: dir, State: filepath.Join(dir, ".coppice")}, nil
}

// Make makes the directory of the state.
func (p Project) Make() error {
	if err := os.MkdirAll(p.State, 0o700); err != nil {
		return p.unusable(err)
	}
	ignore := filepath.Join(p.State, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("*\n"), 0o600); err != nil {
			return p.unusable(err)
		}
	}
	return nil
}

// unusable explains why nothing can be kept in the directory of the state.
func (p Project) unusable(err error) error {
	return fmt.Errorf("nothing can be kept in %s, where coppice has the state and the logs of a project (%w); make %s writable, or copy the project to a directory that is", p.State, err, p.Dir)
}

// Database, Slots, Tmux, Log and lock are the files in the state.
func (p Project) Database() string { return filepath.Join(p.State, "state.db") }
func (p Project) Slots() string    { return filepath.Join(p.State, "run") }
func (p Project) Tmux() string     { return filepath.Join(p.State, "tmux") }
func (p Project) Log() string      { return filepath.Join(p.State, "daemon.log") }
func (p Project) lock() string     { return filepath.Join(p.State, "controller.lock") }

// Holder is who holds the lock of a project.
type Holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// LockedError: another controller has the project.
type LockedError struct {
	Project string
	Holder  Holder // zero where it did not say
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("another controller has %s", e.Project)
	}
	return fmt.Sprintf("another controller has %s: process %d, since %s", e.Project, e.Holder.PID, e.Holder.Since.Format(time.DateTime))
}

// Lock makes this process the only controller of the project, until release
// is called or it ends, however it ends. The error is a *LockedError if another one is.
func (p Project) Lock() (release func() error, err error) {
	if err := p.Make(); err != nil {
		return nil, err
	}
	// The lock stays with one file for ever: who removed it would let two in.
	lock := flock.New(p.lock(), flock.SetPermissions(0o600))
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		ok, err := lock.TryLock()
		if err != nil {
			return nil, p.unusable(err)
		}
		if ok {
			break
		}
		if h := p.holder(); h.alive() || time.Now().After(deadline) {
			return nil, &LockedError{p.Dir, h}
		}
	}
	// Who holds it is for people; on a full disk the lock holds without.
	if text, err := json.Marshal(Holder{os.Getpid(), time.Now()}); err == nil {
		os.WriteFile(p.lock(), text, 0o600)
	}
	return lock.Unlock, nil
}

// lockPatience is how long to wait for the lock of a controller that has
// died: what it was about to start holds it for a moment, until it is executed.
const lockPatience = 2 * time.Second

// alive: the holder is a process that has not ended.
// One that nobody has collected yet has.
func (h Holder) alive() bool {
	if h.PID <= 0 || syscall.Kill(h.PID, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.PID))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

// holder reads who has locked; zero if that cannot be read.
func (p Project) holder() (h Holder) {
	f, err := os.Open(p.lock())
	if err != nil {
		return h
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}

// Locked returns who has the project, and whether anybody has.
func (p Project) Locked() (Holder, bool) {
	lock := flock.New(p.lock())
	if _, err := os.Stat(p.lock()); err != nil {
		return Holder{}, false
	}
	ok, err := lock.TryRLock()
	if err == nil && ok {
		lock.Unlock()
		return Holder{}, false
	}
	h := p.holder()
	return h, err == nil && h.alive()
}

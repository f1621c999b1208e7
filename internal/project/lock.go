package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/coppice-dev/coppice/internal/private"
)

// Holder is the process that holds the lock of a project.
type Holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// LockedError reports that another daemon has locked the project.
type LockedError struct {
	Project string
	Holder  Holder // zero if unknown
}

func (e *LockedError) Error() string {
	who := ""
	if e.Holder.PID != 0 {
		who = fmt.Sprintf(": process %d", e.Holder.PID)
		if !e.Holder.Since.IsZero() {
			who += ", since " + e.Holder.Since.Format(time.DateTime)
		}
	}
	return fmt.Sprintf("a daemon is already running for %s%s; coppice status shows it, coppice down stops it",
		e.Project, who)
}

// Lock makes this process the only daemon of the project until it calls Release or ends. The error
// is a *LockedError if another process is the daemon.
func (p Project) Lock() (*Lock, error) { return p.lockAs(true) }

// LockOffline is Lock for a command that is no daemon. In the end the lock file names the last daemon again.
func (p Project) LockOffline() (*Lock, error) { return p.lockAs(false) }

func (p Project) lockAs(daemon bool) (*Lock, error) {
	if err := p.Make(); err != nil {
		return nil, err
	}
	l := &Lock{project: p, daemon: daemon}
	deadline := time.Now().Add(lockTimeout)
	for ; ; time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // the kernel does not say when a lock is free
		switch holder, err := l.try(); {
		case err != nil:
			return nil, err
		case holder == nil:
			return l, nil
		case holder.alive() || time.Now().After(deadline):
			return nil, &LockedError{p.Dir, *holder}
		}
	}
}

// Lock is the lock of a project. It consists of the lock file and the claimed name.
type Lock struct {
	project Project
	daemon  bool
	before  []byte       // of the lock file, unless daemon is set
	name    func() error // releases the name; nil if it is not claimed yet
	file    *flock.Flock
}

// try takes the missing parts of the lock. If another process has one, it returns that process.
func (l *Lock) try() (*Holder, error) {
	// The lock file is never removed, as that would allow two daemons.
	file := flock.New(l.project.lock(), flock.SetPermissions(0o600),
		flock.SetFlag(os.O_CREATE|os.O_RDONLY|private.OpenFlags))
	ok, err := file.TryLock()
	if err != nil {
		return nil, l.project.unusable(err)
	}
	if !ok {
		file.Close()
		h := l.project.Holder()
		return &h, nil
	}
	if l.name == nil {
		name, pid, err := claimName(l.project.Dir)
		if err != nil || pid != 0 {
			file.Close()
			return &Holder{PID: pid}, err
		}
		l.name = name
	}
	l.file = file
	if !l.daemon {
		l.before, _ = private.ReadFile(l.project.lock(), maxHolder) // only for messages
	}
	// The holder is only for messages; on a full disk the lock works without it.
	if text, err := json.Marshal(Holder{os.Getpid(), time.Now()}); err == nil {
		private.WriteFile(l.project.lock(), text)
	}
	return nil, nil
}

// Repair takes the lock again if its file was removed, and reports whether it did.
func (l *Lock) Repair() (restored bool, err error) {
	now, err := os.Stat(l.project.lock())
	if err == nil {
		own, err := l.file.Stat()
		if err != nil || os.SameFile(now, own) {
			return false, err
		}
	}
	if err := l.project.Make(); err != nil {
		return false, err
	}
	old := l.file
	holder, err := l.try()
	if holder != nil && err == nil {
		err = &LockedError{l.project.Dir, *holder}
	}
	if err != nil {
		return false, err
	}
	return true, old.Close()
}

// Release gives up the lock.
func (l *Lock) Release() error {
	if !l.daemon {
		private.WriteFile(l.project.lock(), l.before)
	}
	return errors.Join(l.file.Close(), l.name())
}

// lockTimeout limits the wait for the lock of a dead daemon. A child that it was starting holds the
// lock until its execve.
const lockTimeout = 2 * time.Second

// maxHolder is the largest size of a lock file in bytes.
const maxHolder = 4096

// alive reports whether the holder is a running process. A zombie is not, nor is a process with a
// pending SIGKILL.
func (h Holder) alive() bool {
	if h.PID <= 0 || syscall.Kill(h.PID, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.PID))
	if err != nil {
		return true
	}
	// See proc_pid_stat(5): after the name, the state is the first field and the flags are the seventh.
	const exiting, signalled = 0x4, 0x400
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return true
	}
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	return fields[0] != "Z" && fields[0] != "X" && flags&(exiting|signalled) == 0 && !killed(h.PID)
}

// killed reports whether a SIGKILL is pending for the process.
func killed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		set, _ := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if (name == "SigPnd" || name == "ShdPnd") && set&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// Holder returns the holder of the lock; zero if it cannot be read.
func (p Project) Holder() (h Holder) {
	text, err := private.ReadFile(p.lock(), maxHolder)
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}

// Locked returns the running daemon of the project, and reports whether there is one.
func (p Project) Locked() (Holder, bool) {
	lock := flock.New(p.lock(), flock.SetFlag(os.O_RDONLY|private.OpenFlags))
	ok, err := lock.TryRLock()
	switch {
	case err == nil && ok:
		lock.Unlock()
	case err == nil:
		h := p.Holder()
		return h, h.alive()
	}
	// The lock file of a running daemon may have been removed; the daemon will restore it.
	if h := (Holder{PID: nameHolder(p.Dir)}); h.alive() {
		return h, true
	}
	return Holder{}, false
}

// Opened is a project whose lock file a process has open.
type Opened struct {
	Project Project
	PID     int
}

// Holds reports whether the process is the daemon of the project, and since when. It reads files of
// the project, whose file system may hang.
func (o Opened) Holds() (since time.Time, ok bool) {
	holder, locked := o.Project.Locked()
	return holder.Since, locked && holder.PID == o.PID
}

package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

const (
	lockName  = "guard.lock" // has the process that holds it: a proc.Identity as JSON
	maxHolder = 1 << 10      // bytes of it
)

const (
	takeTimeout = 5 * time.Second // for the lock
	termTimeout = time.Second     // for a guard that is asked to end
	takePause   = 10 * time.Millisecond
)

// take makes this process the guard of a project. If another one is, lock is nil and holder is that: a guard of
// another version of the program is replaced.
func take(p project.Project) (lock *filelock.Lock, holder proc.Identity, err error) {
	file := filepath.Join(p.State, lockName)
	for began := time.Now(); time.Since(began) < takeTimeout; <-time.After(takePause) {
		lock, err := filelock.Try(file, filelock.Exclusive)
		if err != nil {
			return nil, holder, err
		}
		if lock != nil {
			self, err := proc.Identify(os.Getpid())
			if err == nil {
				err = write(lock.File(), self)
			}
			return lock, self, err
		}
		holder, err := readHolder(file)
		if err != nil || !isGuard(holder, p) {
			continue // it has just taken the lock, or has just ended
		}
		if isSame(holder) {
			return nil, holder, nil
		}
		end(holder)
	}
	return nil, holder, fmt.Errorf("%s is locked, and the process in it is no guard: end the process that holds it, "+
		"which fuser(1) shows", file)
}

func write(f *os.File, id proc.Identity) error {
	text, err := json.Marshal(id)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	return err
}

func readHolder(file string) (id proc.Identity, err error) {
	text, err := private.ReadFile(file, maxHolder)
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	return id, err
}

// isGuard reports whether a process is a guard of the project that runs.
func isGuard(id proc.Identity, p project.Project) bool {
	argv, err := os.ReadFile(procFile(id, "cmdline"))
	want := []byte("coppice\x00" + Arg + "\x00" + p.Dir + "\x00" + p.State + "\x00")
	return err == nil && bytes.Equal(argv, want) && proc.Observe(id) == proc.Alive
}

// isSame reports whether a process runs the same program as this one.
func isSame(id proc.Identity) bool {
	own, err1 := os.Stat("/proc/self/exe")
	other, err2 := os.Stat(procFile(id, "exe"))
	return err1 == nil && err2 == nil && os.SameFile(own, other)
}

func procFile(id proc.Identity, name string) string {
	return "/proc/" + strconv.Itoa(id.PID) + "/" + name
}

// End ends the guard of a project, of which nothing runs, if it has one.
func End(p project.Project) error {
	holder, err := readHolder(filepath.Join(p.State, lockName))
	if err != nil || !isGuard(holder, p) {
		return nil //nolint:nilerr // there is none
	}
	return end(holder)
}

// end ends a guard, also one that was stopped.
func end(id proc.Identity) error {
	id.Signal(syscall.SIGTERM)
	id.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(context.Background(), termTimeout)
	defer cancel()
	err := id.AwaitDeath(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = id.Signal(syscall.SIGKILL)
	}
	return err
}

// Package project manages the files that a daemon keeps next to a coppice.toml: its lock, its
// store, the slots of its agents, and the record of how the last daemon ended.
package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Project is the directory of a coppice.toml with the files of the daemon.
type Project struct {
	Dir   string // absolute
	State string // Dir/.coppice, mode 0700

	persistence spec.Persistence
}

// Open returns the project of a configuration file. It creates no files.
func Open(config string) (Project, error) {
	absolute, err := filepath.Abs(config)
	if err != nil {
		return Project{}, fmt.Errorf("finding the directory of %s: %w", config, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute)) // one state for all paths of a directory
	if err != nil {
		return Project{}, err
	}
	return Project{Dir: dir, State: filepath.Join(dir, endpoint.Dir)}, nil
}

// Make creates the state directory, or checks an existing one.
func (p Project) Make() error {
	if err := os.Mkdir(p.State, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return p.unusable(err)
	}
	if err := p.Check(); err != nil {
		return err
	}
	ignore := filepath.Join(p.State, ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, os.ErrNotExist) {
		if err := private.WriteFile(ignore, []byte("*\n")); errors.Is(err, syscall.ENOSPC) {
			os.Remove(ignore) // a later start writes it
		} else if err != nil {
			return p.unusable(err)
		}
	}
	return nil
}

// Check checks that the state directory belongs to this user alone and contains no symbolic
// links. Another user, or a git checkout, may have created it.
func (p Project) Check() error {
	err := private.Dir(p.State)
	for _, dir := range []string{p.State, p.Slots(), p.Tmux(), p.Jobs(), p.RunRequests()} {
		if err == nil {
			err = private.NoLinks(dir)
		}
	}
	var unsafe *private.Error
	if errors.As(err, &unsafe) && unsafe.Fix != "" {
		return fmt.Errorf("cannot keep the state of the project: %w", unsafe)
	}
	if err != nil {
		return p.unusable(err)
	}
	return nil
}

// unusable returns the error for a state directory that cannot be used.
func (p Project) unusable(err error) error {
	return fmt.Errorf("nothing can be kept in %s, where coppice has the state and the logs of a project (%w); make "+
		"%s writable, or copy the project to a directory that is", p.State, err, p.Dir)
}

// DeadlineFile returns the name of the file of package deadline, which a machine of a fleet has.
func (p Project) DeadlineFile() string { return filepath.Join(p.State, "deadline") }

// Deadline returns DeadlineFile if there is one, or else "": the agents of this machine have no deadline.
func (p Project) Deadline() string {
	file := p.DeadlineFile()
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return file
}

// Node returns the directory of package member, which a machine of a fleet has.
func (p Project) Node() string { return filepath.Join(p.State, "node") }

// Slots, Tmux, Log and lock are paths in the state directory.
func (p Project) Slots() string { return filepath.Join(p.State, "run") }
func (p Project) Tmux() string  { return filepath.Join(p.State, "tmux") }
func (p Project) Log() string   { return filepath.Join(p.State, "daemon.log") }
func (p Project) lock() string  { return filepath.Join(p.State, lockName) }

// RunRequests returns the directory of package runfiles, with the requests of runs of Aidefiles for example.
func (p Project) RunRequests() string { return filepath.Join(p.State, "aide") }

// Jobs returns the directory of the slots of runs of orders.
func (p Project) Jobs() string { return filepath.Join(p.State, "errands") }

// Worktrees returns the directory of the git worktrees of attempts.
func (p Project) Worktrees() string { return filepath.Join(p.State, "worktrees") }

const lockName = "controller.lock"

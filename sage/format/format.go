// Package format formats Sage programs in place. It leaves a file unchanged if formatting could
// lose anything.
package format

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

// Change holds the text of a file before and after formatting.
type Change struct {
	Path          string
	Before, After string

	target string // of Path, if it is a symbolic link
	info   fs.FileInfo
}

// Read formats the file at path without changing it. A file with syntax errors results in
// diagnostics instead of a change.
func Read(path string) (Change, []diag.Diagnostic, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return Change{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	text, info, err := load.Read(target)
	if err != nil {
		return Change{}, nil, err
	}
	after, diagnostics := printer.Format(source.NewFile(path, text))
	if diag.HasErrors(diagnostics) {
		return Change{}, diagnostics, nil
	}
	return Change{Path: path, Before: text, After: after, target: target, info: info}, nil, nil
}

// Needed reports whether formatting changes the file.
func (c Change) Needed() bool { return c.Before != c.After }

// Write replaces the file atomically: a reader sees the old or the new text. It keeps the mode and,
// if permitted, the owner. It fails without a change if the file is read-only, or was changed or
// removed since it was read.
func (c Change) Write() error {
	if err := c.write(); err != nil {
		return fmt.Errorf("%s is not formatted: %w", c.Path, err)
	}
	return nil
}

var (
	errReadOnly = errors.New("it is read-only; chmod u+w makes it writable")
	errChanged  = errors.New("it has been changed meanwhile; try again")
)

func (c Change) write() error {
	// A rename only needs permission to write to the directory.
	if c.info.Mode().Perm()&0o222 == 0 {
		return errReadOnly
	}
	f, err := os.OpenFile(c.target, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errReadOnly
	case err != nil:
		return err
	}
	_ = f.Close()

	temp, err := os.CreateTemp(filepath.Dir(c.target), "."+filepath.Base(c.target)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if _, err = temp.WriteString(c.After); err == nil {
		err = temp.Sync()
	}
	if owner, ok := c.info.Sys().(*syscall.Stat_t); ok {
		_ = temp.Chown(int(owner.Uid), int(owner.Gid))
	}
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if err = errors.Join(err, temp.Chmod(c.info.Mode()&bits), temp.Close()); err != nil {
		return err
	}
	if text, info, err := load.Read(c.target); err != nil || text != c.Before || !os.SameFile(info, c.info) {
		return errChanged
	}
	return os.Rename(temp.Name(), c.target)
}

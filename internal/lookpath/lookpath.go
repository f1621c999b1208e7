// Package lookpath finds the executable for a command name in the PATH of the process that
// will run it. os/exec uses the PATH of the calling process.
package lookpath

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the absolute path of the executable called name. A name with a slash is relative
// to dir. Any other name is looked up in the directories of path, a list like $PATH. Relative
// directories are skipped: the result must not depend on the current directory.
//
// The error wraps fs.ErrNotExist if there is no such file, and fs.ErrPermission or
// syscall.EISDIR if it cannot be executed.
func Find(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, check(name)
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		file := filepath.Join(d, name)
		err := check(file)
		if err == nil {
			return file, nil
		}
		// Like a shell, continue, but remember the first file that is not executable.
		if denied == nil && errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	return "", cmp.Or(denied, fmt.Errorf("%s: %w in PATH", name, fs.ErrNotExist))
}

// check returns an error if file cannot be executed, by the rules of the platform in os/exec.
func check(file string) error {
	_, err := exec.LookPath(file)
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	if err != nil {
		err = &fs.PathError{Op: "execute", Path: file, Err: err}
	}
	return err
}

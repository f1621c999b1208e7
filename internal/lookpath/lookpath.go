// Package lookpath finds the file that a command name stands for in the
// environment of the process that will run it; os/exec looks in that of the
// process that asks.
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

// Find returns the absolute path of the executable file name. A name with a
// slash is taken relative to dir, any other is looked up in the directories of
// path, a list as in $PATH. Relative directories in path are skipped: what
// runs must not depend on where somebody stands.
//
// The error wraps fs.ErrNotExist if there is no such file, and
// fs.ErrPermission or syscall.EISDIR if there is one that cannot be executed.
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
		// Like a shell, go on looking, but remember what came closest.
		if denied == nil && errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	return "", cmp.Or(denied, fmt.Errorf("%s: %w in PATH", name, fs.ErrNotExist))
}

// check asks os/exec, which knows each platform's rules, whether file can be executed.
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

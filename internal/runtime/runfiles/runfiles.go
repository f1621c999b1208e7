// Package runfiles keeps the files of the last incarnations of agents on this machine: those that an incarnation
// finds when it starts, and those that it writes for the daemon, which may run on another machine. Each agent has a
// directory.
package runfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// Bounds of the files of an agent.
const (
	maxFiles = 16      // in a runtime.Files
	maxName  = 64      // bytes
	maxBytes = 8 << 20 // of a file that is read, and of all that are written together
)

// ownerName is the file with the number of the incarnation whose files these are.
const ownerName = "incarnation"

// ErrInvalid is wrapped by errors of names and sizes that are not possible.
var ErrInvalid = errors.New("not possible as files of an agent")

// Dir is the directory in which all agents have theirs.
type Dir string

// Of returns the directory of an agent.
func (d Dir) Of(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(string(d), fmt.Sprintf("%.40s-%s", readableName(path), hex.EncodeToString(sum[:6])))
}

// readableName returns a file name by which people recognize a path.
func readableName(path string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && r != '/' && r > ' ' && r != 0x7f {
			return r
		}
		return '_'
	}, path[strings.LastIndexByte(path, '/')+1:])
}

// Write writes the files with which an incarnation of an agent begins. Each file is written whole or not at all. After
// an error, Read finds no file of that incarnation.
func (d Dir) Write(path string, incarnation uint64, f runtime.Files) error {
	if err := check(f); err != nil {
		return fmt.Errorf("files of %.200q: %w", path, err)
	}
	dir := d.Of(path)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = private.Dir(dir)
	}
	for _, name := range append([]string{ownerName}, f.Remove...) {
		if err == nil {
			err = remove(filepath.Join(dir, name))
		}
	}
	for name, text := range f.Write {
		if err == nil {
			err = private.Replace(filepath.Join(dir, name), text)
		}
	}
	if err == nil {
		err = private.Replace(filepath.Join(dir, ownerName), strconv.AppendUint(nil, incarnation, 10))
	}
	if err != nil {
		return fmt.Errorf("writing the files of %s: %w", path, err)
	}
	return nil
}

func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// check returns an error for files that cannot be written.
func check(f runtime.Files) error {
	if n := len(f.Write) + len(f.Remove); n > maxFiles {
		return fmt.Errorf("%w: %d names, expected at most %d", ErrInvalid, n, maxFiles)
	}
	size := 0
	for name, text := range f.Write {
		size += len(text)
		if slices.Contains(f.Remove, name) {
			return fmt.Errorf("%w: %.80q is both written and removed", ErrInvalid, name)
		}
		if err := checkName(name); err != nil {
			return err
		}
	}
	for _, name := range f.Remove {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if size > maxBytes {
		return fmt.Errorf("%w: %d bytes, expected at most %d", ErrInvalid, size, maxBytes)
	}
	return nil
}

func checkName(name string) error {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	if name == "" || len(name) > maxName || name[0] == '.' || name == ownerName || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%w: the name %.80q, expected at most %d letters, digits and ._-, and no dot in front",
			ErrInvalid, name, maxName)
	}
	return nil
}

// Read returns a file of an incarnation of an agent; of any if its number is 0. The error wraps fs.ErrNotExist if there
// is none, or if the files are those of another incarnation.
func (d Dir) Read(path string, incarnation uint64, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("file of %.200q: %w", path, err)
	}
	dir := d.Of(path)
	if incarnation != 0 {
		owner, err := private.ReadFile(filepath.Join(dir, ownerName), maxName)
		if err != nil {
			return nil, err
		}
		if string(owner) != strconv.FormatUint(incarnation, 10) {
			return nil, fmt.Errorf("the files of %s are those of incarnation %.20q, not %d: %w", path, owner,
				incarnation, fs.ErrNotExist)
		}
	}
	return private.ReadFile(filepath.Join(dir, name), maxBytes)
}

// Remove removes the files of an agent.
func (d Dir) Remove(path string) error { return os.RemoveAll(d.Of(path)) }

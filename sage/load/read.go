// Package load finds and reads the files of a Sage program. Checking, running and editing so see
// the same files: those on disk and those being edited, but none outside of the project.
package load

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Extension is the extension of Sage source files.
const Extension = ".sg"

// MaxSize is the largest size in bytes of a file that is read.
const MaxSize = 16 << 20

// Read reads a source file. It rejects irregular files, because a FIFO blocks and a device may
// never end, and files of more than MaxSize bytes. The error names the path, and wraps
// fs.ErrNotExist and fs.ErrPermission.
func Read(path string) (string, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	defer f.Close()
	text, info, err := readFile(f)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, info, nil
}

func readFile(f *os.File) (string, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return "", nil, reason(err)
	}
	if info.IsDir() {
		return "", nil, errors.New("is a directory, expected a file")
	}
	if !info.Mode().IsRegular() {
		return "", nil, errors.New("is a special file, expected a regular one")
	}
	text, err := ReadAll(f)
	return text, info, err
}

// ReadAll reads a text of at most MaxSize bytes.
func ReadAll(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	switch {
	case err != nil:
		return "", reason(err)
	case len(data) > MaxSize:
		return "", fmt.Errorf("has more than %d bytes, expected a program", MaxSize)
	}
	return string(data), nil
}

// reason returns an error without its operation and path.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// Walk iterates over the source files in a directory tree in lexical order. It skips hidden files
// and symbolic links, whose targets are either in the tree already or not part of it. A directory
// that cannot be read is yielded with its error and skipped.
func Walk(dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// Follow dir itself if it is a link, unlike links below it.
		root := dir
		if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			root += string(filepath.Separator)
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if path == root && strings.HasSuffix(root, string(filepath.Separator)) {
				path = dir
			}
			switch {
			case err != nil:
				if !yield(path, fmt.Errorf("%s: %w", path, reason(err))) {
					return fs.SkipAll
				}
				if d != nil && d.IsDir() {
					return fs.SkipDir
				}
			case path != dir && strings.HasPrefix(d.Name(), "."):
				if d.IsDir() {
					return fs.SkipDir
				}
			case d.Type().IsRegular() && strings.HasSuffix(d.Name(), Extension):
				if !yield(path, nil) {
					return fs.SkipAll
				}
			}
			return nil
		})
	}
}

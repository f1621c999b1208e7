package load

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// testSuffix ends the names of files of tests.
const testSuffix = "_test" + Extension

// FindTests finds the programs with the tests of a path. For a directory these are
// the program of its project and the files *_test.sg in it, each a program of its
// own; for a file, that one. Directories that cannot be read are in the error, in
// addition to the programs that were found.
func FindTests(projects Projects, path string) ([]*Program, error) {
	dir := cmp.Or(path, ".")
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	whole, err := Find(projects, path)
	if err != nil && (!info.IsDir() || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if !info.IsDir() {
		return []*Program{whole}, nil
	}
	noProject := err
	var programs []*Program
	if whole != nil {
		programs = append(programs, whole)
		if path == "" {
			dir = whole.Root
		}
	}
	var failed error
	for file, err := range Walk(dir) {
		failed = errors.Join(failed, err)
		if err != nil || !strings.HasSuffix(file, testSuffix) {
			continue
		}
		if whole != nil {
			absolute, err := filepath.Abs(file)
			if err != nil {
				return nil, err
			}
			programs = append(programs, whole.At(absolute))
		} else if p, err := Find(projects, file); err != nil {
			failed = errors.Join(failed, err)
		} else {
			programs = append(programs, p)
		}
	}
	if len(programs) == 0 && failed == nil {
		failed = noProject
	}
	return programs, failed
}

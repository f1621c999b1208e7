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

// testSuffix ends the names of test files.
const testSuffix = "_test" + Extension

// FindTests finds the programs whose tests a path refers to. For a directory these are the program
// of its project and the files *_test.sg in it, each a program of its own. For a file it is that
// one. The error also lists directories that cannot be read, in addition to the returned programs.
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

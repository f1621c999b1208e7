package worker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/coppice-dev/coppice/internal/change/integrity"
	"github.com/coppice-dev/coppice/internal/private"
)

// Bounds of a runStore.
const (
	maxRuns = 50       // runs; the oldest ones are removed
	maxRun  = 64 << 20 // bytes of a run
)

// testRun is the end of a command that checks a tree.
type testRun struct {
	Failed  string            `json:"failed,omitempty"`  // how it has failed; empty if it has passed
	Results integrity.Results `json:"results,omitempty"` // of its tests; nil if its output has no known form

	argv   []string
	output string // the end of it
}

// runStore keeps how commands have ended on trees, for all workers of a repository. It is a directory in that of git,
// to which stages cannot write. A tree is the content of a commit: the result of a merge that was tested before need
// not be tested again when the next attempt begins at it.
type runStore struct{ dir string }

// openRuns returns the store of the repository with a git directory.
func openRuns(common string) (runStore, error) {
	s := runStore{filepath.Join(common, "coppice-tests")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s, err
	}
	return s, private.Dir(s.dir)
}

// file returns the file of the run of a command on a tree that was set up by another command.
func (s runStore) file(tree string, argv, setUp []string) string {
	text, _ := json.Marshal([]any{tree, argv, setUp}) // cannot fail for texts
	sum := sha256.Sum256(text)
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// load returns a run that was saved, and false if there is none.
func (s runStore) load(tree string, argv, setUp []string) (r testRun, ok bool, err error) {
	name := s.file(tree, argv, setUp)
	text, err := private.ReadFile(name, maxRun)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return testRun{}, false, fmt.Errorf("reading the results of tests in %s: %w", name, err)
	}
	r.argv = argv
	return r, true, nil
}

// save saves a run, and removes the oldest ones if there are too many.
func (s runStore) save(tree string, setUp []string, r testRun) error {
	text, err := json.Marshal(r)
	if err == nil && len(text) > maxRun {
		err = fmt.Errorf("they have %d bytes, at most %d are kept", len(text), maxRun)
	}
	if err == nil {
		err = private.Replace(s.file(tree, r.argv, setUp), text)
	}
	if err == nil {
		err = s.prune()
	}
	if err != nil {
		return fmt.Errorf("keeping the results of tests: %w", err)
	}
	return nil
}

// prune removes the oldest runs. Another worker may do the same at the same time.
func (s runStore) prune() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) <= maxRuns {
		return err
	}
	var all []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range all[min(maxRuns, len(all)):] {
		if e := os.Remove(filepath.Join(s.dir, info.Name())); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

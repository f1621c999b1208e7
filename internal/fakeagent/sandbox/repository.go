package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// repository is a copy of a git repository for pipelines, so that nothing is merged into the real one.
type repository struct {
	real string // the work tree that was copied
	dir  string // the work tree of the copy
	refs string // as they were when it was made
}

// repository returns the copy of the repository that a directory is in, and the directory in the copy. Each repository
// is copied once.
func (s *Sandbox) repository(dir string) (r *repository, inside string, err error) {
	real, err := gitIn(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, "", err
	}
	under, err := gitIn(dir, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, "", err
	}
	if r = s.repositories[real]; r == nil {
		if s.copies == "" { // outside of Dir, where stages may write
			if s.copies, err = makeTemp("coppice-fake-repositories-"); err != nil {
				return nil, "", err
			}
		}
		at := filepath.Join(s.copies, fmt.Sprintf("%d-%s", len(s.repositories)+1, filepath.Base(real)))
		if r, err = copyRepository(real, at); err != nil {
			err = fmt.Errorf("copying the repository %s: %w", real, err)
			return nil, "", errors.Join(err, os.RemoveAll(at))
		}
		s.repositories[real] = r
	}
	inside = filepath.Join(r.dir, under)
	if err := os.MkdirAll(inside, 0o700); err != nil { // git may track nothing in it
		return nil, "", err
	}
	return r, inside, nil
}

// copyRepository copies a repository as a mirror: it has the same branches, tags and remote-tracking branches, and no
// remote, so that no script pushes to one. git makes hard links of objects where it can, and never changes an object.
// Objects that were shared instead would vanish from the copy when git collects garbage in the real repository. What
// attempts at tasks have left is not copied: the run has other tasks with the same ids.
func copyRepository(real, dir string) (*repository, error) {
	own := filepath.Join(dir, ".git")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	clone := []string{"-c", "clone.defaultRemoteName=origin", "clone", "--quiet", "--mirror", "--", real, own}
	if _, err := gitIn(dir, clone...); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"config", "--remove-section", "remote.origin"}, {"config", "core.bare", "false"}} {
		if _, err := gitIn(own, args...); err != nil {
			return nil, err
		}
	}
	left, err := gitIn(own, "for-each-ref", "--format=delete %(refname)", "refs/coppice/", "refs/heads/coppice/")
	if err == nil && left != "" {
		_, err = git.Runner{Dir: own}.RunWith(context.Background(), left+"\n", "update-ref", "--stdin")
	}
	if err != nil {
		return nil, err
	}
	if _, err := gitIn(dir, "reset", "--quiet", "--hard"); err != nil {
		return nil, err
	}
	// What git ignores in the real one may be made again by set_up or tests.
	if err := copyExclude(real, own); err != nil {
		return nil, err
	}
	if err := worktree.Include(context.Background(), real, dir); err != nil {
		return nil, err
	}
	r := &repository{real: real, dir: dir}
	r.refs, err = r.readRefs()
	return r, err
}

// maxExclude bounds the file of copyExclude, in bytes.
const maxExclude = 1 << 20

// copyExclude copies the patterns of ignored files that are of this repository alone.
func copyExclude(real, own string) error {
	file, err := gitIn(real, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude")
	if err != nil {
		return err
	}
	file, err = filepath.EvalSymlinks(file) // it may lead to the settings of a person
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var text []byte
	if err == nil {
		text, err = private.ReadFile(file, maxExclude)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(own, "info"), 0o700)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(own, "info", "exclude"), text, 0o600)
}

// readRefs returns all references of the copy.
func (r *repository) readRefs() (string, error) { return gitIn(r.dir, "for-each-ref") }

// hasChanged reports whether the run has changed a branch or kept a commit. If that cannot be read, it may have.
func (r *repository) hasChanged() bool {
	now, err := r.readRefs()
	return err != nil || now != r.refs
}

// removeCopies removes the copies that have not changed. The others are results of the run, for people.
func (s *Sandbox) removeCopies() (err error) {
	kept := false
	for _, r := range s.repositories {
		if r.hasChanged() {
			kept = true
			continue
		}
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	if kept || s.copies == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.copies))
}

// gitIn runs git in a directory, and returns its output.
func gitIn(dir string, args ...string) (string, error) {
	r := git.Runner{Network: true} // a clone is refused without it, also of a directory
	return r.Line(context.Background(), append([]string{"-C", dir}, args...)...)
}

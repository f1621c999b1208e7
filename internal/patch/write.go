package patch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// Apply applies a patch to the files below a directory: either all of it, or nothing. With dryRun it only
// reports what it would do. The error is about the directory or writing to it; that edits do not apply is in
// the report.
//
// Symbolic links are not followed. A file that changes at the same time is not overwritten.
func Apply(dir string, p *Patch, dryRun bool) (Report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Report{}, err
	}
	defer root.Close()
	t := &tree{root: root, seen: map[string]fs.FileInfo{}}
	changes, report := p.Plan(t.read)
	if dryRun || report.Failed() || len(changes) == 0 {
		return report, nil
	}
	staged, err := t.stage(changes)
	if err == nil {
		err = t.swap(staged)
	}
	if err != nil {
		t.discard(staged)
		return report, fmt.Errorf("nothing was applied: %w", err)
	}
	report.Applied = true
	return report, nil
}

// tree is a directory that is changed.
type tree struct {
	root    *os.Root
	seen    map[string]fs.FileInfo // files that were read
	created []string               // directories that did not exist
}

// lstat returns information on a file. It refuses paths through symbolic links, and what is no regular file.
func (t *tree) lstat(name string) (fs.FileInfo, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		switch info, err := t.root.Lstat(name[:i]); {
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, fmt.Errorf("refused: %s is a symbolic link", name[:i])
		case !info.IsDir():
			return nil, fmt.Errorf("refused: %s is not a directory", name[:i])
		}
	}
	info, err := t.root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("refused: the file is a symbolic link")
	case !info.Mode().IsRegular():
		return nil, errors.New("refused: not a regular file")
	case info.Size() > MaxBytes:
		return nil, fmt.Errorf("refused: the file has %d bytes, more than %d", info.Size(), MaxBytes)
	}
	return info, nil
}

// read returns the content of a file.
func (t *tree) read(name string) (*Content, error) {
	info, err := t.lstat(name)
	if err != nil {
		return nil, err
	}
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	t.seen[name] = info
	return &Content{string(text), info.Mode().Perm()}, nil
}

// staged is a change whose new content is in a temporary file.
type staged struct {
	Change
	temporary string // "" if the file is deleted
}

// stage writes the new files next to the old ones.
func (t *tree) stage(changes []Change) (all []staged, err error) {
	for _, c := range changes {
		if err := t.unchanged(c.Path); err != nil {
			return all, err
		}
		s := staged{Change: c}
		if c.New != nil {
			if err := t.makeDirs(path.Dir(c.Path)); err != nil {
				return all, err
			}
			if s.temporary, err = t.writeTemporary(c.Path, c.New, c.Old != nil); err != nil {
				return all, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// unchanged reports an error if a file was changed since it was read.
func (t *tree) unchanged(name string) error {
	info, err := t.lstat(name)
	before := t.seen[name]
	switch {
	case errors.Is(err, fs.ErrNotExist) && before == nil:
		return nil
	case err != nil:
		return err
	case before == nil || !os.SameFile(info, before) || info.Size() != before.Size() ||
		!info.ModTime().Equal(before.ModTime()):
		return fmt.Errorf("%s has changed meanwhile", name)
	}
	return nil
}

// makeDirs creates directories that do not exist.
func (t *tree) makeDirs(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := t.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	if err := t.root.Mkdir(dir, 0o777); err != nil {
		return err
	}
	t.created = append(t.created, dir)
	return nil
}

// writeTemporary writes a file in the directory of another one, and returns its name. exact says that it has exactly
// the permissions of the content, whatever the umask is.
func (t *tree) writeTemporary(next string, c *Content, exact bool) (name string, err error) {
	name = path.Join(path.Dir(next), ".coppice-patch-"+rand.Text())
	mode := c.Mode
	if mode == 0 {
		mode = 0o666
	}
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(c.Text)
	if err == nil && exact {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.root.Remove(name)
		return "", err
	}
	return name, nil
}

// swap puts the new files in the place of the old ones. If that fails, it restores the old ones.
func (t *tree) swap(all []staged) error {
	for i, s := range all {
		var err error
		if s.New == nil {
			err = t.root.Remove(s.Path)
		} else {
			err = t.root.Rename(s.temporary, s.Path)
		}
		if err != nil {
			return errors.Join(err, t.restore(all[:i]))
		}
	}
	return nil
}

// restore undoes changes.
func (t *tree) restore(all []staged) (errs error) {
	for _, s := range slices.Backward(all) {
		var err error
		if s.Old == nil {
			err = t.root.Remove(s.Path)
		} else {
			var name string
			if name, err = t.writeTemporary(s.Path, s.Old, true); err == nil {
				err = t.root.Rename(name, s.Path)
			}
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("restoring %s: %w", s.Path, err))
		}
	}
	return errs
}

// discard removes temporary files and the directories that were created.
func (t *tree) discard(all []staged) {
	for _, s := range all {
		if s.temporary != "" {
			t.root.Remove(s.temporary)
		}
	}
	for _, dir := range slices.Backward(t.created) {
		t.root.Remove(dir)
	}
}

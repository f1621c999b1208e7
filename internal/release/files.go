package release

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// change is a path that differs between two commits.
type change struct {
	path           string
	oldMode, newID string
	newMode        string // "000000" if the path is deleted
}

// ignoreDirty keeps git from running in submodules, whose configuration can name programs.
const ignoreDirty = "--ignore-submodules=dirty"

const (
	noMode        = "000000"
	submoduleMode = "160000"
	linkMode      = "120000"
)

// changes returns what a merge changes, by path.
func (r *Repo) changes(ctx context.Context, i intent) (all []change, err error) {
	fields, err := r.git().Names(ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames",
		"--ignore-submodules=none", i.Old, i.New)
	if err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(fields, 2) {
		words := strings.Fields(strings.TrimPrefix(pair[0], ":")) // modes, ids, status
		if len(pair) != 2 || len(words) != 5 {
			return nil, fmt.Errorf("git diff-tree: unexpected output %.200q", pair)
		}
		all = append(all, change{path: pair[1], oldMode: words[0], newMode: words[1], newID: words[3]})
	}
	return all, nil
}

// dirty returns those changes that would overwrite something in a worktree: a local change, staged or not, a
// file that is not tracked, ignored or not, or a submodule that is checked out, as git would not update it.
func (x *index) dirty(
	ctx context.Context, draft gitcmd.Runner, old string, changes []change,
) (all []string, err error) {
	unstaged, err := draft.Names(ctx, "diff-files", "-z", "--name-only", ignoreDirty)
	if err != nil {
		return nil, err
	}
	staged, err := draft.Names(ctx, "diff-index", "-z", "--name-only", "--no-renames",
		"--ignore-submodules=none", "--cached", old, "--")
	if err != nil {
		return nil, err
	}
	f, err := openFiles(x.top, draft)
	if err != nil {
		return nil, err
	}
	defer f.close()
	changed, deleted := set(append(unstaged, staged...)), map[string]bool{}
	for _, c := range changes {
		if c.oldMode != noMode && c.oldMode != submoduleMode {
			deleted[c.path] = true // or replaced, if it does not become a directory
		}
	}
	for _, c := range changes {
		switch {
		case changed[c.path]:
			all = append(all, c.path)
		case c.oldMode == submoduleMode || c.newMode == submoduleMode:
			if _, err := f.root.Lstat(path.Join(c.path, ".git")); err == nil {
				all = append(all, c.path)
			}
		case c.oldMode == noMode:
			in, err := f.inTheWay(c.path, deleted)
			if err != nil {
				return nil, err
			}
			all = append(all, in...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// files are those of a worktree. Nothing outside of it is reached through symbolic links.
type files struct {
	root *os.Root
	git  gitcmd.Runner // with the index that the files belong to
}

func openFiles(top string, g gitcmd.Runner) (*files, error) {
	root, err := os.OpenRoot(top)
	return &files{root, g}, err
}

func (f *files) close() { f.root.Close() }

// kind is the kind of file at a path.
type kind int

const (
	missing kind = iota
	file         // or a symbolic link, or something else that is no directory
	directory
	blocked // something above it is no directory
)

// at returns what is at a path, without following symbolic links. For blocked, above is what is no directory.
func (f *files) at(name string) (k kind, above string, err error) {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := f.root.Lstat(name[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return missing, "", nil
		case err != nil:
			return missing, "", err
		case info.IsDir():
		case i == len(name):
			return file, "", nil
		default:
			return blocked, name[:i], nil
		}
	}
	return directory, "", nil
}

// inTheWay returns the files that a new file would replace, except those that are deleted.
func (f *files) inTheWay(name string, deleted map[string]bool) (all []string, err error) {
	k, above, err := f.at(name)
	switch {
	case err != nil:
		return nil, err
	case k == blocked && !deleted[above]:
		return []string{above}, nil
	case k == file && !deleted[name]:
		return []string{name}, nil
	case k == directory:
		return f.below(name, deleted)
	}
	return nil, nil
}

// below returns the files in a directory, except those that are deleted.
func (f *files) below(dir string, deleted map[string]bool) (all []string, err error) {
	opened, err := f.root.Open(dir)
	if err != nil {
		return nil, err
	}
	entries, err := opened.ReadDir(-1)
	opened.Close()
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			more, err := f.below(name, deleted)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		} else if !deleted[name] {
			all = append(all, name)
		}
	}
	return all, err
}

// written reports whether a file is as a merge writes it, in part or as a whole. A missing file is, as git
// removes a file before it writes it again.
func (f *files) written(ctx context.Context, c change) (bool, error) {
	k, _, err := f.at(c.path)
	switch {
	case err != nil || k == directory || k == blocked:
		return false, err
	case k == missing:
		return true, nil
	case c.newMode == noMode || c.newMode == submoduleMode:
		return false, nil
	}
	info, err := f.root.Lstat(c.path)
	if err != nil {
		return false, err
	}
	var content io.Reader
	switch link := info.Mode()&fs.ModeSymlink != 0; {
	case link != (c.newMode == linkMode):
		return false, nil
	case link:
		target, err := f.root.Readlink(c.path)
		if err != nil {
			return false, err
		}
		content = strings.NewReader(target)
	case !info.Mode().IsRegular():
		return false, nil
	default:
		opened, err := f.root.OpenFile(c.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		defer opened.Close()
		content = opened
	}
	args := []string{"cat-file", "--filters", "--path=" + c.path, c.newID}
	if c.newMode == linkMode {
		args = []string{"cat-file", "blob", c.newID}
	}
	same := false
	err = f.git.Read(ctx, func(whole io.Reader) (err error) {
		same, err = isPrefix(content, whole)
		return err
	}, args...)
	return same, err
}

// isPrefix reports whether what one reader returns begins what the other one returns.
func isPrefix(part, whole io.Reader) (bool, error) {
	a, b := bufio.NewReader(part), bufio.NewReader(whole)
	for {
		x, err := a.ReadByte()
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		y, err := b.ReadByte()
		if err == io.EOF || err == nil && x != y {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// remove removes a file that a merge has written, and the directories that are empty then.
func (f *files) remove(ctx context.Context, c change) error {
	if c.newMode == noMode {
		return nil
	}
	k, _, err := f.at(c.path)
	if err != nil || k != file {
		return err
	}
	if ours, err := f.written(ctx, c); err != nil || !ours {
		return err
	}
	if err := f.root.Remove(c.path); err != nil {
		return err
	}
	for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
		if f.root.Remove(dir) != nil { // it is not empty
			break
		}
	}
	return nil
}

// checkOut writes files as the index has them. Nothing else is in their place.
func (f *files) checkOut(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := f.git.RunWith(ctx, strings.Join(paths, "\x00")+"\x00", "checkout-index", "--force", "-z", "--stdin")
	return err
}

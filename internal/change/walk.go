package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/change/pattern"
)

// maxDepth bounds the depth of directories.
const maxDepth = 200

// entry is a path of a tree or an index.
type entry struct {
	mode Mode
	id   string
	size int64 // -1 if it is not known
}

// walker finds the files of a work tree that belong into a commit: those that the base or the index
// has, and all others that the ignore rules of the base do not exclude.
type walker struct {
	root    *os.Root
	base    map[string]entry
	index   map[string]entry             // of the repository; only for files that were added although ignored
	ignores map[string][]pattern.Pattern // the .gitignore files of the base, by directory
	tracked map[string]bool              // directories with a file of the base or the index

	paths      []string // files and symbolic links
	submodules []string
	hidden     []Hidden
	others     int   // files that the base does not have
	bytes      int64 // in files of another size than in the base
}

// walk walks through a work tree.
func walk(ctx context.Context, dir string, base, index map[string]entry, ignores map[string][]pattern.Pattern) (
	*walker, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	w := &walker{root: root, base: base, index: index, ignores: ignores, tracked: map[string]bool{}}
	for _, all := range []map[string]entry{base, index} {
		for name := range all {
			for dir := path.Dir(name); dir != "." && !w.tracked[dir]; dir = path.Dir(dir) {
				w.tracked[dir] = true
			}
		}
	}
	err = w.dir(ctx, ".", false, 0)
	slices.Sort(w.paths)
	slices.SortFunc(w.hidden, func(a, b Hidden) int { return strings.Compare(a.Path+a.What, b.Path+b.What) })
	return w, err
}

// dir walks through a directory. In an ignored one, only tracked files count.
func (w *walker) dir(ctx context.Context, dir string, ignored bool, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		w.hide(dir, fmt.Sprintf("more than %d directories deep", maxDepth))
		return nil
	}
	f, err := w.root.Open(dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		w.hide(dir, "a directory that cannot be read")
		return nil
	case err != nil:
		return fmt.Errorf("reading the work tree: %w", err)
	}
	defer f.Close()
	type subdir struct {
		name    string
		ignored bool
	}
	var below []subdir
	for {
		some, err := f.ReadDir(1024)
		for _, e := range some {
			name := path.Join(dir, e.Name())
			if name == ".git" {
				continue
			}
			isIgnored := ignored || w.isIgnored(name, e.IsDir())
			if pattern.IsGit(e.Name()) && !isIgnored {
				w.hideGit(dir, e.Name())
				continue
			}
			if e.IsDir() {
				below = append(below, subdir{name, isIgnored})
			} else if err := w.file(name, e, isIgnored); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the work tree: %w", err)
		}
	}
	f.Close()
	for _, sub := range below {
		submodule, err := w.submodule(sub.name)
		if err != nil {
			return err
		}
		if submodule || sub.ignored && !w.tracked[sub.name] {
			continue
		}
		if err := w.dir(ctx, sub.name, sub.ignored, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) hide(name, what string) { w.hidden = append(w.hidden, Hidden{name, what}) }

func (w *walker) hideGit(dir, name string) {
	if name == ".git" {
		w.hide(dir, "a repository in the repository")
		return
	}
	w.hide(path.Join(dir, name), "a name that some file systems take for .git")
}

// file notes a file, a symbolic link or something special.
func (w *walker) file(name string, e fs.DirEntry, ignored bool) error {
	before, inBase := w.base[name]
	if _, inIndex := w.index[name]; ignored && !inBase && !inIndex {
		return nil
	}
	if !inBase {
		if w.others++; w.others > MaxFiles {
			return tooManyFiles()
		}
	}
	switch e.Type() {
	case fs.ModeSymlink:
	case 0:
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("reading the work tree: %w", err)
		}
		if info.Size() != before.size {
			if w.bytes += info.Size(); w.bytes > MaxBytes {
				return tooManyBytes()
			}
		}
	default:
		w.hide(name, "neither a file nor a directory nor a symbolic link")
		return nil
	}
	w.paths = append(w.paths, name)
	return nil
}

// submodule notes a directory that is a submodule of the base or the index, and has a repository or
// nothing in it.
func (w *walker) submodule(name string) (bool, error) {
	if w.base[name].mode != Submodule && w.index[name].mode != Submodule {
		return false, nil
	}
	_, err := w.root.Lstat(name + "/.git")
	if errors.Is(err, fs.ErrNotExist) {
		f, err := w.root.Open(name)
		if err != nil {
			return false, fmt.Errorf("reading the work tree: %w", err)
		}
		defer f.Close()
		if some, _ := f.ReadDir(1); len(some) > 0 {
			return false, nil
		}
	} else if err != nil {
		return false, fmt.Errorf("reading the work tree: %w", err)
	}
	w.submodules = append(w.submodules, name)
	return true, nil
}

// isIgnored reports whether the nearest .gitignore file of the base that decides about a path
// excludes it. Directories above the path are not looked at.
func (w *walker) isIgnored(name string, dir bool) bool {
	for at := path.Dir(name); ; at = path.Dir(at) {
		if all := w.ignores[at]; all != nil {
			if excluded, decided := pattern.Decide(all, strings.TrimPrefix(name, at+"/"), dir); decided {
				return excluded
			}
		}
		if at == "." {
			return false
		}
	}
}

package worktree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// openUp allows this user to read, change and list everything in a directory.
func openUp(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(makeAccessible(root, "."), root.Close())
}

// makeAccessible allows this user to read, change and list everything in a directory. Links are not
// followed.
func makeAccessible(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if info.Mode().IsRegular() && mode&0o400 == 0 {
		return root.Chmod(name, mode|0o400)
	}
	if !info.IsDir() {
		return nil
	}
	if mode&0o700 != 0o700 {
		if err := root.Chmod(name, mode|0o700); err != nil {
			return err
		}
	}
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	err = errors.Join(err, dir.Close())
	for _, e := range entries {
		err = errors.Join(err, makeAccessible(root, filepath.Join(name, e.Name())))
	}
	return err
}

// rename renames a directory; to its own name it does nothing.
func rename(from, to string) error {
	if from == to {
		return nil
	}
	return os.Rename(from, to)
}

// removeFiles removes files, which may be missing.
func removeFiles(names ...string) (err error) {
	for _, name := range names {
		err = errors.Join(err, ignoreMissing(os.Remove(name)))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

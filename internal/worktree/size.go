package worktree

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DiskUsage returns the bytes on the disk that a file or directory takes, as du does: those of blocks, with
// each file counted once and links not followed. What cannot be read is not counted.
func DiskUsage(path string) (bytes int64) {
	type file struct{ device, inode uint64 }
	seen := map[file]bool{}
	filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the rest is still counted
		}
		info, err := os.Lstat(name)
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		id := file{uint64(st.Dev), uint64(st.Ino)} //nolint:unconvert // other systems have other types
		if st.Nlink > 1 && !info.IsDir() {
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		bytes += st.Blocks * 512
		return nil
	})
	return bytes
}

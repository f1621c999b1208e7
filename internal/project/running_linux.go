package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
)

// Running returns the projects whose lock file a process of this user has open, from the open
// files in /proc. It accesses no file system that may hang. Opened.Holds reports whether the
// process is the daemon of the project.
func Running() (all []Opened, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	seen := make(map[Opened]bool)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		if info, err := os.Stat(dir); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue
		}
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended, or hides its files
		}
		if err != nil {
			return nil, fmt.Errorf("listing the files of process %d: %w", pid, err)
		}
		for _, fd := range fds {
			file, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil {
				continue // closed, or ended
			}
			state, ok := strings.CutSuffix(strings.TrimSuffix(file, " (deleted)"), "/"+lockName)
			if !ok || filepath.Base(state) != endpoint.Dir || !filepath.IsAbs(state) {
				continue
			}
			o := Opened{Project{Dir: filepath.Dir(state), State: state}, pid}
			if !seen[o] {
				seen[o] = true
				all = append(all, o)
			}
		}
	}
	return all, nil
}

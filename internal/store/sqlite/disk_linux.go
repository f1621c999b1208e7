package sqlite

import (
	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/store"
)

// diskState says why a file system takes no writes, nil if it should.
func diskState(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil
	}
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return store.ErrReadOnly
	case st.Bavail == 0:
		return store.ErrFull
	}
	return nil
}

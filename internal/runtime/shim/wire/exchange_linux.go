package wire

import "golang.org/x/sys/unix"

// exchange swaps two files that exist, if the file system can do that.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

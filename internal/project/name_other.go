//go:build !linux

package project

// claimName claims nothing: this system has no abstract sockets, so only the lock file counts.
func claimName(string) (release func() error, holder int, err error) {
	return func() error { return nil }, 0, nil
}

// nameHolder returns 0: there are no names.
func nameHolder(string) (pid int) { return 0 }

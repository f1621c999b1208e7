//go:build !linux

package project

// claimName takes a name that is the project's alone; there are none here,
// and the lock has to do.
func claimName(string) (release func() error, holder int, err error) {
	return func() error { return nil }, 0, nil
}

// nameHolder returns 0: no names are claimed.
func nameHolder(string) (pid int) { return 0 }

package git

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Waits for lock files of git, which other commands on the repository hold for a moment.
const (
	LockTimeout  = 30 * time.Second
	lockPause    = 2 * time.Millisecond // doubled up to maxLockPause
	maxLockPause = 250 * time.Millisecond
)

// RetryLocked calls do again while it reports that a lock file is in the way, for at most LockTimeout. It returns the
// last error of do, or the cause of the end of ctx.
func RetryLocked(ctx context.Context, do func() (locked bool, err error)) error {
	deadline := time.Now().Add(LockTimeout)
	for pause := lockPause; ; pause = min(2*pause, maxLockPause) {
		locked, err := do()
		if !locked || time.Now().After(deadline) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// isLocked reports whether a command failed because of a lock file of another command.
func isLocked(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && strings.Contains(failed.Stderr, "File exists") &&
		(strings.Contains(failed.Stderr, ".lock'") || strings.Contains(failed.Stderr, "could not lock config file"))
}

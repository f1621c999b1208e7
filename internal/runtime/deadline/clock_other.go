//go:build !linux

package deadline

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// BootID returns the ID of this boot.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// Now returns the time. On macOS this clock goes on while the machine sleeps.
func Now() (Instant, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return Instant(ts.Nano()), nil
}

func newAlarm(ring func()) alarm { return newStepper(Now, ring) }

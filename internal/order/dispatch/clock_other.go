//go:build !linux

package dispatch

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/order"
)

// clock returns the time of this machine. This process counts as the boot, as nothing
// better is known.
func clock() order.Now {
	now := order.Now{Wall: time.Now(), Boot: "process " + strconv.Itoa(os.Getpid())}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) == nil {
		now.Up = time.Duration(ts.Nano())
	}
	return now
}

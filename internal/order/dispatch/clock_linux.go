package dispatch

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// clock returns the time of this machine. Up includes the time in which it was suspended.
func clock() order.Now {
	now := order.Now{Wall: time.Now()}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		now.Up = time.Duration(ts.Nano())
	}
	now.Boot, _ = proc.BootID()
	return now
}

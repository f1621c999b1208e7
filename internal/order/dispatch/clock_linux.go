package dispatch

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/order"
)

// clock returns the time of this machine. Up includes the time in which it was suspended.
func clock() order.Now {
	now := order.Now{Wall: time.Now()}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		now.Up = time.Duration(ts.Nano())
	}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		now.Boot = strings.TrimSpace(string(b))
	}
	return now
}

package deadline

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// BootID returns the ID of this boot.
func BootID() (string, error) { return proc.BootID() }

// Now returns the time.
func Now() (Instant, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return Instant(ts.Nano()), nil
}

// timerfd is an alarm of the kernel: it rings right after a suspension, and costs nothing before.
type timerfd struct {
	f   *os.File
	raw syscall.RawConn
}

// newAlarm returns an alarm. Without descriptors or timers it is a stepper.
func newAlarm(ring func()) alarm {
	a, err := newTimerfd()
	if err != nil {
		return newStepper(Now, ring)
	}
	go a.run(ring)
	return a
}

func newTimerfd() (*timerfd, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "deadline")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &timerfd{f, raw}, nil
}

// run waits in the poller of the Go runtime, which takes no thread.
func (a *timerfd) run(ring func()) {
	var expirations [8]byte
	for {
		if _, err := a.f.Read(expirations[:]); err != nil {
			return // it is closed
		}
		ring()
	}
}

func (a *timerfd) set(at Instant) {
	a.raw.Control(func(fd uintptr) { // fails only after close
		unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME,
			&unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}, nil)
	})
}

func (a *timerfd) close() { a.f.Close() }

package proc

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/supervisor"
)

// ExitError is how a process ended that did not end well.
type ExitError struct {
	Code       int            // exit code; -1 where a signal ended it
	Signal     syscall.Signal // what ended it; 0 where it exited by itself
	CoreDumped bool
	// LastOutput are the last lines of stdout and of stderr in the order in
	// which they were read, as the process wrote them: use Plain before showing
	// them. Long ones are cut.
	LastOutput []string
}

func (e *ExitError) Error() string {
	if e.Signal == 0 {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	core := ""
	if e.CoreDumped {
		core = ", core dumped"
	}
	return fmt.Sprintf("ended by %s%s", signalName(e.Signal), core)
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// asked is what was asked of a process before it ended.
type asked struct {
	stop, kill bool
	sent       uint64 // signals that were sent, one bit each
}

func (a *asked) note(s syscall.Signal)       { a.sent |= 1 << (uint(s) & 63) }
func (a asked) sentIt(s syscall.Signal) bool { return a.sent&(1<<(uint(s)&63)) != 0 }

// classify decides what the end of a process means to its supervisor. What
// was asked for is a shutdown: death by a signal that was sent after Stop, and
// the exit codes of programs that handle it, be it 0 or the shells' 128+signal.
// Everything else is judged as if nobody had asked.
func classify(ws syscall.WaitStatus, success []int, a asked, tail func() []string) supervisor.Exit {
	if len(success) == 0 {
		success = []int{0}
	}
	code, sig := ws.ExitStatus(), syscall.Signal(0)
	if ws.Signaled() {
		code, sig = -1, ws.Signal()
	}
	good := sig == 0 && slices.Contains(success, code)
	switch {
	case a.stop && (good || code == 0 || code > 128 && a.sentIt(syscall.Signal(code-128))),
		a.stop && sig != 0 && a.sentIt(sig) && !(sig == syscall.SIGKILL && a.kill):
		return supervisor.Exit{Kind: supervisor.ShutDown}
	case good:
		return supervisor.Exit{Kind: supervisor.Normal}
	case sig == syscall.SIGKILL && a.kill:
		return supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled}
	}
	kind := supervisor.Failure
	if sig == syscall.SIGKILL {
		kind = supervisor.Killed // by the out-of-memory killer, a person, ...
	}
	return supervisor.Exit{Kind: kind, Err: &ExitError{
		Code: code, Signal: sig, CoreDumped: sig != 0 && ws.CoreDump(), LastOutput: tail(),
	}}
}

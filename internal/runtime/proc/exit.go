package proc

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/supervisor"
)

// ExitError describes the end of a process that failed.
type ExitError struct {
	Code       int            // exit code; -1 if a signal ended it
	Signal     syscall.Signal // signal that ended it; 0 if it exited
	CoreDumped bool
	// LastOutput holds the last lines of stdout and stderr in the order in which they were read.
	// They are as the process wrote them, but long ones are cut: use plaintext.Line before showing them.
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

// exitErrorOf returns the exit code or the signal of a process that has ended.
func exitErrorOf(ws syscall.WaitStatus) *ExitError {
	if ws.Signaled() {
		return &ExitError{Code: -1, Signal: ws.Signal(), CoreDumped: ws.CoreDump()}
	}
	return &ExitError{Code: ws.ExitStatus()}
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// Asked records what was asked of a process before it ended.
type Asked struct {
	Stop bool   `json:"stop,omitempty"`
	Kill bool   `json:"kill,omitempty"`
	Sent uint64 `json:"sent,omitempty"` // signals that were sent, one bit each
}

// Note records that a signal is sent.
func (a *Asked) Note(s syscall.Signal)        { a.Sent |= 1 << (uint(s) & 63) }
func (a Asked) wasSent(s syscall.Signal) bool { return a.Sent&(1<<(uint(s)&63)) != 0 }

// Classify decides what the end of a process means to its supervisor. After Stop, these ends are
// a shutdown: exit code 0, death by a signal that was sent, and the exit code 128+signal of a
// shell for it. Every other end is judged as without Stop.
func Classify(ws syscall.WaitStatus, a Asked, tail func() []string) supervisor.Exit {
	failure := exitErrorOf(ws)
	code, sig := failure.Code, failure.Signal
	switch {
	case a.Stop && (code == 0 || code > 128 && a.wasSent(syscall.Signal(code-128))),
		a.Stop && sig != 0 && a.wasSent(sig) && !(sig == syscall.SIGKILL && a.Kill):
		return supervisor.Exit{Kind: supervisor.ShutDown}
	case code == 0:
		return supervisor.Exit{Kind: supervisor.Normal}
	case sig == syscall.SIGKILL && a.Kill:
		return supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled}
	}
	kind := supervisor.Failure
	if sig == syscall.SIGKILL {
		kind = supervisor.Killed // such as by the out-of-memory killer or a person
	}
	failure.LastOutput = tail()
	return supervisor.Exit{Kind: kind, Err: failure}
}

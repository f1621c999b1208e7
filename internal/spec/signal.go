package spec

import (
	"strings"
	"syscall"
)

// stopSignals are the signals that end a process or that programs treat as a request to stop.
// Others, such as STOP, would leave it hanging until SIGKILL.
var stopSignals = []struct {
	name   string
	number syscall.Signal
}{
	{"TERM", syscall.SIGTERM},
	{"INT", syscall.SIGINT},
	{"HUP", syscall.SIGHUP},
	{"QUIT", syscall.SIGQUIT},
	{"KILL", syscall.SIGKILL},
	{"USR1", syscall.SIGUSR1},
	{"USR2", syscall.SIGUSR2},
	{"ABRT", syscall.SIGABRT},
	{"ALRM", syscall.SIGALRM},
	{"PIPE", syscall.SIGPIPE},
	{"WINCH", syscall.SIGWINCH},
}

// ParseSignal parses the name of a signal that can stop an agent, in upper or lower case and
// with or without SIG. It returns the short name, such as TERM, and the number on this system.
func ParseSignal(text string) (name string, number syscall.Signal, ok bool) {
	text = strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for _, s := range stopSignals {
		if s.name == text {
			return s.name, s.number, true
		}
	}
	return "", 0, false
}

// SignalNames returns the names that ParseSignal returns.
func SignalNames() []string {
	names := make([]string, len(stopSignals))
	for i, s := range stopSignals {
		names[i] = s.name
	}
	return names
}

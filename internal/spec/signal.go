package spec

import (
	"strings"
	"syscall"
)

// stopSignals are those that can end a process or that programs take as a
// request to stop. STOP, CONT and the like would only leave it hanging until SIGKILL.
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

// ParseSignal reads the name of a signal that can stop an agent, in any case
// and with or without SIG, and returns it as Shutdown has it (TERM) together
// with its number on this system.
func ParseSignal(text string) (name string, number syscall.Signal, ok bool) {
	text = strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for _, s := range stopSignals {
		if s.name == text {
			return s.name, s.number, true
		}
	}
	return "", 0, false
}

// SignalNames returns the names that ParseSignal knows.
func SignalNames() []string {
	names := make([]string, len(stopSignals))
	for i, s := range stopSignals {
		names[i] = s.name
	}
	return names
}

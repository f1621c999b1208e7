package runtimetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package whose tests start processes. The test binary also plays
// these processes: if its first argument names a role, it runs that role with the other
// arguments and exits with its exit code. Otherwise all tests run. They must leave neither a
// goroutine nor a process with the entry Env behind.
func Main(m *testing.M, roles map[string]func(args []string) int) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // also for all processes that are started here
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			os.Exit(role(os.Args[2:]))
		}
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if left := LeftBehind(); code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// SayRole is the role of SayArg.
func SayRole(args []string) int {
	Say(args)
	return 0
}

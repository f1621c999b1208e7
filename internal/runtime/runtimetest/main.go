package runtimetest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package whose tests start processes. The test binary
// is these processes, too: called with a first argument that names a role it is that,
// with the other arguments, and ends with its exit code. Else all tests run, and must
// leave neither a goroutine nor a process with the entry Env behind.
func Main(m *testing.M, roles map[string]func(args []string) int) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // all that is started here is given it, too
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

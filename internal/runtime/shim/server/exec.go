package server

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// limit makes a command that bounds itself before it becomes the agent: Go
// cannot set limits between fork and exec, and after exec is too late for what
// the agent starts at once. Without limits the command stays as it is.
func limit(cmd *proc.Command, l runtime.Limits) error {
	l.CPU = 0 // there is no such limit for a process
	if l == (runtime.Limits{}) {
		return nil
	}
	if len(cmd.Argv) == 0 {
		return nil // refused by who runs it
	}
	file, err := proc.LookPath(cmd.Argv[0], cmd.Dir, cmd.Env)
	if err != nil {
		return err
	}
	if cmd.Dir != "" && !strings.HasPrefix(file, "/") {
		return fmt.Errorf("%w: %s is relative to a relative directory", proc.ErrCommand, file)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	cmd.Argv = append([]string{"/proc/self/exe", "shim", ExecArg, string(b), file}, cmd.Argv...)
	return nil
}

// execMain is the process between: limits, file, arguments.
func execMain(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "coppice shim exec: limits, a file and its arguments are missing")
		return 2
	}
	var l runtime.Limits
	if err := json.Unmarshal([]byte(args[0]), &l); err != nil {
		fmt.Fprintf(os.Stderr, "coppice shim exec: limits %q: %v\n", args[0], err)
		return 2
	}
	for _, r := range []struct {
		name     string
		resource int
		value    uint64
	}{
		// Memory last: this program needs some itself to get that far.
		{"open files", unix.RLIMIT_NOFILE, l.OpenFiles},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"memory", unix.RLIMIT_AS, uint64(max(0, l.Memory))},
	} {
		if r.value == 0 {
			continue
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &now); err == nil {
			r.value = min(r.value, now.Max)
		}
		// syscall's, so that exec does not put back the open files that Go began with.
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: r.value, Max: r.value}); err != nil {
			fmt.Fprintf(os.Stderr, "coppice: cannot limit %s to %d: %v\n", r.name, r.value, err)
			return 126
		}
	}
	err := syscall.Exec(args[1], args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "coppice: run %s: %v\n", args[1], err)
	return 126
}

package server

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// limit makes a command limit itself before it becomes the agent. Go cannot set limits between
// fork and exec, and after exec is too late for what the agent starts immediately. Without
// limits the command stays as it is.
func limit(cmd *proc.Command, l runtime.Limits) error {
	l.CPU = 0 // there is no such limit for a process
	if l == (runtime.Limits{}) {
		return nil
	}
	if len(cmd.Argv) == 0 {
		return nil // refused by proc.Start
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

// execMain sets the limits and executes the command. Its arguments are limits, file and
// arguments.
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
	if err := proc.SetLimits(l.Memory, l.OpenFiles, l.Processes); err != nil {
		fmt.Fprintf(os.Stderr, "coppice: %v\n", err)
		return 126
	}
	err := syscall.Exec(args[1], args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "coppice: running %s: %v\n", args[1], err)
	return 126
}

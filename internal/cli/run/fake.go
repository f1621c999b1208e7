package run

import (
	"fmt"
	"os"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/sage"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/fakeagent/sandbox"
)

// inSandbox calls do with a sandbox for a plan, or with nil if there is no plan. It says before and after that the
// command lines of language models are fakes.
func inSandbox(s *command.Streams, plan *fakeagent.Plan, do func(*sandbox.Sandbox) error) (err error) {
	if plan == nil {
		return do(nil)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := sandbox.New(*plan, exe)
	if err != nil {
		return err
	}
	defer func() {
		if e := in.Close(); e != nil && err == nil {
			err = fmt.Errorf("removing the directory of the fakes: %w", e)
		}
	}()
	if err := in.Enter(); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, in.Head())
	err = do(in)
	fmt.Fprintln(s.Err, in.Summary())
	return err
}

// runProgram runs a Sage program, in a sandbox unless it is nil.
func runProgram(s *command.Streams, path string, trace sage.Trace, in *sandbox.Sandbox) error {
	if in == nil { // not an interface with a nil in it
		return sage.Run(s, path, trace, nil)
	}
	in.Note = func(text string) { s.Complain(text) }
	return sage.Run(s, path, trace, in)
}

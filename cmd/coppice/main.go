// Command coppice supervises AI agents and other long-running commands.
package main

import (
	"os"

	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cli"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/pipeline/worker"
	"github.com/coppice-dev/coppice/internal/project/guard"
	shim "github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/internal/sagehost/guest"
)

func main() {
	if cli, ok := fakeagent.Called(os.Args[0]); ok { // a link of coppice run --fake
		os.Exit(fakeagent.Main(cli, os.Args[1:]))
	}
	// These run next to each agent, so they skip the setup of the other commands.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.MainWith(guest.Open, os.Args[2:]))
		case guard.Arg:
			os.Exit(guard.Main(os.Args[2:]))
		case pane.Arg:
			os.Exit(pane.Main(os.Args[2:]))
		case runner.Arg:
			os.Exit(runner.Main(os.Args[2:]))
		case worker.Arg:
			os.Exit(worker.Main(os.Args[2:]))
		}
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Command coppice keeps agents running.
package main

import (
	"os"

	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cli"
	shim "github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

func main() {
	// These run beside each agent: nothing is set up for them that they do not need.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:]))
		case pane.Arg:
			os.Exit(pane.Main(os.Args[2:]))
		case runner.Arg:
			os.Exit(runner.Main(os.Args[2:]))
		}
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Command coppice keeps agents running.
package main

import (
	"os"

	"github.com/coppice-dev/coppice/internal/cli"
	shim "github.com/coppice-dev/coppice/internal/runtime/shim/server"
)

func main() {
	// A shim runs beside each agent: nothing is set up for it that it does not need.
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:]))
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

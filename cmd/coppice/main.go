// Command coppice keeps agents running.
package main

import (
	"os"

	"github.com/coppice-dev/coppice/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

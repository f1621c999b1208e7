// Command gendoc writes the page of metrics to the named file.
package main

import (
	"fmt"
	"os"

	"github.com/coppice-dev/coppice/internal/metrics"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("expected the name of a file, found %d arguments", len(args))
	}
	return os.WriteFile(args[0], metrics.Page(), 0o644)
}

// Command gendoc writes the reference of the library to a file.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/coppice-dev/coppice/sage/library"
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
	var page bytes.Buffer
	if err := library.WritePage(&page); err != nil {
		return err
	}
	return os.WriteFile(args[0], page.Bytes(), 0o644)
}

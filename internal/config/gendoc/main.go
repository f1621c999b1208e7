// Command gendoc writes the reference page of coppice.toml to the file it is given.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/coppice-dev/coppice/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendoc FILE")
		os.Exit(2)
	}
	var page bytes.Buffer
	err := config.WriteReference(&page)
	if err == nil {
		err = os.WriteFile(os.Args[1], page.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

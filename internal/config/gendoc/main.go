// Command gendoc writes the reference pages and JSON Schemas of coppice.toml, grove.toml and
// Aidefiles, and the page about city.toml, to the given files.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/coppice-dev/coppice/internal/config"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/gascity"
	"github.com/coppice-dev/coppice/internal/config/grove"
)

func main() {
	pages := []func(io.Writer) error{config.WriteReference, grove.WriteReference, config.WriteSchema,
		grove.WriteSchema, gascity.WriteReference, aidefileconfig.WriteReference, aidefileconfig.WriteSchema}
	if len(os.Args) != 1+len(pages) {
		fmt.Fprintln(os.Stderr, "usage: gendoc CONFIGURATION.md GROVE.md COPPICE.JSON GROVE.JSON GASCITY.md "+
			"AIDEFILE.md AIDEFILE.JSON")
		os.Exit(2)
	}
	for i, write := range pages {
		var page bytes.Buffer
		err := write(&page)
		if err == nil {
			err = os.WriteFile(os.Args[1+i], page.Bytes(), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "gendoc:", err)
			os.Exit(1)
		}
	}
}

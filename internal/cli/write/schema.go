package write

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/config"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/grove"
)

func NewSchema(s *command.Streams) *cobra.Command {
	schemas := map[string]func(io.Writer) error{config.FileName: config.WriteSchema,
		grove.FileName: grove.WriteSchema, aidefile.FileName: aidefileconfig.WriteSchema}
	return &cobra.Command{
		Use:   "schema [FILE]",
		Short: "Print the JSON Schema of coppice.toml",
		Long: `Print the JSON Schema (draft 7) of coppice.toml; FILE can be grove.toml or Aidefile.
Editors use it to complete and check TOML: write it to a file, and name that in the first line
of coppice.toml:

  #:schema ./coppice.schema.json

coppice validate also checks what depends on several values, other files and the machine.`,
		Example: `  coppice schema > coppice.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected argument %q: %s takes one file", args[1], cmd.CommandPath())
			}
			if len(args) == 1 && strings.EqualFold(args[0], aidefile.FileName) {
				args[0] = aidefile.FileName
			}
			if len(args) == 1 && schemas[args[0]] == nil {
				return fmt.Errorf("there is no schema of %q, expected %s, %s or %s", args[0], config.FileName,
					grove.FileName, aidefile.FileName)
			}
			return nil
		},
		ValidArgs: []string{config.FileName, grove.FileName, aidefile.FileName},
		RunE: func(_ *cobra.Command, args []string) error {
			name := config.FileName
			if len(args) == 1 {
				name = args[0]
			}
			return schemas[name](s.Out)
		},
	}
}

package sage

import (
	"context"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/sage/lsp"
)

func newLSP(s *command.Streams) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve the language server protocol to editors",
		Long: `Serve the Language Server Protocol on standard input and output: diagnostics, hover,
completion, definition, references, rename, formatting and symbols. Editors start it
themselves.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// The standard input cannot be closed while it is read; what is in
			// between can.
			in, from := io.Pipe()
			go func() {
				_, err := io.Copy(from, s.In)
				from.CloseWithError(err)
			}()
			return lsp.Serve(context.Background(), in, s.Out, lsp.Options{
				Version: command.Version(), Projects: sagehost.Projects{},
				Logger: slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
		},
	}
	cmd.Flags().BoolVar(&stdio, "stdio", true, "use the standard input and output, which is all there is")
	_ = cmd.Flags().MarkHidden("stdio") // editors add it to whatever they start
	return cmd
}

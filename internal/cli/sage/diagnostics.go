package sage

import (
	"io"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/sage/diag"
)

// showDiagnostics shows diagnostics, in colour on a terminal.
func showDiagnostics(w io.Writer, diagnostics []diag.Diagnostic) error {
	_, tty := terminal.Size(w)
	return diag.Write(w, diagnostics, terminal.NewPaint(tty).On)
}

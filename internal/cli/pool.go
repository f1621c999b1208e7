package cli

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// poolText says in a line how a pool is.
func poolText(p api.Pool) string {
	text := fmt.Sprintf("%d wanted (%d..%d), %d live", p.Size, p.Min, p.Max, p.Instances)
	if p.Draining > 0 {
		text += fmt.Sprintf(", %d to finish", p.Draining)
	}
	if p.Booting {
		text += ", on_boot runs"
	}
	if p.Error != "" {
		text += "; the check fails: " + p.Error
	}
	return cell(proc.Plain(text))
}

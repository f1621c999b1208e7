package show

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// PoolText says in a line how a pool is.
func PoolText(p api.Pool) string {
	if p.Retired {
		return fmt.Sprintf("no longer in the file, %d live, %d to finish", p.Instances, p.Draining)
	}
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
	return terminal.Cell(proc.Plain(text))
}

// CheckText says why it is that many: what the check has said, and when.
func CheckText(p api.Pool, now time.Time) string {
	ago := ""
	if p.CheckedAt != nil {
		ago = fmt.Sprintf(", %s ago", timespan.Short(max(0, now.Sub(*p.CheckedAt))))
	}
	switch {
	case p.Retired:
		return "its check is not asked"
	case p.Error != "" && !p.Answered:
		return "no check has answered yet"
	case p.Error != "":
		return fmt.Sprintf("the last one that has answered said %d", p.Answer)
	case p.Answered && p.CheckedAt == nil:
		return "it has no check"
	case p.Answered:
		return fmt.Sprintf("its check said %d%s", p.Answer, ago)
	case p.Checking:
		return "its first check runs"
	}
	return "its check is not asked"
}

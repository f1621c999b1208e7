package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// SetLimit sets the limit of a node and its current count.
func (n *Node) SetLimit(l supervisor.Limit, counted int) {
	n.InWindow, n.LimitMax, n.Limit = counted, l.Max, l.String()
	n.LimitCounts, n.LimitWindow, n.LimitAction, n.LimitOf = "", 0, "", ""
	if l.Max >= 0 {
		n.LimitCounts, n.LimitWindow, n.LimitAction = l.Count.String(), l.Within.Seconds(), l.OnLimit.String()
	}
}

// Starts describes the used part of a node's limit, such as "3/20 starts in 1h" or
// "2/10 restarts in a row". It is "shared" where the limit of a supervisor above
// counts, and "-" where nothing does.
func (n Node) Starts() string {
	switch {
	case n.LimitOf != "":
		return "shared"
	case n.LimitMax < 0 && n.Limit != "":
		return "no limit"
	case n.LimitMax < 0, n.Kind == "agent" && n.Restart == supervisor.Temporary.String():
		return "-"
	}
	text := fmt.Sprintf("%d/%d", n.InWindow, n.LimitMax)
	switch n.LimitCounts {
	case "":
	case supervisor.CountConsecutive.String():
		text += " restarts in a row"
	default:
		text += " " + n.LimitCounts
	}
	if n.LimitWindow > 0 {
		text += " in " + span(time.Duration(n.LimitWindow*float64(time.Second)))
	}
	return text
}

// span is a duration without units that are zero: 1h, 1m30s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

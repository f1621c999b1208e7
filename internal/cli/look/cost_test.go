package look

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cost"
)

// What is not known is not shown as a number, and an empty report says what to do.
func TestCostLines(t *testing.T) {
	t.Parallel()
	million, none, dollars := int64(1234567), int64(0), 0.5
	known := cost.Row{
		Name: "x\x1b[31m\ny", Calls: 1000, Tokens: &million, Input: &none, CacheRead: &none, CacheWrite: &none,
		Output: &million, Dollars: &dollars,
	}
	unknown := cost.Row{Calls: 1, UnknownTokens: 1, UnknownDollars: 1}
	running := known
	running.Running = 2
	for name, c := range map[string]struct {
		report   cost.Report
		expected []string
	}{
		"empty": {cost.Report{By: cost.ByAgent, Until: "2026-11-28"}, []string{
			"no call of a language model has been counted\n", "coppice ps shows what runs",
		}},
		"of no time": {cost.Report{By: cost.ByAgent, Since: "2026-11-01", Until: "2026-11-28"}, []string{
			"no call of a language model from 2026-11-01 to 2026-11-28; coppice cost without flags shows all",
		}},
		"known": {cost.Report{By: cost.ByTask, Since: "2026-11-01", Rows: []cost.Row{known}, Total: known}, []string{
			"TASK ", "x y ", "  1,000  1,234,567", "  0.50\n", "total since 2026-11-01",
		}},
		"running": {
			cost.Report{By: cost.ByTask, Since: "2026-11-01", Rows: []cost.Row{running}, Total: running},
			[]string{"\n2 calls in progress; the sums have what is used so far\n"},
		},
		"no task": {cost.Report{By: cost.ByTask, Rows: []cost.Row{unknown}}, []string{
			"\nnone ", "unknown  unknown     unknown  unknown  unknown\n",
		}},
		"no model": {cost.Report{By: cost.ByModel, Rows: []cost.Row{unknown}}, []string{"MODEL ", "\nunknown "}},
	} {
		got := strings.Join(costLines(c.report, terminal.Paint{}, 0), "\n") + "\n"
		for _, part := range c.expected {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in\n%s", name, part, got)
			}
		}
		if strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

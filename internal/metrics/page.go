package metrics

import (
	_ "embed" // page
	"fmt"
	"strings"
)

//go:generate go run ./gendoc ../../docs/metrics.md

//go:embed page.md
var page string

// Page returns docs/metrics.md: page.md with the tables of all metrics.
func Page() []byte {
	var b strings.Builder
	for _, s := range Catalogue() {
		fmt.Fprintf(&b, "## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", s.Title)
		for _, m := range s.Metrics {
			labels := "–"
			if m.Labels != nil {
				labels = "`" + strings.Join(m.Labels, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, strings.ToLower(m.Type.String()), labels, m.Help)
		}
		b.WriteByte('\n')
	}
	return []byte(strings.Replace(page, "<!-- metrics -->\n\n", b.String(), 1))
}

package toml

import (
	"fmt"
	"io"
	"strings"
)

// WritePage writes a reference page in Markdown: a head and all tables.
func WritePage(w io.Writer, head string, sections []Section) error {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range sections {
		title := "`" + s.Header + "`"
		if s.Header == "" {
			title = "Tables"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | type | default | meaning |\n|---|---|---|---|\n", title, s.Doc)
		for _, k := range s.Rows {
			def := k.Default
			if def == "" {
				def = "–"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, k.Type, def, k.Doc)
		}
		if s.Example != "" {
			fmt.Fprintf(&b, "\n```toml\n%s```\n", s.Example)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the reference page: %w", err)
	}
	return nil
}

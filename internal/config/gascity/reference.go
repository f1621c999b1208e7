package gascity

import (
	_ "embed" // head
	"fmt"
	"io"
	"strings"
)

//go:embed head.md
var head string

// WriteReference writes the page about city.toml, in Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(head)
	for _, t := range tables() {
		title := "`" + t.header + "`"
		if t.header == "" {
			title = "Tables"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | type | becomes |\n|---|---|---|\n", title, t.doc)
		var reasons []string
		unused := map[string][]string{} // keys by reason
		for _, k := range t.keys {
			switch {
			case !k.unused:
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, k.Type, k.Doc)
			case unused[k.Doc] == nil:
				reasons = append(reasons, k.Doc)
				fallthrough
			default:
				unused[k.Doc] = append(unused[k.Doc], "`"+k.Name+"`")
			}
		}
		if len(reasons) > 0 {
			b.WriteString("\nNot supported:\n\n")
		}
		for _, reason := range reasons {
			fmt.Fprintf(&b, "- %s: %s\n", strings.Join(unused[reason], ", "), reason)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the page on city.toml: %w", err)
	}
	return nil
}

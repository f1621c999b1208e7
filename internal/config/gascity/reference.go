package gascity

import (
	_ "embed" // head
	"fmt"
	"io"
	"strings"
)

//go:embed head.md
var head string

// WriteReference writes the page on the supported parts of a city.toml, in Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(head)
	for _, t := range tables() {
		title := "`" + t.header + "`"
		if t.header == "" {
			title = "Tables"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | type | becomes |\n|---|---|---|\n", title, t.doc)
		var unused []string
		for _, k := range t.keys {
			if k.unused {
				unused = append(unused, fmt.Sprintf("- `%s`: %s", k.Name, k.Doc))
			} else {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, k.Type, k.Doc)
			}
		}
		if len(unused) > 0 {
			fmt.Fprintf(&b, "\nNot supported:\n\n%s\n", strings.Join(unused, "\n"))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the page on city.toml: %w", err)
	}
	return nil
}

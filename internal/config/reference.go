package config

import (
	"fmt"
	"io"
	"strings"
)

// section is a table without the type that it is read into.
type section struct {
	header, doc, example string
	rows                 []row
}

func (t table[T]) section() section {
	s := section{header: t.header, doc: t.doc, example: t.example}
	for _, k := range t.keys {
		s.rows = append(s.rows, k.row)
	}
	return s
}

// sections are all tables, in the order of the reference page.
func sections() []section {
	return []section{
		fileTable().section(), projectTable().section(), supervisionTable().section(), daemonTable().section(),
		aideTable().section(), persistenceTable().section(), allLogsTable().section(), supervisorTable().section(),
		agentTable().section(), limitsTable().section(), agentLogsTable().section(), backoffTable().section(),
		shutdownTable().section(), readyTable().section(), nudgeTable().section(), beliefTable().section(),
		hookTable("on_waking").section(), poolTable().section(), ordersTable().section(), orderTable().section(),
		taskTable().section(), patchesSection(),
	}
}

const referenceHead = `# coppice.toml

<!-- Written by go generate from internal/config; changes belong there. -->

The file that says what should run, in [TOML](https://toml.io). Coppice looks for it in the current directory and above.
` + "`coppice init`" + ` writes a first one, ` + "`coppice validate`" + ` checks it. It is UTF-8 and at most 1 MiB large. [Files](files.md) says how it is written in several.
` + "`coppice schema`" + ` prints [its JSON Schema](coppice.schema.json), by which editors complete and check it.

Nothing starts unless the whole file is valid. Each error is one line with its place, what was expected and what to do, and
all are reported at once:

` + "```" + `
coppice.toml:7:1: unknown key "comand" in [[agent]]; did you mean "command"?
coppice.toml:9:9: grace is a number without a unit, expected a duration such as "10s" or "1h30m"; write "10s" if seconds are meant
` + "```" + `

` + "`coppice validate --json`" + ` prints the same as one object, with ` + "`valid`" + `, ` + "`errors`" + ` and ` + "`warnings`" + `.

A **duration** is a string with units: ` + "`\"500ms\"`, `\"10s\"`, `\"1h30m\"`, `\"7d\"`" + ` (ns, us, ms, s, m, h, and d of 24 hours).
A **size** is a string with a unit: ` + "`\"512MiB\"`, `\"2G\"`, `\"1.5 GiB\"`" + ` (K, M, G, T, KiB, MiB, GiB, TiB: powers of 1024; KB, MB, GB, TB: powers of 1000), or an
integer of bytes.
**Names** are unique in the whole file, agents and supervisors together; they are segments of paths such as ` + "`shop/backend/api`" + `:
1 to 64 bytes of printable text without ` + "`/`" + `, not ` + "`.`" + ` or ` + "`..`" + `, without ` + "`-`" + ` in front or a space at either end.
`

// WriteReference writes the reference page of coppice.toml, in Markdown.
func WriteReference(w io.Writer) error {
	return writePage(w, referenceHead, sections())
}

func writePage(w io.Writer, head string, sections []section) error {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range sections {
		title := "`" + s.header + "`"
		if s.header == "" {
			title = "Tables"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | type | default | meaning |\n|---|---|---|---|\n", title, s.doc)
		for _, k := range s.rows {
			def := k.def
			if def == "" {
				def = "–"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, k.typ, def, k.doc)
		}
		if s.example != "" {
			fmt.Fprintf(&b, "\n```toml\n%s```\n", s.example)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the reference page: %w", err)
	}
	return nil
}

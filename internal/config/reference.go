package config

import (
	"io"

	"github.com/coppice-dev/coppice/internal/config/toml"
)

// sections returns all tables, in the order of the reference page.
func sections() []toml.Section {
	return []toml.Section{
		fileTable().Section(), projectTable().Section(), supervisionTable().Section(), daemonTable().Section(),
		aideTable().Section(), persistenceTable().Section(), allLogsTable().Section(), supervisorTable().Section(),
		agentTable().Section(), limitsTable().Section(), agentLogsTable().Section(), backoffTable().Section(),
		shutdownTable().Section(), readyTable().Section(), nudgeTable().Section(), beliefTable().Section(),
		hookTable("on_waking").Section(), poolTable().Section(), ordersTable().Section(), orderTable().Section(),
		taskTable().Section(), patchesSection(),
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
	return toml.WritePage(w, referenceHead, sections())
}

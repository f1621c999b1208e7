package gascity

import (
	"fmt"
	"io"
	"strings"
)

const head = `# Gas City

<!-- Written by go generate from internal/config; changes belong there. -->

` + "In a directory with a `city.toml` and no `coppice.toml`, Coppice runs the part of that city which is about keeping agents: `coppice up`, `run`, `validate`, `config show` and all others work as with\na file of their own. " + "`coppice config show` prints what the city means as a `coppice.toml`, with the line of `city.toml` that each value comes from; written to a file, it is one to go on with; orders, which are files of their own, are not in it.\n" + `
Whatever is not supported is named with its place, as a notice that stops nothing:

` + "```" + `
$ coppice validate
city.toml:24:2: beads is not supported: tasks are Coppice's own
city.toml:30:1: agent.mayor.prompt_template is not supported: there are no prompts of agents; give it to the program in start_command or args
city.toml is valid: 4 agents, 0 supervisors
` + "```" + `

What several places say is named once, at the first of them. A key that is probably misspelled is an error, with what was probably meant. What neither is in the tables below nor resembles anything there is named, and not used.

Some things are otherwise than in Gas City, on purpose:

- ` + "`max_restarts` and `restart_window` hold: an agent has that many starts within the window, failed ones included, and then waits until the window has room again. Each restart waits for `patrol_interval`, one minute at most, as Gas City's controller starts what has crashed at its next tick." + `
- ` + "Orders fire on the events of Coppice: `bead.*`, `session.*` and `city.*` become `task.*`, `agent.*` and `project.*`. A type that is not there, such as `convoy.closed`, is a notice, and so is a name in `skip` of `[orders]` that no order has." + `
- ` + "A file that is included changes only the keys of `[daemon]` that it has; the others stay." + `
- ` + "All variables in `env` belong to what an agent is: when one changes, the agent is restarted." + `
- ` + "A pool whose `check` fails stays as it is." + `
- ` + "`\"0s\"`, negative durations and what is none are errors, and days (`\"7d\"`) are understood." + `
- ` + "Agents find `GC_CITY` and `GC_CITY_PATH` (the directory of the city), `GC_AGENT` (`dir/name`, or `dir/import.name`), and in a rig `GC_RIG` and `GC_RIG_ROOT`, beside what Coppice tells all its agents; there is no program `gc`." + `
- ` + "A city without agents is up, too: its packs may be for rigs that it does not have yet." + `

## Packs

Packs that are directories are read: those that ` + "`includes` and `imports`" + ` of the city, of its ` + "`[[rigs]]`" + ` and of other packs name, and the ` + "`pack.toml`" + ` beside a ` + "`city.toml`" + `. Their agents, providers, patches and orders count as if
the city had them; for each rig that names a pack, there are agents of its own. A pack at an address is named, and not read: clone it, and write the path of its directory.

| agent | is called |
|---|---|
| ` + "`mayor` of a pack that the city includes | `mayor`" + ` |
| ` + "`mayor` of a pack that the city imports as `town` | `town__mayor`" + ` |
| ` + "`picker` of a pack that the rig `hill` includes | `hill--picker`" + ` |
| ` + "`picker` of a pack that the rig `hill` imports as `town` | `hill--town__picker`" + ` |

An example is in [examples/city](../examples/city/city.toml).
`

// WriteReference writes the page on what of a city.toml is supported, in Markdown.
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

package event

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

//go:generate go run ./gendoc ../../docs/events.md

// pageHead is the reference up to the table of common fields.
const pageHead = "" +
	"# Events\n" +
	"\n" +
	"The daemon appends what happens to the event log in its store. `coppice events` shows the log, " +
	"orders fire on its\n" +
	"events ([orders.md](orders.md)), and the API streams it. This page is made from the code. It lists " +
	"all types of events.\n" +
	"\n" +
	"```sh\n" +
	"coppice events -n 20 -f                     # the last 20, and what follows\n" +
	"coppice events --type 'agent.*' --path app  # those of the agents below app\n" +
	"coppice events --type agent.crashed --since 12h --json\n" +
	"```\n" +
	"\n" +
	"A type is written in full or as a pattern: `*` stands for any characters, `?` for one, `[ab]` for " +
	"one of some. A type or\n" +
	"a pattern that no event can have is refused, with a suggestion: in `coppice events --type`, in the " +
	"API, and as `on` of an\n" +
	"order, with its place in the file. In an order of a `city.toml` it is a notice, since Gas City has " +
	"types of its own.\n" +
	"\n" +
	"With `--json` an event is an object on a line. Fields that do not apply are missing:\n" +
	"\n" +
	"| field | meaning |\n" +
	"|---|---|\n" +
	"| `seq` | its number in the log, from 1; no other event has it |\n" +
	"| `epoch` | the log in which `seq` counts; a log that was restored has another one |\n" +
	"| `time` | when it happened |\n" +
	"| `type` | one of the types below |\n" +
	"| `path` | the agent, supervisor or pool that it is about; `orders/NAME` for an order |\n" +
	"| `incarnation` | the incarnation that it is about |\n" +
	"| `actor` | the cause: `supervisor`, `controller`, `orders`, `user`, the name of a person, or the " +
	"path of an agent |\n" +
	"| `message` | a line for people |\n" +
	"| `data` | an object with fields that depend on the type; it may get more of them |\n" +
	"| `truncated` | how many bytes of `message` and `data` were cut |\n" +
	"\n" +
	"Fields of `data` that several types have:\n" +
	"\n" +
	"| field | meaning |\n" +
	"|---|---|\n"

// Page returns the reference of events, docs/events.md.
func Page() []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	for _, f := range commonFields() {
		name, doc, _ := strings.Cut(f, " ")
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, doc)
	}
	for _, s := range Catalogue() {
		fmt.Fprintf(&b, "\n## %s\n\n| type | when | data |\n|---|---|---|\n", s.Title)
		for _, e := range s.Entries {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Type, e.Doc, fields(e.Fields))
		}
	}
	b.WriteString("\nLogs of earlier versions may hold events of type `unknown`: " +
		"`agent.misbehaved` is their name now.\n")
	return b.Bytes()
}

// fields returns the fields of an entry as a cell of its table.
func fields(all []string) string {
	if len(all) == 0 {
		return "–"
	}
	var cells []string
	for _, f := range all {
		name, doc, _ := strings.Cut(f, " ")
		cell := "`" + name + "`"
		if !slices.Contains(commonFields(), f) {
			cell += " " + doc
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, "; ")
}

package event

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

//go:generate go run ./gendoc ../../docs/events.md

// WritePage writes the reference of events, docs/events.md.
func WritePage(w io.Writer) error {
	p := page{w: w}
	p.line("# Events\n")
	p.line("The daemon appends what happens to the event log in its store. `coppice events` shows " +
		"the log, orders fire on its")
	p.line("events ([orders.md](orders.md)), and the API streams it. This page is made from the code. It " +
		"lists all types of events.\n")
	p.line("```sh\ncoppice events -n 20 -f                     # the last 20, and what follows")
	p.line("coppice events --type 'agent.*' --path app  # those of the agents below app")
	p.line("coppice events --type agent.crashed --json\n```\n")
	p.line("A type is written in full or as a pattern: `*` stands for any characters, `?` for one, `[ab]` " +
		"for one of some. A type or")
	p.line("a pattern that no event can have is refused, with a suggestion: in `coppice events --type`, in " +
		"the API, and as `on` of an")
	p.line("order, with its place in the file. In an order of a `city.toml` it is a notice, since Gas " +
		"City has types of its own.\n")
	p.line("With `--json` an event is an object on a line. Fields that do not apply are missing:\n")
	p.line("| field | meaning |\n|---|---|")
	p.line("| `seq` | its number in the log, from 1; no other event has it |")
	p.line("| `epoch` | the log in which `seq` counts; a log that was restored has another one |")
	p.line("| `time` | when it happened |")
	p.line("| `type` | one of the types below |")
	p.line("| `path` | the agent, supervisor or pool that it is about; `orders/NAME` for an order |")
	p.line("| `incarnation` | the incarnation that it is about |")
	p.line("| `actor` | the cause: `supervisor`, `controller`, `orders`, `user`, the name of a person, " +
		"or the path of an agent |")
	p.line("| `message` | a line for people |")
	p.line("| `data` | an object with fields that depend on the type; it may get more of them |")
	p.line("| `truncated` | how many bytes of `message` and `data` were cut |\n")
	p.line("Fields of `data` that several types have:\n\n| field | meaning |\n|---|---|")
	for _, f := range shared() {
		name, doc, _ := strings.Cut(f, " ")
		p.line("| `%s` | %s |", name, doc)
	}
	p.line("")
	for _, s := range Catalogue() {
		p.line("## %s\n", s.Title)
		p.line("| type | when | data |\n|---|---|---|")
		for _, e := range s.Entries {
			p.line("| `%s` | %s | %s |", e.Type, e.Doc, fields(e.Fields))
		}
		p.line("")
	}
	p.line("Logs of earlier versions may hold events of type `unknown`: `agent.misbehaved` is their name now.")
	return p.err
}

// fields are those of an entry in a cell of its table.
func fields(all []string) string {
	var cells []string
	for _, f := range all {
		name, doc, _ := strings.Cut(f, " ")
		cell := "`" + name + "`"
		if !slices.Contains(shared(), f) {
			cell += " " + doc
		}
		cells = append(cells, cell)
	}
	if len(cells) == 0 {
		return "–"
	}
	return strings.Join(cells, "; ")
}

// page writes lines until one cannot be written.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

package config

import (
	"github.com/coppice-dev/coppice/internal/spec"
	jsonvalue "github.com/coppice-dev/coppice/internal/value"
)

const beliefTypes = "any, bool, int, float, string, list, map"

// beliefTable is one belief that is written as a table.
func beliefTable() table[spec.Belief] {
	return table[spec.Belief]{
		header: "[agent.beliefs]",
		doc: "What an agent keeps: named values that it reads and sets with `coppice agent belief`. Each key is " +
			"the name of a belief, with a plain value, which is then the initial one and fixes the type, or with a " +
			"table of the keys below. " +
			"An agent that declares beliefs can set no others; one that declares none may keep what it likes, and " +
			"all of that persists. A change of these holds from the next incarnation on. See [Beliefs](beliefs.md).",
		example: `[[agent]]
name = "query-monitor"
command = "./monitor.sh"

[agent.beliefs]
threshold = 100
check_count = { type = "int", persistent = true }
migrations = { type = "list", initial = ["0001"], persistent = true }
`,
		keys: []key[spec.Belief]{
			{row{name: "type", typ: beliefTypes, def: "that of `initial`",
				doc: "what it takes; anything else is refused. `any` takes null as well", also: []string{"kind"}},
				word(jsonvalue.ParseType, func(b *spec.Belief) *jsonvalue.Type { return &b.Type })},
			{row{name: "initial", typ: "value", def: "false, 0, \"\", [], {} or null, by `type`",
				doc: "what it is before it has been set", also: []string{"default", "value", "init"}},
				func(r *reader, v *value, into *spec.Belief) {
					if initial, ok := r.json(v); ok {
						into.Initial = initial
					}
				}},
			{row{name: "persistent", typ: "boolean", def: "false", doc: "it outlives restarts of the agent, of the " +
				"daemon and of the machine. Otherwise each incarnation begins with `initial`",
				also: []string{"persist", "durable"}},
				flag(func(b *spec.Belief) *bool { return &b.Persistent })},
		},
	}
}

// beliefs reads the table of an agent's beliefs.
func (r *reader) beliefs(v *value, into *agent) {
	if !r.want(v, isTable, "a table of beliefs") {
		return
	}
	for _, f := range v.fields {
		b := spec.Belief{Name: f.name}
		if f.kind != isTable {
			if initial, ok := r.json(f); ok {
				b.Initial, b.Type = initial, jsonvalue.Of(initial)
			}
			into.Beliefs = append(into.Beliefs, b)
			continue
		}
		before := len(r.errs)
		beliefTable().read(r, f, &b)
		switch {
		case len(r.errs) > before:
		case f.byName["type"] == nil && b.Initial == "":
			r.fail(f.at, f, `write type = "any" if it may be anything`,
				"the belief %s has neither type nor initial, expected at least one", bareKey(f.name))
		case f.byName["type"] == nil:
			b.Type = jsonvalue.Of(b.Initial)
		}
		into.Beliefs = append(into.Beliefs, b)
	}
}

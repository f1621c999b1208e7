package config

import (
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	jsonvalue "github.com/coppice-dev/coppice/internal/value"
)

const beliefTypes = "any, bool, int, float, string, list, map"

// beliefTable returns the table of one belief.
func beliefTable() toml.Table[spec.Belief] {
	return toml.Table[spec.Belief]{
		Header: "[agent.beliefs]",
		Doc: "The named values of an agent, which it reads and sets with `coppice agent belief`. Each key is the " +
			"name of a belief. Its value is either the initial value, which fixes the type, or a table of the " +
			"keys below. An agent that declares beliefs can set no others; an agent that declares none can set " +
			"any, and all of them persist. A change of this table takes effect with the next incarnation. See " +
			"[Beliefs](beliefs.md).",
		Example: `[[agent]]
name = "query-monitor"
command = "./monitor.sh"

[agent.beliefs]
threshold = 100
check_count = { type = "int", persistent = true }
migrations = { type = "list", initial = ["0001"], persistent = true }
`,
		Keys: []toml.Key[spec.Belief]{
			{Name: "type", Type: beliefTypes, Default: "that of `initial`",
				Doc: "the type of its values; others are refused. `any` takes null as well", Also: []string{"kind"},
				Read: toml.Word(jsonvalue.ParseType, func(b *spec.Belief) *jsonvalue.Type { return &b.Type })},
			{Name: "initial", Type: "value", Default: "false, 0, \"\", [], {} or null, by `type`",
				Doc: "the value before it has been set", Also: []string{"default", "value", "init"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.Belief) {
					if initial, ok := r.JSON(v); ok {
						into.Initial = initial
					}
				}},
			{Name: "persistent", Type: "boolean", Default: "false", Doc: "it survives restarts of the agent, the " +
				"daemon and the machine. Otherwise each incarnation begins with `initial`",
				Also: []string{"persist", "durable"},
				Read: toml.Bool(func(b *spec.Belief) *bool { return &b.Persistent })},
		},
	}
}

// readBeliefs reads the beliefs of an agent.
func readBeliefs(r *toml.Reader, v *toml.Value, into *agent) {
	if !r.Want(v, toml.KindTable, "a table of beliefs") {
		return
	}
	for _, f := range v.Fields {
		b := spec.Belief{Name: f.Name}
		if f.Kind != toml.KindTable {
			if initial, ok := r.JSON(f); ok {
				b.Initial, b.Type = initial, jsonvalue.Of(initial)
			}
			into.Beliefs = append(into.Beliefs, b)
			continue
		}
		before := r.Count()
		beliefTable().Read(r, f, &b)
		switch {
		case r.Count() > before:
		case f.Field("type") == nil && b.Initial == "":
			r.Fail(f, `write type = "any" if it may be anything`,
				"the belief %s has neither type nor initial, expected at least one", toml.BareKey(f.Name))
		case f.Field("type") == nil:
			b.Type = jsonvalue.Of(b.Initial)
		}
		into.Beliefs = append(into.Beliefs, b)
	}
}

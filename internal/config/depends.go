package config

// dependsOn is the key of what must be ready first.
func dependsOn[T any](when string, field func(*T) *[]string) key[T] {
	return key[T]{
		row{
			name: "depends_on", typ: "array of strings",
			doc: "names of agents and supervisors that must be ready " + when +
				"; one in a supervisor depends on what that depends on, too, and a supervisor is ready when all " +
				"agents in it are. See [Lifecycle](lifecycle.md)",
			also: []string{"after", "requires", "needs", "depends", "wants", "dependencies", "dependson"},
		},
		func(r *reader, v *value, into *T) {
			if names, ok := r.list(v, "an array of names"); ok {
				*field(into) = names
			}
		},
	}
}

package config

import "github.com/coppice-dev/coppice/internal/config/toml"

// dependsOn returns the key of what must be ready first.
func dependsOn[T any](when string, field func(*T) *[]string) toml.Key[T] {
	return toml.Key[T]{

		Name: "depends_on", Type: "array of strings",
		Doc: "names of agents and supervisors that must be ready " + when +
			"; one in a supervisor depends on what that depends on, too, and a supervisor is ready when all " +
			"agents in it are. See [Lifecycle](lifecycle.md)",
		Also: []string{"after", "requires", "needs", "depends", "wants", "dependencies", "dependson"},
		Read: func(r *toml.Reader, v *toml.Value, into *T) {
			if names, ok := r.List(v, "an array of names"); ok {
				*field(into) = names
			}
		},
	}
}

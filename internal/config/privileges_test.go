package config

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Settings that the system does not support are reported at their key.
func TestPrivilegesOfOtherSystems(t *testing.T) {
	for system, want := range map[string]int{"linux": 0, "darwin": 1, "freebsd": 1} {
		c := fileCheck{agent: &spec.Agent{NoNewPrivileges: true}, decl: 3}
		c.privileges(system)
		if len(c.problems) != want {
			t.Errorf("%s: %v", system, c.problems)
			continue
		}
		for _, p := range c.problems {
			if p.Decl != 3 || p.Path[0] != "no_new_privileges" || p.Hint == "" {
				t.Errorf("%s: %+v", system, p)
			}
		}
	}
}

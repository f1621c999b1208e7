package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// What an agent of a fleet declares, or has of its user or its account, is its own on each node.
func TestInherited(t *testing.T) {
	t.Setenv("TMPDIR", "/var/tmp")
	user := &account.Account{Name: "someone", Home: "/home/someone", Shell: "/bin/sh"}
	for name, c := range map[string]struct {
		as        Identity
		a         spec.Agent
		have, not string
	}{
		"declares one": {
			Identity{}, spec.Agent{Home: "/p", Env: map[string]string{"TZ": "UTC"}}, "PATH HOME TMPDIR", "TZ",
		},
		"has a user": {Identity{User: user}, spec.Agent{Home: "/p"}, "PATH TERM", "HOME SHELL USER TMPDIR"},
		"no fleet":   {Identity{}, spec.Agent{}, "", "PATH HOME TZ"},
	} {
		env, err := c.as.Environ(&c.a, proc.Self{Agent: "a", Incarnation: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range strings.Fields(c.have) {
			if !slices.Contains(env.Inherited, want) {
				t.Errorf("%s: %s is not inherited: %q", name, want, env.Inherited)
			}
		}
		for _, other := range strings.Fields(c.not) {
			if slices.Contains(env.Inherited, other) {
				t.Errorf("%s: %s is inherited", name, other)
			}
		}
	}
	before := Env{[]string{"HOME=/root", "PATH=/bin"}, []string{"HOME", "LANG", "PATH", "TZ"}}
	after := before.with([]string{"HOME=/root", "PATH=/bin", "X=1", "HOME=/spare", "TZ=UTC"})
	if want := []string{"LANG", "PATH"}; !slices.Equal(after.Inherited, want) || len(before.Inherited) != 4 {
		t.Errorf("with those of an account %q are inherited, want %q", after.Inherited, want)
	}
}

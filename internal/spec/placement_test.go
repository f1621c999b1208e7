package spec

import (
	"reflect"
	"strings"
	"testing"
)

func TestPlacementString(t *testing.T) {
	for _, c := range []struct {
		placement Placement
		want      string
	}{
		{Placement{}, ""},
		{Placement{Labels: map[string]string{}}, ""},
		{Placement{Node: "a"}, "only on node a"},
		{Placement{Labels: map[string]string{"zone": "eu", "gpu": ""}}, "only on nodes with gpu=, zone=eu"},
		{Placement{Spread: "zone"}, "spread evenly by zone"},
		{Placement{MaxPerNode: 3}, "at most 3 on each node"},
		{Placement{Labels: map[string]string{"zone": "eu"}, Spread: "rack", MaxPerNode: 1},
			"only on nodes with zone=eu; spread evenly by rack; at most 1 on each node"},
	} {
		if got := c.placement.String(); got != c.want || c.placement.IsZero() != (c.want == "") {
			t.Errorf("%q, %v, want %q", got, c.placement.IsZero(), c.want)
		}
	}
}

// Sources other than coppice.toml are held to the same rules.
func TestCheckPlacement(t *testing.T) {
	for _, c := range []struct {
		placement Placement
		at        string // the field of the only problem, or
		ok        bool
	}{
		{Placement{}, "", true},
		{Placement{Labels: map[string]string{}}, "", true},
		{Placement{MaxPerNode: MaxPerNode}, "", true},
		{Placement{MaxPerNode: -1}, "max_per_node", false},
		{Placement{MaxPerNode: MaxPerNode + 1}, "max_per_node", false},
		{Placement{Node: "\x00"}, "node", false},
		{Placement{Labels: map[string]string{"zone": "\x00"}}, "labels.zone", false},
		{Placement{Spread: strings.Repeat("\xff", 1<<20)}, "spread", false},
		{Placement{Node: "a", Spread: "zone"}, "spread", false},
	} {
		tree, problems := Assemble(Node{Name: "r"},
			[]Decl{{Agent: &Agent{Name: "a", Command: []string{"x"}, Placement: c.placement}}})
		switch {
		case c.ok && (len(problems) > 0 || tree == nil):
			t.Errorf("%v: %v", c.placement, problems)
		case c.ok:
			got := tree.Root.Children[0].Agent.Placement
			if len(c.placement.Labels) == 0 {
				c.placement.Labels = nil // so that {} is no change
			}
			if !reflect.DeepEqual(got, c.placement) {
				t.Errorf("%+v, want %+v", got, c.placement)
			}
		case len(problems) != 1 || strings.Join(problems[0].Path, ".") != c.at:
			t.Errorf("%.80v: %v, want one at %s", c.placement, problems, c.at)
		case len(problems[0].Message) > 500:
			t.Errorf("%.80v: a message of %d bytes", c.placement, len(problems[0].Message))
		}
	}
}

package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func label(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestChoose(t *testing.T) {
	three := []Node{{Name: "c"}, {Name: "a"}, {Name: "b"}}
	zones := []Node{{Name: "a", Labels: label("zone", "1")}, {Name: "b", Labels: label("zone", "1")},
		{Name: "c", Labels: label("zone", "2")}, {Name: "d"}}
	for name, c := range map[string]struct {
		nodes  []Node
		placed string // such as "x@a y@a", all of group g
		want   Want
		node   string // or
		err    string
	}{
		"nothing placed":      {nodes: three, node: "a"},
		"the emptiest":        {nodes: three, placed: "x@a y@a z@b", node: "c"},
		"no nodes":            {err: "no node takes p: there are none"},
		"a named node":        {nodes: three, want: Want{Node: "b"}, node: "b"},
		"a node that is gone": {nodes: three, want: Want{Node: "x"}, err: "no node takes p: there is no node x"},
		"a named node is lost": {nodes: []Node{{Name: "a"}, {Name: "b", State: Lost}}, want: Want{Node: "b"},
			err: "no node takes p: b is lost"},
		"it stays":   {nodes: three, placed: "x@a y@a p@a", node: "a"},
		"it must go": {nodes: three, placed: "p@b", want: Want{Node: "c"}, node: "c"},
		"drained": {nodes: []Node{{Name: "a", State: Draining}, {Name: "b"}}, placed: "p@a x@b y@b",
			node: "b"},
		"lost": {nodes: []Node{{Name: "a", State: Lost}, {Name: "b"}}, placed: "p@a", node: "b"},
		"all of them": {nodes: []Node{{Name: "a", State: Lost}, {Name: "b", State: Draining}},
			err: "no node takes p: a is lost; b is being drained"},
		"its node was removed": {nodes: three, placed: "p@z", node: "a"},
		"label":                {nodes: zones, want: Want{Labels: label("zone", "2")}, node: "c"},
		"no such label": {nodes: zones, want: Want{Labels: label("zone", "3")},
			err: `no node takes p: a has the label zone = "1", not "3"; b has the label zone = "1", not "3"; c has the label zone = "2", not "3"; d has no label zone`},
		"full": {nodes: []Node{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 1}}, placed: "x@a",
			node: "b"},
		"all full": {nodes: []Node{{Name: "a", Capacity: 1}}, placed: "x@a",
			err: "no node takes p: a is full, with 1 of 1 agents"},
		"its own place counts": {nodes: []Node{{Name: "a", Capacity: 1}}, placed: "p@a", node: "a"},
		"by share": {nodes: []Node{{Name: "a", Capacity: 2}, {Name: "b", Capacity: 100}},
			placed: "x@a y@b z@b", want: Want{Group: "h"}, node: "b"},
		"max_per_node": {nodes: three, placed: "x@a y@b z@b v@c", want: Want{MaxPerNode: 2}, node: "a"},
		"max_per_node reached": {nodes: three[:1], placed: "x@c", want: Want{MaxPerNode: 1},
			err: "no node takes p: c has 1 of max_per_node = 1"},
		"of another group":   {nodes: three[:1], placed: "x@c", want: Want{MaxPerNode: 1, Group: "h"}, node: "c"},
		"over max_per_node":  {nodes: three[:1], placed: "p@c", want: Want{MaxPerNode: 1}, node: "c"},
		"spread over zones":  {nodes: zones, placed: "x@a", want: Want{Spread: "zone"}, node: "c"},
		"then within a zone": {nodes: zones, placed: "x@a y@c", want: Want{Spread: "zone"}, node: "b"},
		"spread by nothing": {nodes: three[:1], want: Want{Spread: "zone"},
			err: "no node takes p: c has no label zone, by which the agents are spread"},
		"spread only its group": {nodes: zones, placed: "x@c y@c", want: Want{Spread: "zone", Group: "h"}, node: "a"},
	} {
		f := NewFleet()
		f.SetNodes(c.nodes)
		for _, p := range strings.Fields(c.placed) {
			path, node, _ := strings.Cut(p, "@")
			f.Place(path, "g", node)
		}
		c.want.Path = "p"
		if c.want.Group == "" {
			c.want.Group = "g"
		}
		node, err := f.Choose(c.want)
		switch {
		case err == nil && (node != c.node || c.err != ""):
			t.Errorf("%s: %s, want %s %s", name, node, c.node, c.err)
		case err != nil && err.Error() != c.err:
			t.Errorf("%s: %v, want %s %s", name, err, c.node, c.err)
		}
	}
	many := &NoneError{Path: "p"}
	for i := range 20 {
		many.Reasons = append(many.Reasons, Reason{fmt.Sprint("n", i), "is lost"})
	}
	if got := many.Error(); !strings.HasSuffix(got, "n4 is lost; and 15 more") {
		t.Error(got)
	}
}

// Whatever happens, a choice is one that the node takes, there is one if there can be, places are counted right, and a
// group that is placed at once is spread evenly.
func TestModel(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	zones := rapid.SampledFrom([]string{"", "1", "2"})
	paths := rapid.StringMatching("[p-t][0-3]")
	groups := rapid.SampledFrom([]string{"g", "h"})
	node := rapid.Custom(func(t *rapid.T) Node {
		n := Node{Name: names.Draw(t, "name"), Labels: map[string]string{},
			Capacity: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "capacity"),
			State:    rapid.SampledFrom([]State{Ready, Ready, Ready, Draining, Lost}).Draw(t, "state")}
		if zone := zones.Draw(t, "zone"); zone != "" {
			n.Labels["zone"] = zone
		}
		return n
	})
	rapid.Check(t, func(t *rapid.T) {
		f, places, nodes := NewFleet(), map[string]place{}, map[string]Node{}
		count := func(match func(string, place) bool) (n int) {
			for path, p := range places {
				if match(path, p) {
					n++
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"nodes": func(t *rapid.T) {
				clear(nodes)
				all := rapid.SliceOfNDistinct(node, 0, 5, func(n Node) string { return n.Name }).Draw(t, "nodes")
				for _, n := range all {
					nodes[n.Name] = n
				}
				f.SetNodes(all)
			},
			"free": func(t *rapid.T) {
				path := paths.Draw(t, "path")
				delete(places, path)
				f.Free(path)
			},
			"choose": func(t *rapid.T) {
				w := Want{Path: paths.Draw(t, "path"), Group: groups.Draw(t, "group"),
					MaxPerNode: rapid.IntRange(0, 2).Draw(t, "max")}
				if rapid.Bool().Draw(t, "spread") {
					w.Spread = "zone"
				}
				if zone := zones.Draw(t, "label"); zone != "" {
					w.Labels = label("zone", zone)
				}
				if rapid.IntRange(0, 4).Draw(t, "named") == 0 {
					w.Node = names.Draw(t, "node")
				}
				takes := map[string]bool{}
				for name, n := range nodes {
					others := count(func(path string, p place) bool { return path != w.Path && p.node == name })
					group := count(func(path string, p place) bool {
						return path != w.Path && p.node == name && p.group == w.Group
					})
					takes[name] = n.State == Ready && (n.Capacity == 0 || others < n.Capacity) &&
						(w.MaxPerNode == 0 || group < w.MaxPerNode) && (w.Node == "" || w.Node == name) &&
						(w.Spread == "" || n.Labels["zone"] != "") &&
						(w.Labels == nil || n.Labels["zone"] == w.Labels["zone"])
				}
				chosen, err := f.Choose(w)
				mine := places[w.Path].node
				to, why := f.Move(w)
				switch {
				case to == "" && why == "" && (mine == "" || takes[mine] || nodes[mine].Name == "" || err != nil):
				case to == "" && why == "" && nodes[mine].State == Lost: // it ends there
				case to == "" && why == "" && nodes[mine].State == Ready: // it is full, or has another reason to stay
					if w.Node != "" && w.Node != mine ||
						w.Labels != nil && nodes[mine].Labels["zone"] != w.Labels["zone"] {
						t.Fatalf("%s stays on %s, want %+v", w.Path, mine, w)
					}
				case to == "" || why == "" || takes[mine] || to != chosen || err != nil || to == mine:
					t.Fatalf("%s moves from %s to %q: %s; chosen: %s, %v", w.Path, mine, to, why, chosen, err)
				}
				var none *NoneError
				switch {
				case errors.As(err, &none):
					if slices.Contains(slices.Collect(maps.Values(takes)), true) ||
						w.Node == "" && len(none.Reasons) != len(nodes) || w.Node != "" && len(none.Reasons) > 1 {
						t.Fatalf("%v, and %v", err, takes)
					}
					return
				case !takes[chosen]:
					t.Fatalf("%s was chosen: %v", chosen, takes)
				case takes[places[w.Path].node] && chosen != places[w.Path].node:
					t.Fatalf("%s moves from %s to %s", w.Path, places[w.Path].node, chosen)
				}
				f.Place(w.Path, w.Group, chosen)
				places[w.Path] = place{w.Group, chosen}
			},
			"": func(t *rapid.T) {
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					got, want := f.On(name), count(func(_ string, p place) bool { return p.node == name })
					if got != want || got != len(f.PlacedOn(name)) {
						t.Fatalf("%d on %s, want %d", got, name, want)
					}
				}
				for path, p := range places {
					if f.Of(path) != p.node {
						t.Fatalf("%s is on %s, want %s", path, f.Of(path), p.node)
					}
				}
			},
		})
	})
	rapid.Check(t, func(t *rapid.T) {
		f := NewFleet()
		n, agents := rapid.IntRange(1, 5).Draw(t, "nodes"), rapid.IntRange(1, 30).Draw(t, "agents")
		var nodes []Node
		for i := range n {
			nodes = append(nodes, Node{Name: fmt.Sprint("n", i)})
		}
		f.SetNodes(nodes)
		for i := range agents {
			w := Want{Path: fmt.Sprint("p", i), Group: "g"}
			chosen, err := f.Choose(w)
			if err != nil {
				t.Fatal(err)
			}
			f.Place(w.Path, w.Group, chosen)
		}
		for i := range n {
			if got := f.On(fmt.Sprint("n", i)); got != agents/n && got != agents/n+1 {
				t.Fatalf("%d of %d agents on one of %d nodes", got, agents, n)
			}
		}
	})
}

// What makes an agent move, and what does not.
func TestMove(t *testing.T) {
	b := Node{Name: "b", Labels: label("zone", "2"), Capacity: 1}
	for name, c := range map[string]struct {
		on   Node // the node a
		want Want
		to   string // "b: why"
	}{
		"it stays":            {},
		"drained":             {on: Node{State: Draining}, to: "b: a is being drained"},
		"lost":                {on: Node{State: Lost}},
		"pinned elsewhere":    {want: Want{Node: "b"}, to: "b: it may run only there"},
		"pinned where it is":  {want: Want{Node: "a"}},
		"pinned to nothing":   {want: Want{Node: "x"}},
		"pinned, and drained": {on: Node{State: Draining}, want: Want{Node: "a"}},
		"other labels":        {want: Want{Labels: label("zone", "2")}, to: "b: a has no label zone"},
		"labels of none":      {want: Want{Labels: label("zone", "3")}},
		"spread": {want: Want{Spread: "zone"},
			to: "b: a has no label zone, by which the agents are spread"},
		"over capacity":     {on: Node{Capacity: 1}},
		"over max_per_node": {want: Want{MaxPerNode: 1}},
	} {
		f := NewFleet()
		c.on.Name = "a"
		f.SetNodes([]Node{c.on, b})
		f.Place("p", "g", "a")
		f.Place("x", "g", "a")
		f.Place("y", "g", "a")
		c.want.Path, c.want.Group = "p", "g"
		to, why := f.Move(c.want)
		if got := strings.TrimSuffix(to+": "+why, ": "); got != c.to {
			t.Errorf("%s: %q, want %q", name, got, c.to)
		}
		if to, why := f.Move(Want{Path: "new", Group: "g"}); to != "" || why != "" {
			t.Errorf("%s: one without a place moves to %s: %s", name, to, why)
		}
	}
}

// BenchmarkChoose places 10,000 agents on 20 nodes, as when all of them are lost at once.
func BenchmarkChoose(b *testing.B) {
	var nodes []Node
	for i := range 20 {
		nodes = append(nodes, Node{Name: fmt.Sprint("n", i), Capacity: 1000, Labels: label("zone", fmt.Sprint(i%3))})
	}
	for b.Loop() {
		f := NewFleet()
		f.SetNodes(nodes)
		for i := range 10_000 {
			w := Want{Path: fmt.Sprint("p", i), Group: fmt.Sprint("g", i/100), Spread: "zone", MaxPerNode: 10}
			chosen, err := f.Choose(w)
			if err != nil {
				b.Fatal(err)
			}
			f.Place(w.Path, w.Group, chosen)
		}
	}
}

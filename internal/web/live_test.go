package web

import (
	"html/template"
	"reflect"
	"testing"
)

// Only what the browser does not have is sent.
func TestCompare(t *testing.T) {
	of := func(parts ...part) *page { return &page{parts: parts} }
	row := func(id, html string) part { return part{id: id, list: "rows", html: template.HTML(html)} }
	first := of(part{id: "count", html: "2"}, row("a", "A"), row("b", "B"))
	st := &stream{have: digest(first.parts)}
	send := func(p *page) patch {
		changes := patch{Parts: map[string]template.HTML{}, Lists: map[string][]string{}}
		st.compare(p, &changes)
		return changes
	}
	type (
		parts = map[string]template.HTML
		lists = map[string][]string
	)
	for i, step := range []struct {
		page *page
		want patch
	}{
		{first, patch{Parts: parts{}, Lists: lists{}}},
		{of(part{id: "count", html: "2"}, row("a", "A2"), row("b", "B")),
			patch{Parts: parts{"a": "A2"}, Lists: lists{}}},
		{of(part{id: "count", html: "3"}, row("b", "B"), row("c", "C"), row("a", "A2")),
			patch{Parts: parts{"count": "3", "c": "C"}, Lists: lists{"rows": {"b", "c", "a"}}}},
		{of(part{id: "count", html: "0"}), patch{Parts: parts{"count": "0"}, Lists: lists{"rows": {}}}},
		{of(part{id: "count", html: "0"}), patch{Parts: parts{}, Lists: lists{}}},
	} {
		if got := send(step.page); !reflect.DeepEqual(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}

	// A browser that has something else gets everything.
	for _, have := range []string{"", "another"} {
		st = &stream{have: have}
		if got := send(first); len(got.Parts) != 3 || !reflect.DeepEqual(got.Lists, lists{"rows": {"a", "b"}}) {
			t.Errorf("with %q: %v", have, got)
		}
	}
}

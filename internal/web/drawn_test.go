package web

import (
	"errors"
	"fmt"
	"html/template"
	"testing"
)

// A part is rendered once for each version, and what fails is not kept.
func TestDrawn(t *testing.T) {
	var d drawn
	rendered := 0
	get := func(name string, version any) template.HTML {
		html, err := d.get(name, version, func() (template.HTML, error) {
			rendered++
			return template.HTML(fmt.Sprint(name, version)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return html
	}
	for i, step := range []struct {
		name     string
		version  any
		rendered int
	}{{"a", 1, 1}, {"a", 1, 1}, {"b", 1, 2}, {"a", 2, 3}, {"a", 1, 4}, {"b", 1, 4}, {"b", "1", 5}} {
		if got := get(step.name, step.version); string(got) != fmt.Sprint(step.name, step.version) || rendered != step.rendered {
			t.Errorf("step %d: %s, rendered %d times", i, got, rendered)
		}
	}
	failed := errors.New("no luck")
	if _, err := d.get("a", 3, func() (template.HTML, error) { return "", failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if get("a", 3); rendered != 6 {
		t.Error("a failure was kept")
	}
	for i := range maxDrawn + 10 {
		get(fmt.Sprint(i), 0)
	}
	if len(d.parts) > maxDrawn {
		t.Errorf("%d parts", len(d.parts))
	}
}

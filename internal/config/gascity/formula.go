package gascity

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// formula replaces the formula of an order by a task. The text of the task lists the steps.
func (c *city) formula(t *toml.Value, l layer) {
	from := t.Field("formula")
	if from == nil || from.Kind != toml.KindString || spec.CheckName(from.Text) != "" || t.Field("task") != nil {
		return // the reader of orders reports it
	}
	f := c.findFormula(from.Text, l.rig)
	if f == nil {
		c.r.Notice(from, "there is no %s.toml in formulas/: the task has just that name", from.Text)
		return
	}
	task := toml.DeriveTable(from, "task")
	setText(task, from, "title", from.Text)
	putIfSet(task, toml.Derive(from, toml.KindString, "text", formulaText(f)))
	t.Remove("formula")
	t.Put(task)
}

// findFormula returns the file of a formula from the last layer of the city or of a rig that
// has one, or nil.
func (c *city) findFormula(name string, rig *toml.Value) (found *toml.Value) {
	for _, l := range c.layers {
		if l.rig != nil && l.rig != rig {
			continue
		}
		for _, end := range []string{".toml", ".formula.toml"} {
			path := filepath.Join(l.dir, "formulas", name+end)
			if f := c.readFormula(path); f != nil {
				found = f
			}
		}
	}
	return found
}

// readFormula reads a file once. It returns nil if the file is missing or cannot be used.
func (c *city) readFormula(path string) *toml.Value {
	f, known := c.formulas[path]
	if known {
		return f
	}
	c.g.WatchFile(path)
	if exists(path) {
		src, err := c.g.Read(path, toml.Advice{Large: "split the formula"})
		if err == nil {
			f, err = toml.Parse(src)
		}
		if err != nil {
			c.r.Add(err)
		}
	}
	c.formulas[path] = f
	return f
}

// formulaText returns the description of a formula and its steps.
func formulaText(f *toml.Value) string {
	var b strings.Builder
	paragraph := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString(text + "\n\n")
		}
	}
	paragraph(toml.TextOf(f, "description"))
	for i, s := range tablesOf(f.Field("steps")) {
		title := toml.TextOf(s, "title")
		if id := toml.TextOf(s, "id"); title == "" {
			title = id
		} else if id != "" {
			title += " (" + id + ")"
		}
		if needs := below(s, "needs"); needs != nil && needs.Kind == toml.KindArray && len(needs.Elements) > 0 {
			var ids []string
			for _, e := range needs.Elements {
				ids = append(ids, e.Text)
			}
			title += ", after " + strings.Join(ids, ", ")
		}
		paragraph(fmt.Sprintf("%d. %s\n%s", i+1, title, strings.TrimSpace(toml.TextOf(s, "description"))))
	}
	return strings.TrimSpace(b.String())
}

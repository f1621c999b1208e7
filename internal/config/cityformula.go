package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// formula gives an order the task that its formula describes: one, with the
// steps in its text.
func (c *city) formula(t *value, l layer) {
	from := t.byName["formula"]
	if from == nil || from.kind != isString || spec.CheckName(from.text) != "" || t.byName["task"] != nil {
		return // which is told later
	}
	f := c.formulaCalled(from.text, l.rig)
	if f == nil {
		c.r.notice(from, "there is no %s.toml in formulas/: the task has just that name", from.text)
		return
	}
	task := madeTable(from, "task")
	task.put(made(from, isString, "title", from.text))
	give(task, made(from, isString, "text", formulaText(f)))
	t.remove("formula")
	t.put(task)
}

// formulaCalled is the file of a formula: that of the last layer that has one,
// among those of the city and of a rig; nil if there is none.
func (c *city) formulaCalled(name string, rig *value) (found *value) {
	for _, l := range c.layers {
		if l.rig != nil && l.rig != rig {
			continue
		}
		for _, end := range []string{".toml", ".formula.toml"} {
			path := filepath.Join(l.dir, "formulas", name+end)
			if f := c.formulaIn(path); f != nil {
				found = f
			}
		}
	}
	return found
}

// formulaIn reads a file once; nil if there is none, or it cannot be used.
func (c *city) formulaIn(path string) *value {
	f, known := c.formulas[path]
	if known {
		return f
	}
	c.g.watchFile(path)
	if exists(path) {
		src, err := c.g.read(path, advice{large: "split the formula"})
		if err == nil {
			f, err = parse(src)
		}
		if err != nil {
			c.r.add(err)
		}
	}
	c.formulas[path] = f
	return f
}

// formulaText is what a formula says, with its steps one below the other.
func formulaText(f *value) string {
	var b strings.Builder
	paragraph := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString(text + "\n\n")
		}
	}
	paragraph(textOf(f, "description"))
	for i, s := range tablesOf(f.byName["steps"]) {
		title := textOf(s, "title")
		if id := textOf(s, "id"); title == "" {
			title = id
		} else if id != "" {
			title += " (" + id + ")"
		}
		if needs := below(s, "needs"); needs != nil && needs.kind == isArray && len(needs.elements) > 0 {
			var ids []string
			for _, e := range needs.elements {
				ids = append(ids, e.text)
			}
			title += ", after " + strings.Join(ids, ", ")
		}
		paragraph(fmt.Sprintf("%d. %s\n%s", i+1, title, strings.TrimSpace(textOf(s, "description"))))
	}
	return strings.TrimSpace(b.String())
}

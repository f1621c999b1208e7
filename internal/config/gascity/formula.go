package gascity

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// formulas reads the files of formulas.
type formulas struct {
	r      *toml.Reader
	g      *fileset.Set
	layers []layer
	files  map[string]*toml.Value // by path; nil for a file that cannot be used
}

// replace replaces the formula of an order by a task. The text of the task lists the steps.
func (fs *formulas) replace(t *toml.Value, l layer) {
	from := t.Field("formula")
	if from == nil || from.Kind != toml.KindString || spec.CheckName(from.Text) != "" || t.Field("task") != nil {
		return // the reader of orders reports it
	}
	f := fs.find(from.Text, l.rig)
	if f == nil {
		fs.r.Notice(from, "there is no %s.toml in formulas/: the task has just that name", from.Text)
		return
	}
	task := toml.DeriveTable(from, "task")
	setText(task, from, "title", from.Text)
	putIfSet(task, toml.Derive(from, toml.KindString, "text", formulaText(f)))
	t.Remove("formula")
	t.Put(task)
}

// find returns the file of a formula from the last layer of the city or of a rig that has one,
// or nil.
func (fs *formulas) find(name string, rig *toml.Value) (found *toml.Value) {
	for _, l := range fs.layers {
		if l.rig != nil && l.rig != rig {
			continue
		}
		for _, end := range []string{".toml", ".formula.toml"} {
			path := filepath.Join(l.dir, "formulas", name+end)
			if f := fs.read(path); f != nil {
				found = f
			}
		}
	}
	return found
}

// read reads a file once. It returns nil if the file is missing or cannot be used.
func (fs *formulas) read(path string) *toml.Value {
	f, known := fs.files[path]
	if known {
		return f
	}
	fs.g.WatchFile(path)
	if exists(path) {
		src, err := fs.g.Read(path, toml.Advice{Large: "split the formula"})
		if err == nil {
			f, err = toml.Parse(src)
		}
		if err != nil {
			fs.r.Add(err)
		}
	}
	fs.files[path] = f
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

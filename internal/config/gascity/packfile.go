package gascity

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// document parses a file, which is read at most once. It returns nil if the file cannot be
// used. A missing file is an error only if m, the reference to it, is not nil.
func (p *packs) document(path string, m *packRef) *toml.Value {
	src, known := p.sources[path]
	if !known && m == nil && !exists(path) {
		p.g.WatchFile(path)
		return nil
	}
	if !known {
		var err *toml.Error
		src, err = p.read(path, m)
		if err != nil {
			p.r.Add(err)
		}
		p.sources[path] = src
	}
	if src == nil {
		return nil
	}
	before := p.size
	if p.size += len(src.Data); p.size > MaxPackBytes {
		if before <= MaxPackBytes {
			p.r.Add(src.ErrorAt(0, "", "name fewer packs, or fewer rigs", fmt.Sprintf("the packs have more than "+
				"%d bytes, counting each once per rig, expected at most that", MaxPackBytes)))
		}
		return nil
	}
	document, err := toml.Parse(src)
	if err != nil {
		p.r.Add(err)
		p.sources[path] = nil // reported once
		return nil
	}
	return document
}

// read reads a file. An error about opening a referenced pack is reported at the reference.
func (p *packs) read(path string, m *packRef) (*toml.Source, *toml.Error) {
	src, err := p.g.Read(path, toml.Advice{Large: "split the pack"})
	switch {
	case err == nil || m == nil || err.Line > 0:
		return src, err
	case errors.Is(err.Err, fs.ErrNotExist):
		p.r.Fail(m.at, "check the path; it is relative to "+spec.Quote(p.g.Show(m.base)),
			"there is no %s in %s, expected a pack", packName, spec.Quote(p.g.Show(filepath.Dir(path))))
	default:
		p.r.Fail(m.at, err.Hint, "%s %s", spec.Quote(err.File), err.Message)
	}
	return nil, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// included returns the references in a list of packs.
func (p *packs) included(list, document *toml.Value, base string) (all []packRef) {
	if list == nil || !p.r.Want(list, toml.KindArray, "an array of paths") {
		return nil
	}
	for _, e := range list.Elements {
		path, ok := p.r.Text(e, "the path of a pack")
		if !ok {
			continue
		}
		if source := below(document, "packs", path, "source"); source != nil &&
			p.r.Want(source, toml.KindString, "a string") {
			e = toml.Derive(e, toml.KindString, e.Name, source.Text) // a name in [packs]
		}
		all = append(all, packRef{at: e, base: base})
	}
	return all
}

// imported returns the references in [imports], sorted by name.
func (p *packs) imported(imports *toml.Value, base string) (all []packRef) {
	if imports == nil || !p.r.Want(imports, toml.KindTable, "a table") {
		return nil
	}
	fields := slices.Clone(imports.Fields)
	slices.SortFunc(fields, func(a, b *toml.Value) int { return cmp.Compare(a.Name, b.Name) })
	for _, i := range fields {
		if !p.r.Want(i, toml.KindTable, "a table") {
			continue
		}
		p.schema.inspect(i, "[imports.*]")
		source := i.Field("source")
		if source == nil {
			p.r.Fail(i, "", "[imports.%s] without source, expected one (string)", i.Name)
			continue
		}
		if _, ok := p.r.Text(source, "the path of a pack"); ok {
			all = append(all, packRef{source, base, i.Name, textIs(i, "export", toml.KindBool, "true"),
				textIs(i, "transitive", toml.KindBool, "false")})
		}
	}
	return all
}

// find returns the directory of a pack. It reports false if there is none.
func (p *packs) find(m packRef) (string, bool) {
	path := m.at.Text
	switch {
	case !p.g.CanRead():
		p.r.Fail(m.at, "", "packs cannot be followed here, expected a file without packs")
		return "", false
	case isRemote(path):
		p.remote++
		p.r.Notice(m.at, "%s is not supported: packs are read from directories; clone it, and write "+
			"the path of its directory", spec.Quote(path))
		return "", false
	case path == "~" || strings.HasPrefix(path, "~/"):
		p.r.Fail(m.at, "write the whole path", "%s: ~ is not expanded", spec.Quote(path))
		return "", false
	}
	return p.path(path, m.base), true
}

func isRemote(path string) bool {
	return slices.ContainsFunc([]string{"git@", "ssh://", "git://", "http://", "https://", "file://", "github.com/"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// meta checks [pack] and returns the name of the pack.
func (p *packs) meta(document *toml.Value) (name string, meta *toml.Value) {
	meta = p.schema.table(document, "pack")
	if meta == nil {
		if document.Field("pack") == nil {
			p.r.Fail(document, "write [pack] with name and schema",
				"there is no table [pack], expected one")
		}
		return "", nil
	}
	for _, key := range []string{"name", "schema"} {
		v := meta.Field(key)
		switch {
		case v == nil:
			p.r.Fail(meta, "", "[pack] without %s, expected one", key)
		case key == "name":
			name, _ = p.r.Text(v, "a string")
		default:
			p.r.Integer(v, 1, 2, "1 or 2")
		}
	}
	return name, meta
}

// agentsOf returns the agents of a pack: those in its file, and those of other directories in
// agents/.
func (p *packs) agentsOf(document *toml.Value, dir string) []*toml.Value {
	declared := elements(p.r, document, "agent")
	known := map[string]bool{}
	for _, a := range declared {
		known[toml.TextOf(a, "name")] = true
		p.origins[a] = origin{dir: dir}
	}
	names, err := p.g.Match(filepath.Join(dir, "agents"), "*", true, fileset.MaxIncludes, fileset.MaxIncludes)
	if err != nil {
		p.r.Add(&toml.Error{File: p.g.Show(filepath.Join(dir, "agents")),
			Message: "cannot be searched: " + toml.Reason(err).Error()})
	}
	slices.Sort(names)
	for _, name := range names {
		if known[name] || name[0] == '_' {
			continue
		}
		in := filepath.Join(dir, "agents", name)
		path := filepath.Join(in, "agent.toml")
		a := p.document(path, nil)
		switch {
		case a == nil && exists(path):
			continue // document has reported it
		case a == nil && !slices.ContainsFunc([]string{"prompt.template.md", "prompt.md.tmpl", "prompt.md"},
			func(prompt string) bool { return exists(filepath.Join(in, prompt)) }):
			continue
		case a == nil: // the directory may contain only a prompt
			a = toml.NewTable(toml.NewSource(p.g.Show(in), nil), "", 0, nil)
		}
		if own := a.Field("name"); own != nil && toml.TextOf(a, "name") != name {
			p.r.Fail(own, "remove it, or rename the directory",
				"name is %s in a directory called %s, expected the same", toml.Format(own), spec.Quote(name))
		}
		a.Remove("name")
		setText(a, a, "name", name)
		if names := filepath.Join(in, "namepool.txt"); a.Field("namepool") == nil && exists(names) {
			setText(a, a, "namepool", names)
		}
		p.origins[a] = origin{dir: dir}
		declared = append(declared, a)
	}
	return declared
}

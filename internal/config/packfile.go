package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// document parses a file anew; nil if it cannot be used, or if there is none
// and nobody has asked for it.
func (p *packs) document(path string, m *mention) *value {
	src, known := p.sources[path]
	if !known && m == nil && !exists(path) {
		p.g.watchFile(path)
		return nil
	}
	if !known {
		var err *Error
		src, err = p.read(path, m)
		if err != nil {
			p.r.add(err)
		}
		p.sources[path] = src
	}
	if src == nil {
		return nil
	}
	before := p.size
	if p.size += len(src.data); p.size > maxPackBytes {
		if before <= maxPackBytes {
			p.r.add(src.errorAt(0, "", "name fewer packs, or fewer rigs", fmt.Sprintf("the packs come to more than "+
				"%d bytes, where each counts for every rig that it is in, expected at most that", maxPackBytes)))
		}
		return nil
	}
	document, err := parse(src)
	if err != nil {
		p.r.add(err)
		p.sources[path] = nil // told once
		return nil
	}
	return document
}

// read reads a file. What is wrong with one that was named is told where it was.
func (p *packs) read(path string, m *mention) (*source, *Error) {
	src, err := p.g.read(path, advice{large: "split the pack"})
	switch {
	case err == nil || m == nil || err.Line > 0:
		return src, err
	case errors.Is(err.Err, fs.ErrNotExist):
		p.r.fail(m.at.at, m.at, "check the path; it is relative to "+spec.Quote(p.g.show(m.base)),
			"there is no %s in %s, expected a pack", PackName, spec.Quote(p.g.show(filepath.Dir(path))))
	default:
		p.r.fail(m.at.at, m.at, err.Hint, "%s %s", spec.Quote(err.File), err.Message)
	}
	return nil, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// included are the packs of a list.
func (p *packs) included(list, document *value, base string) (all []mention) {
	if list == nil || !p.r.want(list, isArray, "an array of paths") {
		return nil
	}
	for _, e := range list.elements {
		path, ok := p.r.text(e, "the path of a pack")
		if !ok {
			continue
		}
		if source := below(document, "packs", path, "source"); source != nil && p.r.want(source, isString, "a string") {
			e = made(e, isString, e.name, source.text) // a pack that [packs] names
		}
		all = append(all, mention{at: e, base: base})
	}
	return all
}

// imported are the packs of [imports], by their names.
func (p *packs) imported(imports *value, base string) (all []mention) {
	if imports == nil || !p.r.want(imports, isTable, "a table") {
		return nil
	}
	fields := slices.Clone(imports.fields)
	slices.SortFunc(fields, func(a, b *value) int { return cmp.Compare(a.name, b.name) })
	for _, i := range fields {
		if !p.r.want(i, isTable, "a table") {
			continue
		}
		p.inspect(i, "[imports.*]")
		source := i.byName["source"]
		if source == nil {
			p.r.fail(i.at, i, "", "[imports.%s] without source, expected one (string)", i.name)
			continue
		}
		if _, ok := p.r.text(source, "the path of a pack"); ok {
			all = append(all, mention{source, base, i.name, textIs(i, "export", isBool, "true"),
				textIs(i, "transitive", isBool, "false")})
		}
	}
	return all
}

// find is the directory of a pack. It reports false for one that is none.
func (p *packs) find(m mention) (string, bool) {
	path := m.at.text
	switch {
	case !p.g.canRead():
		p.r.fail(m.at.at, m.at, "", "packs cannot be followed here, expected a file by itself")
		return "", false
	case isRemote(path):
		p.remote++
		p.r.notice(m.at, "%s is not supported: packs are read from directories; clone it, and write "+
			"the path of its directory", spec.Quote(path))
		return "", false
	case path == "~" || strings.HasPrefix(path, "~/"):
		p.r.fail(m.at.at, m.at, "write the whole path", "%s: ~ is not expanded", spec.Quote(path))
		return "", false
	}
	return p.path(path, m.base), true
}

func isRemote(path string) bool {
	return slices.ContainsFunc([]string{"git@", "ssh://", "git://", "http://", "https://", "file://", "github.com/"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// meta checks [pack], which tells a pack from any other file.
func (p *packs) meta(document *value) (name string, meta *value) {
	meta = p.table(document, "pack")
	if meta == nil {
		if document.byName["pack"] == nil {
			p.r.fail(document.at, document, "write [pack] with name and schema",
				"there is no table [pack], expected one")
		}
		return "", nil
	}
	for _, key := range []string{"name", "schema"} {
		v := meta.byName[key]
		switch {
		case v == nil:
			p.r.fail(meta.at, meta, "", "[pack] without %s, expected one", key)
		case key == "name":
			name, _ = p.r.text(v, "a string")
		default:
			p.r.integer(v, 1, 2, "1 or 2")
		}
	}
	return name, meta
}

// agentsOf are the agents of a pack: those that its file declares, and the
// directories in agents/ that it does not.
func (p *packs) agentsOf(document *value, dir string) []*value {
	declared := p.elements(document, "agent")
	known := map[string]bool{}
	for _, a := range declared {
		known[textOf(a, "name")] = true
		p.homes[a] = home{dir: dir}
	}
	names, err := p.g.match(filepath.Join(dir, "agents"), "*", true, MaxIncludes, MaxIncludes)
	if err != nil {
		p.r.add(&Error{File: p.g.show(filepath.Join(dir, "agents")),
			Message: "cannot be looked through: " + reason(err).Error()})
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
			continue // it cannot be used, which was told
		case a == nil && !slices.ContainsFunc([]string{"prompt.template.md", "prompt.md.tmpl", "prompt.md"},
			func(prompt string) bool { return exists(filepath.Join(in, prompt)) }):
			continue
		case a == nil: // all that there is may be a prompt
			a = newTable(newSource(p.g.show(in), nil), "", 0, nil)
		}
		if own := a.byName["name"]; own != nil && textOf(a, "name") != name {
			p.r.fail(own.at, own, "remove it, or rename the directory",
				"name is %s in a directory called %s, expected the same", inTOML(own), spec.Quote(name))
		}
		a.remove("name")
		a.put(made(a, isString, "name", name))
		if names := filepath.Join(in, "namepool.txt"); a.byName["namepool"] == nil && exists(names) {
			a.put(made(a, isString, "namepool", names))
		}
		p.homes[a] = home{dir: dir}
		declared = append(declared, a)
	}
	return declared
}

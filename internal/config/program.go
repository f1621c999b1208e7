package config

import (
	"os"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// programKey is the Sage program of a project.
func programKey() key[file] {
	return key[file]{row{
		name: "program", typ: "string", also: []string{"sage", "entry"},
		doc: "a Sage program whose supervisors and agents run below the root, behind its other children: a file " +
			"`*.sg`, or a directory with a `grove.toml`, relative to this file. Agents of this file that the " +
			"program names in quotes are its children",
	}, func(r *reader, v *value, f *file) {
		if path, ok := r.text(v, "a path"); ok {
			f.root.Program, f.program = path, v
		}
	}}
}

// program makes the path of the program absolute and, where files may be
// looked at, makes sure that there is something.
func (r *reader) program(f *file, dir string, look bool) {
	path := f.root.Program
	switch {
	case f.program == nil:
		return
	case path == "":
		r.fail(f.program.at, f.program, "remove it, or write a program with: coppice sage new NAME",
			"program is empty, expected a file or a directory")
		return
	case strings.ContainsRune(path, 0):
		r.fail(f.program.at, f.program, "", "program contains a zero byte, expected a path")
		return
	}
	f.root.Program = under(dir, path)
	if !look {
		return
	}
	if _, err := os.Stat(f.root.Program); err != nil {
		r.fail(f.program.at, f.program, "write one with: coppice sage new NAME", "the program %s cannot be used: %v",
			spec.Quote(path), reason(err))
	}
}

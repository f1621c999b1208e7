package config

import (
	"os"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// programKey returns the key program: the Sage program of a project.
func programKey() toml.Key[file] {
	return toml.Key[file]{
		Name: "program", Type: "string", Also: []string{"sage", "entry"},
		Doc: "a Sage program whose supervisors and agents run below the root, after its other children: a file " +
			"`*.sg`, or a directory with a `grove.toml`, relative to this file. Agents of this file that the " +
			"program names in quotes become its children", Read: func(r *toml.Reader, v *toml.Value, f *file) {
			if path, ok := r.Text(v, "a path"); ok {
				f.root.Program, f.program = path, v
			}
		}}
}

// resolveProgram makes the path of the program absolute. If onDisk is true, it checks that the
// program exists.
func resolveProgram(r *toml.Reader, f *file, dir string, onDisk bool) {
	path := f.root.Program
	switch {
	case f.program == nil:
		return
	case path == "":
		r.Fail(f.program, "remove it, or write a program with: coppice sage new NAME",
			"program is empty, expected a file or a directory")
		return
	case strings.ContainsRune(path, 0):
		r.Fail(f.program, "", "program contains a zero byte, expected a path")
		return
	}
	f.root.Program = toml.Absolute(dir, path)
	if !onDisk {
		return
	}
	if _, err := os.Stat(f.root.Program); err != nil {
		r.Fail(f.program, "write one with: coppice sage new NAME", "the program %s cannot be used: %v",
			spec.Quote(path), toml.Reason(err))
	}
}

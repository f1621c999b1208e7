// Package scaffold writes the first files of a project: those of a Sage program that runs, or those of a template.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/coppice-dev/coppice/internal/spec"
)

//go:embed project templates
var embedded embed.FS

// file is a file of a project; its name is relative to the directory of the project.
type file struct {
	name    string
	content []byte
}

// Templates returns the names of the templates.
func Templates() []string { return []string{"pipeline"} }

// WriteTemplate writes the files of one of the Templates into the directory dir, as Write does. tests is the command
// that it has found in the files of dir and that changes have to pass; empty if a person has to write it into the file.
func WriteTemplate(dir, template string) (paths []string, tests string, err error) {
	tests = findTests(dir)
	line := `# test = "make test"                       # required: the command that each change has to pass`
	if tests != "" {
		line = fmt.Sprintf("%-42s # each change has to pass it", fmt.Sprintf("test = %q", tests))
	}
	files, err := render("templates/"+template, struct{ Test string }{line})
	if err != nil {
		return nil, "", err
	}
	paths, err = write(dir, files)
	return paths, tests, err
}

// Write writes the Sage project called name into the directory dir, which it creates if necessary,
// and returns the paths of its files. It overwrites nothing: if a file exists, the error wraps
// fs.ErrExist. After an error, everything that it created is removed.
func Write(dir, name string) (paths []string, err error) {
	if fault := spec.CheckName(name); fault != "" {
		return nil, errors.New(fault)
	}
	files, err := render("project", struct{ Name string }{name})
	if err != nil {
		return nil, err
	}
	return write(dir, files)
}

// write writes files into the directory dir.
func write(dir string, files []file) (paths []string, err error) {
	// Checked before writing: an existing project may lack only one of the files.
	for _, f := range files {
		p := filepath.Join(dir, f.name)
		if _, err := os.Lstat(p); err == nil {
			return nil, fmt.Errorf("%s: %w, and nothing has been written", p, fs.ErrExist)
		}
	}
	var made []string // files and directories, in order of creation
	defer func() {
		if err != nil {
			paths = nil
			for _, path := range slices.Backward(made) {
				os.Remove(path) // removes only empty directories
			}
		}
	}()
	for _, f := range files {
		p := filepath.Join(dir, f.name)
		if err := makeDirs(filepath.Dir(p), &made); err != nil {
			return nil, err
		}
		made = append(made, p)
		if err := create(p, f); err != nil {
			if errors.Is(err, fs.ErrExist) {
				made = made[:len(made)-1] // another process created it
			}
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// makeDirs works like os.MkdirAll and records the directories that it creates.
func makeDirs(dir string, made *[]string) error {
	err := os.Mkdir(dir, 0o777)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
		if err := makeDirs(filepath.Dir(dir), made); err != nil {
			return err
		}
		if err = os.Mkdir(dir, 0o777); err == nil {
			*made = append(*made, dir)
		}
	case err == nil:
		*made = append(*made, dir)
	case errors.Is(err, fs.ErrExist):
		if info, e := os.Stat(dir); e == nil && info.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is not a directory, expected one or nothing", dir)
	}
	return err
}

func create(path string, content file) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content.content)
	return errors.Join(err, f.Close())
}

// list returns the files in an embedded directory.
func list(dir string) (files []file, err error) {
	err = fs.WalkDir(embedded, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(embedded, p)
		if err != nil {
			return err
		}
		p = strings.TrimPrefix(p, dir+"/")
		if path.Base(p) == "gitignore" { // as .gitignore it would apply to this repository
			p = path.Join(path.Dir(p), ".gitignore")
		}
		files = append(files, file{filepath.FromSlash(p), text})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", dir, err)
	}
	return files, nil
}

// render returns the files in an embedded directory, with data filled in. Sage programs have no place for data.
func render(dir string, data any) ([]file, error) {
	files, err := list(dir)
	for i, f := range files {
		if filepath.Ext(f.name) == ".sg" {
			continue
		}
		var b bytes.Buffer
		t, err := template.New(f.name).Parse(string(f.content))
		if err == nil {
			err = t.Execute(&b, data)
		}
		if err != nil {
			return nil, fmt.Errorf("making the file %s: %w", f.name, err)
		}
		files[i].content = b.Bytes()
	}
	return files, err
}

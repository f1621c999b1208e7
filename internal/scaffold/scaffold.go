// Package scaffold writes a first Sage project, with a program
// that runs.
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

//go:embed project
var project embed.FS

// file is a file of a project; its name is relative to the directory of the project.
type file struct {
	name    string
	content []byte
}

// Write writes the project called name into the directory dir, which it makes
// where there is none, and returns the paths of its files. It writes over
// nothing: where one of them exists already, the error wraps fs.ErrExist.
// After an error nothing of it is left.
func Write(dir, name string) (paths []string, err error) {
	if fault := spec.CheckName(name); fault != "" {
		return nil, errors.New(fault)
	}
	files, err := render(name)
	if err != nil {
		return nil, err
	}
	// Before the first is written: what is there may be a project that only lacks one.
	for _, f := range files {
		p := filepath.Join(dir, f.name)
		if _, err := os.Lstat(p); err == nil {
			return nil, fmt.Errorf("%s: %w, and nothing has been written", p, fs.ErrExist)
		}
	}
	var made []string // in the order of making, directories too
	defer func() {
		if err != nil {
			paths = nil
			for _, path := range slices.Backward(made) {
				os.Remove(path) // a directory only if it is empty
			}
		}
	}()
	for _, f := range files {
		p := filepath.Join(dir, f.name)
		if err := makeDirs(filepath.Dir(p), &made); err != nil {
			return nil, err
		}
		made = append(made, p)
		if err := create(p, f.content); err != nil {
			if errors.Is(err, fs.ErrExist) {
				made = made[:len(made)-1] // another process made it
			}
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// makeDirs is os.MkdirAll that notes what it makes.
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

func create(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// render makes the files of a project called name.
func render(name string) (files []file, err error) {
	err = fs.WalkDir(project, "project", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(project, p)
		if err != nil {
			return err
		}
		p = strings.TrimPrefix(p, "project/")
		if path.Base(p) == "gitignore" { // in this repository it must not be one
			p = path.Join(path.Dir(p), ".gitignore")
		}
		if path.Ext(p) != ".sg" {
			t, err := template.New(p).Parse(string(text))
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := t.Execute(&b, struct{ Name string }{name}); err != nil {
				return err
			}
			text = b.Bytes()
		}
		files = append(files, file{filepath.FromSlash(p), text})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("making the files of a project: %w", err)
	}
	return files, nil
}

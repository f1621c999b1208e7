// Package scaffold writes a first Sage project with a program that runs.
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

// Write writes the project called name into the directory dir, which it creates if necessary,
// and returns the paths of its files. It overwrites nothing: if a file exists, the error wraps
// fs.ErrExist. After an error, everything that it created is removed.
func Write(dir, name string) (paths []string, err error) {
	if fault := spec.CheckName(name); fault != "" {
		return nil, errors.New(fault)
	}
	files, err := render(name)
	if err != nil {
		return nil, err
	}
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
		if err := create(p, f.content); err != nil {
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

func create(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// render returns the files of a project called name.
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
		if path.Base(p) == "gitignore" { // as .gitignore it would apply to this repository
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

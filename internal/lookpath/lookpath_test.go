package lookpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tool := write("bin/tool", 0o755)
	write("first/tool", 0o644)
	write("first/plain", 0o644)
	script := write("work/run.sh", 0o755)
	path := filepath.Join(root, "first") + ":relative::" + filepath.Join(root, "bin")
	work := filepath.Join(root, "work")
	t.Chdir(filepath.Join(root, "bin"))

	for _, tt := range []struct {
		name, path, want string
		err              error
	}{
		{"tool", path, tool, nil}, // a file that is not executable is skipped
		{"plain", path, "", fs.ErrPermission},
		{"missing", path, "", fs.ErrNotExist},
		{"tool", ".:", "", fs.ErrNotExist}, // relative directories are skipped
		{"./run.sh", "", script, nil},
		{"../bin/tool", "", tool, nil},
		{tool, "", tool, nil},
		{"./missing", "", "", fs.ErrNotExist},
		{"../first/plain", "", "", fs.ErrPermission},
		{"../bin", "", "", syscall.EISDIR},
	} {
		got, err := Find(tt.name, work, tt.path)
		if !errors.Is(err, tt.err) || (err == nil && got != tt.want) {
			t.Errorf("Find(%q, path %q) = %q, %v; want %q, %v", tt.name, tt.path, got, err, tt.want, tt.err)
		}
	}
}

package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/toml"
)

// FuzzFiles checks two files: nothing panics, each error has a place in the file that it names,
// and the output of WriteTOML for valid files is equivalent.
func FuzzFiles(f *testing.F) {
	f.Add("include = [\"b.toml\"]\n"+base, "[[patches.agent]]\nname = \"a\"\nenv = { A = \"1\" }\n")
	f.Add("include = [\"*b.toml\"]\n[[patches.agent]]\nname = \"b\"\ncommand_append = [\"x\"]\nenv_remove = [\"A\"]\n"+base, strings.ReplaceAll(base, `"a"`, `"b"`)+"env.A = \"1\"\n")
	f.Add("include = [\"a.toml\", \"[\", 1, \"/dev/null\", \"x/*/y\"]\nagent = []\npatches = 1\n", "daemon = 1\nagent = [{}]\n")
	f.Add("include = [\"b.toml\"]\nbackoff = 1\n"+base+"backoff = \"linear\"\nbeliefs.x = 1\n", "[[patches.agent]]\nname = \"a\"\nbackoff = { cap = \"1m\" }\nbeliefs = { x = { persistent = true }, y = [[{}]] }\nbeliefs_remove = [\"x\"]\n")
	for _, file := range txtar.Parse([]byte(split)).Files {
		f.Add("include = [\"b.toml\"]\n"+base, string(file.Data))
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		dir := t.TempDir()
		name, other := filepath.Join(dir, "a.toml"), filepath.Join(dir, "b.toml")
		if err := errors.Join(os.WriteFile(name, []byte(first), 0o600), os.WriteFile(other, []byte(second), 0o600)); err != nil {
			t.Fatal(err)
		}
		l, err := LoadUnchecked(name)
		if err == nil {
			checkWritten(t, l, name)
			return
		}
		if l.Tree != nil {
			t.Fatalf("got tree %v and error %v", l.Tree, err)
		}
		var errs toml.Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("got error %v", err)
		}
		byFile := map[string]toml.Errors{}
		for _, e := range errs {
			byFile[e.File] = append(byFile[e.File], e)
		}
		for file, errs := range byFile {
			switch file {
			case name:
				configtest.CheckErrors(t, []byte(first), errs)
			case other:
				configtest.CheckErrors(t, []byte(second), errs)
			default:
				t.Errorf("%v: not one of the files", errs)
			}
		}
	})
}

// checkWritten fails unless the output of WriteTOML is equivalent to the configuration.
func checkWritten(t *testing.T, l *Loaded, path string) {
	t.Helper()
	var b bytes.Buffer
	if err := l.WriteTOML(&b); err != nil {
		t.Fatal(err)
	}
	again, err := Parse(path, b.Bytes())
	if b.Len() > toml.MaxFile {
		return // several files together may exceed the limit of one
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if diff := cmp.Diff(l.Tree, again); diff != "" {
		t.Fatalf("what is shown means something else (-want +got)\n%s\n%s", diff, b.String())
	}
	for _, o := range l.Values() {
		if _, err := l.Find(o.Key); err != nil {
			t.Fatalf("%s is not found: %v", o.Key, err)
		}
	}
}

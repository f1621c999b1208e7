package load_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/sage/load"
)

const (
	grove = "grove.toml [project]\nname = \"p\"\n"
	entry = "agent A {\n    on start {\n        yield(1);\n    }\n}\n\nrun A;\n"
)

func TestCheck(t *testing.T) {
	uses := func(module string) string { return "src/main.sg mod " + module + ";\n" + entry }
	tests := []struct {
		name  string
		files []string
		want  []string // what the diagnostics contain, of each
		reads []string // the files that are read
	}{
		{"one file", []string{"src/main.sg " + entry}, nil, []string{"src/main.sg"}},
		{"beside it", []string{uses("db"), "src/db.sg mod rows;", "src/rows.sg "}, nil, []string{"src/main.sg", "src/db.sg", "src/rows.sg"}},
		{"in a directory", []string{uses("db"), "src/db/mod.sg mod rows;", "src/db/rows.sg "}, nil, []string{"src/main.sg", "src/db/mod.sg", "src/db/rows.sg"}},
		{"missing", []string{uses("db")}, []string{"src/main.sg:1:5: module `db` cannot be read: there is neither src/db.sg nor src/db/mod.sg"}, []string{"src/main.sg"}},
		{"a file as directory", []string{uses("db"), "src/db "}, []string{"neither src/db.sg nor src/db/mod.sg"}, []string{"src/main.sg"}},
		{"both", []string{uses("db"), "src/db.sg ", "src/db/mod.sg "}, []string{"there is both src/db.sg and src/db/mod.sg; remove one of them"}, []string{"src/main.sg"}},
		{"itself", []string{uses("main")}, []string{"contains itself"}, []string{"src/main.sg"}},
		{"cycle", []string{uses("a"), "src/a.sg mod b;", "src/b.sg mod a;"}, []string{"src/b.sg:1:5: module `a` contains itself"}, []string{"src/main.sg", "src/a.sg", "src/b.sg"}},
		{"link to within", []string{uses("db"), "src/db.sg -> ../lib/db.sg", "lib/db.sg "}, nil, []string{"src/main.sg", "src/db.sg"}},
		{"link to itself", []string{uses("a"), "src/a.sg mod a;", "src/a/mod.sg -> ../a"}, []string{"module `a`"}, []string{"src/main.sg", "src/a.sg"}},
		{"link out", []string{uses("db"), "src/db.sg -> ../../out.sg"}, []string{"src/db.sg: is outside of the project"}, []string{"src/main.sg"}},
		{"link to the root", []string{uses("db"), "src/db.sg -> /etc/passwd"}, []string{"src/db.sg: is outside of the project"}, []string{"src/main.sg"}},
		{"a directory as file", []string{uses("db"), "src/db.sg/x.sg "}, []string{"src/db.sg: is a directory, expected a file"}, []string{"src/main.sg"}},
		{"error in a module", []string{uses("db"), "src/db.sg fn f( {}"}, []string{"src/db.sg:1:"}, []string{"src/main.sg", "src/db.sg"}},
		{"process of the project", []string{"src/main.sg supervisor S {\n    strategy: OneForOne\n    children {\n        \"web\" { restart: Permanent }\n    }\n}\nrun S;\n", "coppice.toml [[agent]]\nname = \"web\"\ncommand = \"web\"\n"}, nil, []string{"src/main.sg"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := tree(t, append(test.files, grove)...)
			p, err := load.Find(sagehost.Projects{}, dir)
			if err != nil {
				t.Fatal(err)
			}
			p.Base = dir
			info, diagnostics, err := p.Check(nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(diagnostics) != len(test.want) {
				t.Errorf("diagnostics: %v", diagnostics)
			}
			for i, d := range diagnostics {
				if i < len(test.want) && !strings.Contains(d.Error(), test.want[i]) {
					t.Errorf("got %q, want %q", d.Error(), test.want[i])
				}
			}
			var reads []string
			for _, m := range info.Modules {
				reads = append(reads, m.File.Name)
			}
			if d := cmp.Diff(test.reads, reads); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSpecialModule checks that reading a module does not block on a FIFO.
func TestSpecialModule(t *testing.T) {
	dir := tree(t, grove, "src/main.sg mod db;\n"+entry)
	if err := syscall.Mkfifo(filepath.Join(dir, "src/db.sg"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := load.Find(sagehost.Projects{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, diagnostics, err := p.Check(nil); err != nil || len(diagnostics) != 1 || !strings.Contains(diagnostics[0].Message, "special file") {
		t.Error(diagnostics, err)
	}
}

// TestOverlay checks that edited texts take precedence over the disk, where the files need not
// exist.
func TestOverlay(t *testing.T) {
	dir := tree(t, grove, "src/main.sg mod none;")
	p, err := load.Find(sagehost.Projects{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	info, diagnostics, err := p.Check(load.Overlay{
		filepath.Join(dir, "src/main.sg"):   "mod db;\n" + entry,
		filepath.Join(dir, "src/db/mod.sg"): "pub fn f() -> Int {\n    return 1;\n}\n",
	})
	if err != nil || len(diagnostics) > 0 || len(info.Modules) != 2 {
		t.Error(err, diagnostics)
	}
	alone := &load.Program{Entry: "untitled:1"}
	if _, diagnostics, err := alone.Check(load.Overlay{"untitled:1": "mod a;\n" + entry}); err != nil || len(diagnostics) != 1 {
		t.Error(err, diagnostics)
	}
	if _, _, err := alone.Check(nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	dir := tree(t, grove, "src/main.sg "+entry, "src/deep/other.sg "+entry)
	outside := tree(t, "a.sg "+entry, "link.sg -> a.sg")
	broken := tree(t, "grove.toml [projekt]\n", "a.sg "+entry)
	escaping := tree(t, "grove.toml [project]\nname = \"p\"\nentry = \"../a.sg\"\n")
	empty := tree(t, grove)
	fleet := tree(t, grove, "coppice.toml [[agents]]\n")
	tests := []struct{ path, entry, err string }{
		{dir, "src/main.sg", ""},
		{dir + "/src", "src/main.sg", ""},
		{dir + "/src/deep/other.sg", "src/deep/other.sg", ""},
		{outside, "", "no grove.toml in " + outside + " or above it: file does not exist; name a file, or write a project with: coppice sage new NAME"},
		{outside + "/a.sg", "a.sg", ""},
		{outside + "/link.sg", "a.sg", ""},
		{outside + "/none.sg", "", "none.sg: no such file or directory"},
		{broken, "", "grove.toml:1:2: "},
		{broken + "/a.sg", "", "grove.toml:1:2: "},
		{escaping, "", "a.sg, the entry of the project in " + escaping + "/grove.toml: is outside of the project"},
		{empty, "", "src/main.sg, the entry of the project in " + empty + "/grove.toml: no such file or directory"},
		{fleet, "", "coppice.toml:1:3: "},
	}
	for _, test := range tests {
		p, err := load.Find(sagehost.Projects{}, test.path)
		if err == nil {
			_, _, err = p.Check(nil)
		}
		switch {
		case test.err == "" && err != nil:
			t.Errorf("%s: %v", test.path, err)
		case test.err == "":
			if rel, err := filepath.Rel(p.Root, p.Entry); err != nil || rel != test.entry {
				t.Errorf("%s: the entry is %s, want %s", test.path, rel, test.entry)
			}
		case err == nil || !strings.Contains(err.Error(), test.err):
			t.Errorf("%s: got %v, want %s", test.path, err, test.err)
		}
	}
	var bad toml.Errors
	if _, err := load.Find(sagehost.Projects{}, broken); !errors.As(err, &bad) {
		t.Errorf("%T", err)
	}
	if _, err := load.Find(sagehost.Projects{}, outside); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	t.Chdir(filepath.Join(dir, "src/deep"))
	p, err := load.Find(sagehost.Projects{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Name(p.Entry) != p.Entry || p.Name(filepath.Join(dir, "src/deep/x.sg")) != "x.sg" {
		t.Error(p.Name(p.Entry))
	}
	if info, _, err := p.Check(nil); err != nil || !p.Reads(info, p.Entry) || p.Reads(info, filepath.Join(dir, "src/deep/other.sg")) {
		t.Error(err)
	}
}

// TestProgramOfAFleet checks that a coppice.toml above provides its agents to a program that it
// names, and to no other.
func TestProgramOfAFleet(t *testing.T) {
	const fleet = "coppice.toml [project]\nprogram = %q\n[[agent]]\nname = \"web\"\ncommand = \"web\"\n"
	const program = "supervisor S {\n    strategy: OneForOne\n    children {\n        \"web\" { restart: Permanent }\n    }\n}\nrun S;\n"
	for _, c := range []struct {
		name  string
		files []string
		find  string
		lent  bool
	}{
		{"a file", []string{strings.Replace(fleet, "%q", `"sage/app.sg"`, 1), "sage/app.sg " + program}, "sage/app.sg", true},
		{"a project", []string{strings.Replace(fleet, "%q", `"sage"`, 1), "sage/src/main.sg " + program, "sage/" + grove}, "sage", true},
		{"another file", []string{strings.Replace(fleet, "%q", `"other.sg"`, 1), "other.sg ", "sage/app.sg " + program}, "sage/app.sg", false},
		{"none", []string{strings.Replace(fleet, "program = %q\n", "", 1), "sage/app.sg " + program}, "sage/app.sg", false},
		{"one with errors", []string{"coppice.toml program = 3", "sage/app.sg " + program}, "sage/app.sg", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, c.files...)
			p, err := load.Find(sagehost.Projects{}, filepath.Join(dir, c.find))
			if err != nil {
				t.Fatal(err)
			}
			_, diagnostics, err := p.Check(nil)
			if err != nil || (len(diagnostics) == 0) != c.lent || (p.Fleet.File != "") != c.lent {
				t.Errorf("%v, %v, %q", diagnostics, err, p.Fleet.File)
			}
		})
	}
}

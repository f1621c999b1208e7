package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Defects of the original implementation that show only in whole projects, by number.

// sageTree makes a project of files, written as "path text".
func sageTree(t *testing.T, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, f := range append(files, "grove.toml [project]\nname = \"p\"\n[supervision]\nmax_restarts = 1\n") {
		path, text, _ := strings.Cut(f, " ")
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	return dir
}

// S9: children of a supervisor may be in other modules. P3: without an argument, settings and
// modules are those of the project, in any directory below it.
func TestS9P3ModulesAndSettings(t *testing.T) {
	t.Parallel()
	dir := sageTree(t,
		"src/main.sg mod workers;\nuse workers::Worker;\nsupervisor S { strategy: OneForOne children { Worker { restart: Permanent } workers::deep::Helper { restart: Temporary } } }\nrun S;\n",
		"src/workers.sg pub mod deep;\nuse deep::twice;\npub agent Worker { @persistent n: Int on start { self.n += 1; print(\"worker {twice(self.n)}\"); } }\n",
		"src/deep.sg pub fn twice(n: Int) -> Int { return n * 2; }\npub agent Helper { on start { print(\"helper\"); } }\n",
	)
	for i, from := range []string{dir, filepath.Join(dir, "src")} {
		r := launch(t, from, "run")
		r.wantExit(exitFailure) // a permanent child that exits at once: one restart, by the settings
		want := [][]string{{"worker 2\n", "worker 4\n"}, {"worker 6\n", "worker 8\n"}}[i]
		for _, line := range want {
			if strings.Count(r.out.String(), line) != 1 {
				t.Errorf("no %q in\n%s", line, r.out)
			}
		}
		if strings.Count(r.out.String(), "worker") != 2 || strings.Count(r.out.String(), "helper") != 1 {
			t.Errorf("it prints\n%s%s", r.out, r.err)
		}
	}
}

// S10: an agent under a supervisor has the tools that it uses.
func TestS10ToolsUnderSupervisors(t *testing.T) {
	t.Parallel()
	dir := sageTree(t, "src/main.sg agent A { use Fs, Shell\n on start { try Fs.write(\"a.txt\", \"kept\"); let r = try Shell.run(\"cat a.txt\"); print(r.stdout); } on error(e) { print(e.message); } }\n"+
		"supervisor S { strategy: OneForOne children { A { restart: Transient } } }\nrun S;\n")
	r := launch(t, dir, "run")
	r.wantExit(exitOK)
	if got := strings.TrimSpace(r.out.String()); got != "kept" {
		t.Errorf("%q%s", got, r.err)
	}
}

// S11, F5: unsupported features are errors with their place, and do not run as something else.
func TestS11HandlersAreRefused(t *testing.T) {
	t.Parallel()
	dir := sageTree(t, "src/main.sg agent A { on start { yield(1); } }\nsupervisor S { strategy: OneForOne children { A { restart: Transient handler Infer: Fast } } }\nrun S;\n")
	r := launch(t, dir, "run")
	r.wantExit(exitFailure)
	if got := r.err.String(); !strings.Contains(got, "E042") || !strings.Contains(got, "main.sg:2:") || r.out.String() != "" {
		t.Errorf("%s", got)
	}
}

// P8: a database that cannot be opened is one error at the start, without restarts.
func TestP8NoDatabase(t *testing.T) {
	t.Parallel()
	dir := sageTree(t, "src/main.sg agent A { @persistent n: Int on start { print(\"started\"); } }\nsupervisor S { strategy: OneForOne children { A { restart: Permanent } } }\nrun S;\n",
		".sage/checkpoints.db this is no database")
	r := launch(t, dir, "run")
	r.wantExit(exitFailure)
	if got := r.err.String(); r.out.String() != "" || !strings.Contains(got, "checkpoints.db") || strings.Contains(got, "restart") {
		t.Errorf("%q, %s", r.out, got)
	}
}

// L8: check reports everything. L9: each error names its own file.
func TestL8L9TheWholeCheck(t *testing.T) {
	t.Parallel()
	dir := sageTree(t,
		"src/main.sg mod more;\nconst N: Int = \"text\";\nagent A { n: Int use Fs on start { let s = divine(\"x\"); let k = half(1); try Http.get(\"u\"); } on error(e) { } }\n"+
			"fn half(n: Int) -> Int fails { if n == 1 { fail \"odd\"; } return n / 2; }\n"+
			"supervisor S { strategy: OneForOne children { A { restart: Transient m: 1 } B { restart: Sometimes } } }\nrun S;\n",
		"src/more.sg fn f() -> Int {\n    return true;\n}\n")
	r := launch(t, dir, "check", "--json")
	r.wantExit(exitFailure)
	out := r.out.String()
	for _, want := range []string{
		`"file":"src/more.sg","line":2,"column":12`, // L9
		`"file":"src/main.sg","line":2`,             // the constant
		`"code":"E013"`, `"code":"E038"`, `"code":"E061"`, `"code":"E044"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

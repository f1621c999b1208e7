package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sageProject makes a directory with a grove.toml and a program.
func sageProject(t *testing.T, program string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "grove.toml"), "[project]\nname = \"p\"\nentry = \"main.sg\"\n")
	write(t, filepath.Join(dir, "main.sg"), program)
	return dir
}

// A signal stops all agents in reverse order, each with its on resting, even one in an endless
// loop.
func TestSageStops(t *testing.T) {
	t.Parallel()
	dir := sageProject(t, `
agent Waits { on message(m: Int) { } on resting { print("waits rests"); } }
agent Spins { on start { print("spinning"); loop { } } on resting { print("spins rests"); } }
supervisor S { strategy: OneForAll children { Waits { restart: Transient } Spins { restart: Transient } } }
run S;
`)
	r := launch(t, dir, "run", ".")
	r.out.awaitText(t, "spinning\n")
	r.signal(syscall.SIGTERM)
	r.wantExit(exitSignalled + int(syscall.SIGTERM))
	if got, want := r.out.String(), "spinning\nspins rests\nwaits rests\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

// Beliefs survive SIGKILL, and siblings of one kind do not share them.
func TestSageRemembers(t *testing.T) {
	t.Parallel()
	dir := sageProject(t, `
agent Counter {
    step: Int
    @persistent n: Int
    on start {
        self.n.set(self.n.get() + self.step);
        print("{self.step}: {self.n.get()}");
        receive();
    }
    on message(m: Int) { }
}
supervisor S {
    strategy: OneForOne
    children { Counter { restart: Transient step: 1 } Counter { restart: Transient step: 10 } }
}
run S;
`)
	for n := 1; n <= 3; n++ {
		r := launch(t, dir, "run")
		for _, step := range []int{1, 10} {
			r.out.awaitText(t, fmt.Sprintf("%d: %d\n", step, step*n))
		}
		if n == 2 { // nothing else may write it at the same time
			other := launch(t, dir, "run")
			other.wantExit(exitFailure)
			if text := other.err.String(); !strings.Contains(text, "another run of this program keeps its beliefs in "+filepath.Join(dir, ".sage", "checkpoints.db")) {
				t.Errorf("a second run says: %s", text)
			}
		}
		r.signal(syscall.SIGKILL)
		r.exit()
	}
	if _, err := os.Stat(filepath.Join(dir, ".sage", "checkpoints.db")); err != nil {
		t.Error(err)
	}
}

// A directory without a project is a configuration error, named or not.
func TestSageNoProject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"sage", "check"}, {"sage", "check", "."}, {"run", "."}, {"sage", "test"}, {"sage", "test", "."}} {
		r := launch(t, dir, args...)
		r.wantExit(exitConfig)
		if got := r.err.String(); !strings.Contains(got, "coppice sage new") {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// Warnings of a run are plain lines.
func TestSagePlainWarnings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.sg"), "agent Main {\n    @persistent n: Int\n\n    on start {\n        self.n += 1;\n    }\n}\n\nrun Main;\n")
	r := launch(t, dir, "run", "main.sg")
	r.wantExit(exitOK)
	const want = "coppice: warning: beliefs are lost when the program ends; a grove.toml can name a file for them (agent Main)\n"
	if got := r.err.String(); got != want {
		t.Errorf("%q", got)
	}
}

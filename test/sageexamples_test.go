package test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// sageExamples copies the examples to a writable directory.
func sageExamples(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/sage")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Each example prints the output in its last comment, in any order of agents, and exits as stated.
// There is one for each section of the language page.
func TestSageExamples(t *testing.T) {
	t.Parallel()
	dir := sageExamples(t)
	for _, path := range []string{
		"declaration/main.sg", "strategies/one_for_one.sg", "strategies/one_for_all.sg", "strategies/rest_for_one.sg", "policies/main.sg", "policies/permanent.sg",
		"intensity/main.sg", "persistence/main.sg", "beliefs/main.sg", "running/main.sg", "nested/main.sg",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			_, says, ok := strings.Cut(string(text), "// Output:\n")
			if !ok {
				t.Fatal("it does not say what it prints")
			}
			var want []string
			for line := range strings.Lines(says) {
				want = append(want, strings.TrimSpace(strings.TrimPrefix(line, "//")))
			}
			r := launch(t, dir, "run", path)
			code := exitOK
			if strings.Contains(string(text), "\n// Exit: 1\n") {
				code = exitFailure
			}
			r.wantExit(code)
			if !slices.Equal(r.out.lines(), want) {
				t.Errorf("it prints\n%s", r.out)
			}
		})
	}
	r := launch(t, dir, "fmt", "--check", ".")
	r.wantExit(exitOK)
}

// The guardian gives up after ten restarts, and keeps its counts.
func TestSageGuardian(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(sageExamples(t), "guardian")
	checks := func() int {
		r := launch(t, dir, "run")
		r.wantExit(exitFailure)
		if text := r.err.String(); !strings.Contains(text, "coppice: DbGuardian: limit reached (10 restarts in 30s, then escalate)") {
			t.Errorf("it ends with: %s", text)
		}
		lines := r.out.lines()
		if len(lines) == 0 || len(lines) > 11 {
			t.Fatalf("%d checks, want at most one start and ten restarts: %q", len(lines), lines)
		}
		return len(lines)
	}
	first := checks()
	r := launch(t, dir, "run")
	r.wantExit(exitFailure)
	if want := "Check #" + strconv.Itoa(first+1) + "\n"; !strings.HasPrefix(r.out.String(), want) {
		t.Errorf("after %d checks it says %q", first, r.out)
	}
}

// A process and an agent of a program run under one supervisor.
func TestSageMixedExample(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(sageExamples(t), "mixed")
	for _, checks := range []string{"0", "1"} {
		r := launch(t, dir, "run")
		r.out.awaitText(t, "shop/Guard/Monitor | watching again, after "+checks+" checks\n")
		r.out.awaitText(t, "shop * started\n")
		r.signal(syscall.SIGINT)
		r.wantExit(exitSignalled + int(syscall.SIGINT))
		before, after, _ := strings.Cut(r.out.String(), "shop/Guard/Monitor |")
		if !strings.Contains(before, "shop/Guard/database | accepting connections\n") || !strings.Contains(after, "shop/Guard/Monitor | resting\n") {
			t.Errorf("%s", r.out)
		}
	}
}

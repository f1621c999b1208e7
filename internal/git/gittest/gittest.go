// Package gittest runs git in tests, without the configuration of the user.
package gittest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and exits. git and what it starts have an empty home directory, and no variables of
// the caller. Goroutines that are left are a failure. If the variable helper is set, Main calls run with its value
// instead, and exits with the result: a test starts its own program for that.
func Main(m *testing.M, helper string, run func(value string) int) {
	home, err := os.MkdirTemp("", "gittest-home")
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "XDG_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("HOME", home)
	os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	var code int
	if value := os.Getenv(helper); value != "" {
		code = run(value)
	} else if code = m.Run(); code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.RemoveAll(home)
	os.Exit(code)
}

// Try runs git in a directory and returns its output without the last newline, or what it has written to standard
// error if it fails.
func Try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return stderr.String(), err
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// Run runs git like Try. The test fails if git does.
func Run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := Try(dir, args...)
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return out
}

// Write writes a file and the directories that it is in.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Package exectest writes and finds programs that tests run.
package exectest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Write writes a file that may be executed immediately. A process that another goroutine starts
// meanwhile would have the file open for writing until its exec, so that executing the file
// fails with ETXTBSY ("text file busy"). So no process starts while the file is open.
func Write(t testing.TB, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(content), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// Need skips a test if a program is not installed; in CI it fails.
func Need(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		fail(t, "%v", err)
	}
}

// fail fails a test in CI, and skips it elsewhere.
func fail(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Packages returns the absolute path of a directory in .cache in which tools/deps.sh installs npm
// packages. Without them or without node, the test is skipped; in CI it fails.
func Packages(t testing.TB, dir string) string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "installed.json"))
	}
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil {
		fail(t, "%v; install it with: make deps", err)
	}
	return dir
}

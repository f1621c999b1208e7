// Package exectest writes and finds programs that tests run.
package exectest

import (
	"fmt"
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
		Missing(t, err)
	}
}

// Missing skips a test because of what the machine lacks; in CI it fails.
func Missing(t testing.TB, what error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
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
		Missing(t, fmt.Errorf("%w; install it with: make deps", err))
	}
	return dir
}

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

// Packages returns the directory of the npm packages that tools/deps.sh installs under this name.
// Without them or without node, the test is skipped; in CI it fails.
func Packages(t testing.TB, name string) (dir string) {
	t.Helper()
	_, err := exec.LookPath("node")
	if err == nil {
		if dir, err = moduleRoot(); err == nil {
			dir = filepath.Join(dir, ".cache", name)
			_, err = os.Stat(filepath.Join(dir, "installed.json"))
		}
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v; install it with: make deps", err)
		}
		t.Skipf("%v; install it with: make deps", err)
	}
	return dir
}

// moduleRoot returns the nearest directory above the working directory with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

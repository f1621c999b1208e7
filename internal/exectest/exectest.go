// Package exectest writes programs that tests run.
package exectest

import (
	"os"
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

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Reading a large file makes no copies of the agents that were read before.
func TestLargeFileAllocatesLittle(t *testing.T) {
	const n, most = 4000, 8500 // bytes per agent
	var file strings.Builder
	fmt.Fprint(&file, "[project]\nname = \"t\"\n")
	for i := range n {
		fmt.Fprintf(&file, "[[agent]]\nname = \"a%d\"\ncommand = [\"sleep\", \"1\"]\n", i)
	}
	path := filepath.Join(t.TempDir(), "coppice.toml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := LoadAll(path); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / n; got > most {
		t.Errorf("%d bytes per agent, want at most %d", got, most)
	}
}

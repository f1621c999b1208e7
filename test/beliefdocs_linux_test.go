package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The examples in docs/beliefs.md work.
func TestBeliefDocs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "beliefs.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	f := newFleet(t)
	write(t, filepath.Join(f.dir, "coppice.toml"), block(t, page, "toml"))
	write(t, filepath.Join(f.dir, "monitor.sh"), block(t, page, "sh"))
	checked := func(n int) {
		t.Helper()
		eventually(t, "a check", func() bool { return strings.Contains(f.do("logs", "query-monitor"), "check "+string(rune('0'+n))) })
	}
	shown := block(t, page, "console")
	var got strings.Builder
	for line := range strings.Lines(shown) {
		command, is := strings.CutPrefix(line, "$ ")
		if !is {
			continue
		}
		got.WriteString(line)
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = f.dir
		out, _ := cmd.CombinedOutput()
		switch {
		case strings.HasPrefix(command, "coppice up"):
			checked(1)
			continue
		case strings.HasPrefix(command, "coppice restart"):
			checked(2)
			continue
		}
		got.Write(out)
	}
	if got.String() != shown {
		t.Errorf("it is\n%s\nshown is\n%s", got.String(), shown)
	}
}

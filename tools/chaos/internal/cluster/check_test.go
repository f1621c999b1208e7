package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The journal finds what it is there for.
func TestJournal(t *testing.T) {
	t.Parallel()
	self := strconv.Itoa(os.Getpid())
	for name, c := range map[string]struct {
		lines, violations, err string
	}{
		"well":          {"a n1 1 " + self + " 5.25\nb n1 1 " + self + " 6\n", "", ""},
		"half a line":   {"a n1 1 " + self + " 5\nb n1 1 " + self + " 6\nb n", "", ""},
		"twice":         {"a n1 1 " + self + " 5\nb n1 1 " + self + " 6\n", "b of n2", "twice at the same time"},
		"not started":   {"a n1 1 " + self + " 5\n", "", "1 of 2 agents"},
		"gone":          {"a n1 1 " + self + " 5\nb n1 1 999999999 6\n", "", "1 agents do not run"},
		"two nodes":     {"a n1 1 " + self + " 5\nb n2 1 " + self + " 6\n", "", ""},
		"old life":      {"a n1 2 " + self + " 5\na n2 2 " + self + " 6\n", "", "was started after 2"},
		"not a line":    {"a n1\n", "", "line"},
		"started twice": {"a n1 1 1 5\na n1 2 " + self + " 6\nb n1 1 " + self + " 6\n", "", "a was started 2 times"},
	} {
		j, err := newJournal(filepath.Join(t.TempDir(), "shared"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(j.dir, "journal"), []byte(c.lines), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.violations != "" {
			if err := os.WriteFile(filepath.Join(j.dir, "violations"), []byte(c.violations), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err = j.running(2)
		if err == nil {
			err = j.quiet("n1", 1)
		}
		switch {
		case c.err == "" && (err != nil || j.latest() != 6*time.Second):
			t.Errorf("%s: %v, %v", name, j.latest(), err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %s", name, err, c.err)
		}
	}
}

// No agent may be started that was not on the node that was struck.
func TestNotStruck(t *testing.T) {
	t.Parallel()
	self := strconv.Itoa(os.Getpid())
	j, err := newJournal(filepath.Join(t.TempDir(), "shared"))
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(j.dir, "journal"), []byte(strings.ReplaceAll(text, "PID", self)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := j.running(2); err != nil {
			t.Error(err)
		}
	}
	first := "a n1 1 PID 5\nb n2 1 PID 5\n"
	lines(first)
	if n := j.on("n2"); n != 1 {
		t.Errorf("%d on n2", n)
	}
	j.begin()
	lines(first + "b n1 2 PID 6\n")
	if err := j.quiet("n2", 1); err != nil {
		t.Error(err)
	}
	if err := j.quiet("n1", 1); err == nil || !strings.Contains(err.Error(), "b was on node n2, which was not struck") {
		t.Error(err)
	}
	if n := j.on("n2"); n != 0 {
		t.Errorf("%d on n2", n)
	}
}

func TestReadyNodes(t *testing.T) {
	t.Parallel()
	all := `[{"name":"n0","state":"ready","controller":true},{"name":"n1","state":"ready"},{"name":"n2","state":"ready"}]`
	if leaders, err := readyNodes(all); err != nil || leaders != 1 {
		t.Errorf("%d, %v", leaders, err)
	}
	if leaders, _ := readyNodes(strings.ReplaceAll(all, `"ready"}`, `"ready","controller":true}`)); leaders != 3 {
		t.Errorf("%d", leaders)
	}
	for _, bad := range []string{"", "[]", strings.Replace(all, "ready", "lost", 1)} {
		if _, err := readyNodes(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	c := times{}
	c.add("kill", "agents", elsewhereTarget)
	c.add("kill", "agents", time.Second)
	c.add("kill", "old agents", time.Hour)
	table := strings.Join(c.table(), "\n")
	if err := c.late(0); err != nil || !strings.Contains(table, " 2   15.00s   15.00s      15s") {
		t.Errorf("%v\n%s", err, table)
	}
	c.add("kill", "controller", takeoverTarget+time.Second)
	if err := c.late(0); err == nil || !strings.Contains(err.Error(), "controller after 13s") {
		t.Error(err)
	}
	if err := c.late(time.Minute); err != nil {
		t.Error(err)
	}
}

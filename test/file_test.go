package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

// The project is named by its file or directory, before or after the command.
func TestFileFlag(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	dir, stop := daemonOf(t, f)
	f.Print("app/back/db", "a line")
	f.Publish(event.Event{Type: "a.b"})
	nowhere := t.TempDir()
	file, quiet := filepath.Join(dir, "coppice.toml"), project(t, agentTOML("a", "exec sleep 1000"))
	for _, args := range []string{
		"ps -f DIR", "ps -f FILE", "-f DIR ps", "-f FILE ps", "-fFILE tree", "--file=DIR status", "explain back/db -f DIR",
		"-f DIR logs back/db", "-f FILE logs -n 1 back/db", "logs --file DIR back/db", "-f FILE events", "events --file DIR",
		"-f DIR stop back/db", "-f QUIET task ls", "order -f QUIET ls", "-f QUIET mail ls", "inbox -f QUIET", "-f QUIET belief ls",
		"-f QUIET validate", "-f QUIET doctor", "config show -f QUIET", "-f QUIET up -n",
	} {
		named := strings.NewReplacer("DIR", dir, "FILE", file, "QUIET", quiet).Replace(args)
		coppice(t, nowhere, 0, strings.Fields(named)...)
	}
	// After the command, -f follows.
	r := launch(t, nowhere, "-f", dir, "events", "-f", "--json")
	r.out.awaitText(t, `"a.b"`)
	f.Publish(event.Event{Type: "c.d"})
	r.out.awaitText(t, `"c.d"`)
	stop()
	r.wantExit(69)

	// A directory means itself, not one above it.
	within := filepath.Join(dir, "within")
	if err := os.Mkdir(within, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, errs := coppice(t, nowhere, 78, "ps", "-f", within); !strings.Contains(errs, "no coppice.toml in "+within) {
		t.Error(errs)
	}
	coppice(t, within, 0, "ps") // found in a directory above
	if _, out := coppice(t, nowhere, 78, "-f", dir, "validate"); !strings.Contains(out, file+":1:1: nothing to run") {
		t.Error(out)
	}
	if _, errs := coppice(t, nowhere, 2, "-f", dir, "version"); !strings.Contains(errs, "--file") {
		t.Error(errs)
	}
}

// In a fleet, the commands for Sage programs name their counterparts.
func TestCheckOfFleet(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", "exec sleep 1000"))
	for _, args := range [][]string{{"sage", "check"}, {"sage", "test"}, {"check"}, {"test"}} {
		if _, errs := coppice(t, dir, 78, args...); !strings.Contains(errs, "coppice.toml is checked by: coppice validate") {
			t.Errorf("%s: %s", args, errs)
		}
	}
	if _, errs := coppice(t, t.TempDir(), 78, "check"); strings.Contains(errs, "validate") {
		t.Errorf("check where there is nothing: %s", errs)
	}
}

// validation is the output of validate --json.
type validation struct {
	Valid                 bool
	Agents, Pools, Orders int
	Errors, Warnings      []fault
}

// fault is an error or a warning in a file.
type fault struct {
	Line         int
	Key, Message string
}

func TestValidateJSON(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", "exec sleep 1000"), "[[agent]]\nname = \"b\"\ncomand = \"true\"\n")
	for _, want := range []validation{
		{Valid: false, Errors: []fault{{Line: 13, Key: "agent[1].comand"}}},
		{Valid: true, Agents: 2, Pools: 1, Orders: 1},
	} {
		out, errs := coppice(t, dir, map[bool]int{false: 78}[want.Valid], "validate", "--json")
		var got validation
		if err := json.Unmarshal([]byte(out), &got); err != nil || errs != "" {
			t.Fatalf("%v: %s, %s", err, out, errs)
		}
		if got.Valid != want.Valid || got.Agents != want.Agents || got.Pools != want.Pools || got.Orders != want.Orders || (len(got.Errors) == 0) != want.Valid || got.Warnings == nil {
			t.Errorf("%s", out)
		}
		found := want.Valid
		for _, e := range got.Errors {
			found = found || e.Line == want.Errors[0].Line && e.Key == want.Errors[0].Key && e.Message != ""
		}
		if !found {
			t.Errorf("no fault in the right line: %s", out)
		}
		write(t, filepath.Join(dir, "coppice.toml"), agentTOML("a", "exec sleep 1000")+agentTOML("w", "exec sleep 1000", "pool = { max = 3 }")+
			"[[order]]\nname = \"o\"\nexec = \"true\"\ngate = \"manual\"\n")
	}
	if out, _ := coppice(t, dir, 0, "validate"); out != "coppice.toml is valid: 2 agents (1 pool), 0 supervisors, 1 order\n" {
		t.Errorf("in words: %s", out)
	}
}

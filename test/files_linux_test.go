package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/coppice-dev/coppice/internal/event"
)

// replaceFile replaces a file of a fleet atomically.
func (f *fleet) replaceFile(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(file+"~", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(file+"~", file); err != nil {
		f.t.Fatal(err)
	}
}

// Included files are watched, also new ones, and also if their directory is removed and created
// again.
func TestLiveReloadOfIncludes(t *testing.T) {
	t.Parallel()
	sleeper := func(name, more string) string {
		return "[[agent]]\nname = \"" + name + "\"\ncommand = \"sleep 1000\"\n" + more
	}
	f := newFleet(t)
	f.replaceFile("agents/a.toml", sleeper("a", ""))
	f.replaceFile("coppice.toml", "include = [\"agents/*.toml\"]\n[project]\nname = \"t\"\n")
	f.do("up", "-d")
	a := f.node("t/a").PID
	f.awaitAfter(event.ConfigReloaded, "1 added", func() { f.replaceFile("agents/b.toml", sleeper("b", "")) })
	f.awaitAfter(event.ConfigRejected, "agents/b.toml:4:1", func() { f.replaceFile("agents/b.toml", sleeper("b", "comand = 1\n")) })
	if s := f.status(); !strings.Contains(s.Config.LastError, `agents/b.toml:4:1: unknown key "comand"`) {
		t.Errorf("the status says %q", s.Config.LastError)
	}
	f.awaitAfter(event.ConfigReloaded, "1 removed", func() {
		if err := os.Remove(filepath.Join(f.dir, "agents/b.toml")); err != nil {
			t.Fatal(err)
		}
	})
	f.awaitAfter(event.ConfigRejected, "nothing to run", func() {
		if err := os.Rename(filepath.Join(f.dir, "agents"), filepath.Join(f.dir, "gone")); err != nil {
			t.Fatal(err)
		}
	})
	f.replaceFile("gone/c.toml", sleeper("c", "")+sleeper("d", ""))
	f.awaitAfter(event.ConfigReloaded, "2 added", func() {
		if err := os.Rename(filepath.Join(f.dir, "gone"), filepath.Join(f.dir, "agents")); err != nil {
			t.Fatal(err)
		}
	})
	f.awaitState("t/c", "running")
	f.awaitState("t/d", "running")
	if n := f.node("t/a"); n.PID != a || n.State != "running" {
		t.Errorf("t/a is %+v, was process %d", n, a)
	}
}

// The example city runs, and reports its unsupported settings.
func TestCity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/city")); err != nil {
		t.Fatal(err)
	}
	f := fleetOf(t, dir)
	if out := f.do("validate"); !strings.Contains(out, "city.toml is valid: 4 agents (1 pool), 0 supervisors") || !strings.Contains(out, "city.toml:24:2: beads is not supported: ") {
		t.Errorf("validate says %s", out)
	}
	if out := f.do("up", "-d"); !strings.Contains(out, "orchard-city is up") || !strings.Contains(out, "city.toml:24:2: beads is not supported: ") {
		t.Errorf("up -d says %s", out)
	}
	f.awaitAfter(event.AgentStarted, "orchard--picker-2", func() {}) // as many as trees
	for path, want := range map[string]string{
		"mayor":                             "holds office in autumn",
		"clerk":                             "clerk writes, in winter: --book the big one",
		"orchard--picker/orchard--picker-1": "orchard/picker picks in orchard, with a large basket\n",
	} {
		r := newCoppice(t, "logs", "-f", "orchard-city/"+path)
		r.start(dir)
		r.out.await(t, path+": "+want, func() bool { return strings.Contains(r.out.String(), want) })
	}
	for path, want := range map[string]string{"mayor": "3 starts in 5m0s", "clerk": "3 starts in 5m0s"} {
		if n := f.node("orchard-city/" + path); !strings.Contains(n.Limit, want) {
			t.Errorf("the limit of %s is %q, want %s", path, n.Limit, want)
		}
	}
	orchard, err := os.ReadFile(filepath.Join(dir, "orchard.toml"))
	if err != nil {
		t.Fatal(err)
	}
	f.awaitAfter(event.ConfigReloaded, "1 added", func() {
		f.replaceFile("orchard.toml", string(orchard)+"\n[[agent]]\nname = \"owl\"\nstart_command = \"sleep 1000\"\n")
	})
	f.awaitState("orchard-city/owl", "running")
}

// A city of packs runs. Agents of the city and of a rig have directories that need not exist. A
// pool has as many instances as tasks, including those of an order of a pack.
func TestCityOfPacks(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("../internal/config/gascity/testdata/cities/town.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "packs/orchard/scripts/prepare.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := fleetOf(t, dir)
	if out := f.do("validate"); !strings.Contains(out, "packs/orchard/pack.toml:24:1: agent.mayor.prompt_template is not supported: ") {
		t.Errorf("validate says %s", out)
	}
	f.do("up", "-d")
	f.awaitIn("orchard/mayor", ".gc/agents/mayor")
	f.awaitIn("orchard/hill--watch", ".gc/agents/hill/watch")
	f.awaitIn("orchard/hill--wolf", "hill")
	f.do("task", "add", "pick", "--pool", "hill--picker")
	f.do("patrol")
	f.awaitIn("orchard/hill--picker/boskoop", ".gc/trees/hill/pickers/boskoop")
	eventually(t, "the task of an order", func() bool { return strings.Contains(f.do("task", "ls", "--pool", "dog"), "daily-report") })
	f.do("patrol")
	f.awaitIn("orchard/dog/dog-1", ".gc/agents/dogs/dog-1")
	f.awaitAfter(event.ConfigReloaded, "1 added", func() {
		f.replaceFile("new/owl/agent.toml", "scope = \"rig\"\n")
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "packs/orchard/agents")); err != nil {
			t.Fatal(err)
		}
	})
	f.awaitState("orchard/hill--owl", "running")
}

// awaitIn waits until an agent runs in a directory of the fleet.
func (f *fleet) awaitIn(path, dir string) {
	f.t.Helper()
	eventually(f.t, path+" is in "+dir, func() bool {
		want, err := filepath.EvalSymlinks(filepath.Join(f.dir, dir))
		if err != nil {
			return false
		}
		for _, n := range f.nodes() {
			at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", n.PID))
			if n.Path == path && at == want {
				return true
			}
		}
		return false
	})
}

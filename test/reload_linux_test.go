package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// replace replaces the file of a fleet atomically, as editors do.
func (f *fleet) replace(text string) {
	f.t.Helper()
	file := filepath.Join(f.dir, "coppice.toml")
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		f.t.Fatal(err)
	}
}

// awaitAfter calls do and waits for an event whose message contains these words.
func (f *fleet) awaitAfter(kind event.Type, words string, do func()) {
	f.t.Helper()
	r := newCoppice(f.t, "events", "-f", "--type", string(kind))
	r.start(f.dir)
	defer r.signal(syscall.SIGINT)
	do()
	r.out.await(f.t, string(kind)+" "+words, func() bool { return strings.Contains(r.out.String(), words) })
}

// A change of the file is noticed, and restarts only what differs.
func TestLiveReload(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	const project = "[project]\nname = \"t\"\n"
	sleeper := func(name string) string { return "[[agent]]\nname = \"" + name + "\"\ncommand = \"sleep 1000\"\n" }
	f := newFleet(t)
	f.replace(project + sleeper("a") + sleeper("b"))
	f.do("up", "-d")
	a := f.node("t/a").PID
	f.awaitAfter(event.ConfigReloaded, "1 added, 1 removed", func() { f.replace(project + sleeper("a") + sleeper("c")) })
	f.awaitState("t/c", "running")
	if n := f.node("t/a"); n.PID != a || n.State != "running" {
		t.Errorf("t/a is %+v, was process %d", n, a)
	}
	f.awaitAfter(event.ConfigRejected, "coppice.toml:3:1", func() { f.replace(project + "agent = 1\n" + sleeper("d")) })
	if s := f.status(); !strings.Contains(s.Config.LastError, "coppice.toml:3:1") {
		t.Errorf("the status says %q", s.Config.LastError)
	}
	if out, err := f.try("reload"); err == nil || !strings.Contains(out, "coppice.toml:3:1") {
		t.Errorf("reload: %v: %s", err, out)
	}
	f.awaitAfter(event.ConfigReloaded, "2 added", func() { f.replace(project + sleeper("a") + sleeper("c") + sleeper("e") + sleeper("f")) })
	if s := f.status(); s.Config.LastError != "" {
		t.Errorf("the status still says %q", s.Config.LastError)
	}
	if out := f.do("reload"); !strings.Contains(out, "nothing has changed") {
		t.Errorf("reload says %s", out)
	}
	if n := f.node("t/a"); n.PID != a {
		t.Errorf("t/a is process %d, was %d", n.PID, a)
	}
}

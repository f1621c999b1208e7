package slots

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// fixture has the slots of a test.
type fixture struct {
	*Kept
	t *testing.T
}

func newFixture(t *testing.T) fixture {
	return fixture{NewKept(filepath.Join(t.TempDir(), "slots")), t}
}

// slot returns the directory of the slot of an agent.
func (f fixture) slot(path string) string {
	f.t.Helper()
	slot, err := Dir(f.dir, path)
	if err != nil {
		f.t.Fatal(err)
	}
	return slot
}

// add writes files into a directory.
func (f fixture) add(dir string, files ...string) {
	f.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// keep makes the log of a slot that was removed some time ago.
func (f fixture) keep(path string, age time.Duration) (kept string) {
	f.t.Helper()
	kept = keptDir(f.slot(path))
	f.add(kept, logfile.Name)
	at := time.Now().Add(-age)
	err := os.WriteFile(filepath.Join(kept, pathFile), []byte(path), 0o600)
	if err == nil {
		err = os.Chtimes(kept, at, at)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return kept
}

func (f fixture) discard(path string) {
	f.t.Helper()
	if err := f.Discard(f.slot(path), path); err != nil {
		f.t.Fatal(err)
	}
}

// wantRemoved checks of which agents a log is kept.
func (f fixture) wantRemoved(expected ...string) {
	f.t.Helper()
	all, err := f.Removed()
	if slices.Sort(all); err != nil || !slices.Equal(all, expected) {
		f.t.Errorf("%q, %v, expected %q", all, err, expected)
	}
}

// wantLog checks where the log of an agent is.
func (f fixture) wantLog(path, dir string) {
	f.t.Helper()
	if file, err := LogFile(f.dir, path); err != nil || file != filepath.Join(dir, logfile.Name) {
		f.t.Errorf("%s, %v", file, err)
	}
}

// filesIn returns the names of the files in a directory.
func filesIn(dir string) string {
	var all []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// The log of a slot outlives it, and no other file does. A new slot goes on with it.
func TestKeep(t *testing.T) {
	t.Parallel()
	const log = "output.log output.log.1 output.times.ab"
	f := newFixture(t)
	slot, kept := f.slot("t/a"), keptDir(f.slot("t/a"))
	f.add(slot, append(strings.Fields(log), "lock", "state.json", "outputs")...)
	for range 2 {
		f.discard("t/a")
		if got := filesIn(kept); filesIn(f.dir) != "" || got != log+" path" {
			t.Fatalf("%q, %q", filesIn(f.dir), got)
		}
	}
	f.wantLog("t/a", kept)
	f.wantRemoved("t/a")
	f.add(slot, "lock")
	for range 2 {
		if err := Restore(slot); err != nil {
			t.Fatal(err)
		}
		if got := filesIn(slot); got != "lock "+log || filesIn(filepath.Dir(kept)) != "" {
			t.Fatalf("%q, %q", got, filesIn(filepath.Dir(kept)))
		}
	}
	f.wantLog("t/a", slot)
	f.wantRemoved()
}

// A slot without a log leaves nothing, and what a slot has written again is not replaced.
func TestKeepNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slot := f.slot("t/a")
	f.add(slot, "lock")
	f.discard("t/a")
	f.wantRemoved()
	f.wantLog("t/a", slot)
	f.add(slot, logfile.Name)
	f.discard("t/a")
	f.add(slot)
	if err := os.WriteFile(filepath.Join(slot, logfile.Name), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Restore(slot); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(slot, logfile.Name)); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
}

// What is kept is bounded, and the latest is kept. It is deleted with the first slot that a process discards, and then
// with every 100th.
func TestKeepBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := filepath.Dir(f.keep("t/old", keepTime+time.Second))
	f.wantRemoved() // it is too old
	large := f.keep("t/large", 2*time.Hour)
	if err := os.Truncate(filepath.Join(large, logfile.Name), keepBytes); err != nil {
		t.Fatal(err)
	}
	for i := range keepSlots + 10 {
		f.keep(fmt.Sprint("t/", i), time.Duration(i+1)*time.Minute/100)
	}
	discard := func(path string) int {
		t.Helper()
		f.add(f.slot(path), logfile.Name)
		f.discard(path)
		return len(strings.Fields(filesIn(all)))
	}
	if n := discard("t/first"); n != keepSlots {
		t.Errorf("%d are kept", n)
	}
	for _, path := range []string{"t/old", "t/large", "t/1009"} {
		if _, err := os.Lstat(keptDir(f.slot(path))); err == nil {
			t.Errorf("%s is kept", path)
		}
	}
	for i := 1; i < pruneEvery; i++ {
		if n := discard(fmt.Sprint("t/more/", i)); n != keepSlots+i {
			t.Errorf("%d are kept", n)
		}
	}
	if n := discard("t/last"); n != keepSlots {
		t.Errorf("%d are kept", n)
	}
	f.wantLog("t/last", keptDir(f.slot("t/last")))
}

// A log of more than what may be kept of all takes the older ones with it.
func TestKeepBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, path := range []string{"t/new", "t/large", "t/older"} {
		kept := f.keep(path, time.Duration(i+1)*time.Hour)
		if path == "t/large" {
			if err := os.Truncate(filepath.Join(kept, logfile.Name), keepBytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := prune(f.dir+keptSuffix, time.Now()); err != nil {
		t.Fatal(err)
	}
	f.wantRemoved("t/new")
}

// A directory with another name than that of its path, and a link, are none of ours.
func TestKeptByOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other, link := f.keep("t/other", 0), f.keep("t/link", 0)
	err := os.WriteFile(filepath.Join(other, pathFile), []byte("t/1"), 0o600)
	if err == nil {
		err = os.Remove(filepath.Join(link, pathFile))
	}
	file := filepath.Join(t.TempDir(), "elsewhere")
	if err == nil {
		err = os.WriteFile(file, []byte("t/link"), 0o600)
	}
	if err == nil {
		err = os.Symlink(file, filepath.Join(link, pathFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	f.wantRemoved()
}

// Overdue names what prune would delete, and deletes nothing.
func TestOverdue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if all, err := Overdue(f.dir, time.Now()); len(all) != 0 || err != nil {
		t.Errorf("without logs: %q, %v", all, err)
	}
	young, old := f.keep("t/young", keepTime-time.Hour), f.keep("t/old", keepTime+time.Hour)
	if all, err := Overdue(f.dir, time.Now()); !slices.Equal(all, []string{old}) || err != nil {
		t.Errorf("%q, %v, expected %s", all, err, old)
	}
	for _, dir := range []string{young, old} {
		if _, err := os.Stat(filepath.Join(dir, logfile.Name)); err != nil {
			t.Error(err)
		}
	}
}

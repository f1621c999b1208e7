package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// newSlot makes the directory of a slot with some files.
func newSlot(t *testing.T, name string, files ...string) string {
	t.Helper()
	slot := filepath.Join(t.TempDir(), "slots", name)
	addFiles(t, slot, files...)
	return slot
}

func addFiles(t *testing.T, dir string, files ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
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

func nameOf(path string) (string, error) { return strings.ReplaceAll(path, "/", "-"), nil }

// The log of a slot outlives it, and no other file does. A new slot goes on with it.
func TestKeep(t *testing.T) {
	t.Parallel()
	const log = "output.log output.log.1 output.times.ab"
	slot := newSlot(t, "t-a", append(strings.Fields(log), "lock", "state.json", "outputs")...)
	slots := filepath.Dir(slot)
	for range 2 {
		if err := Discard(slot, "t/a"); err != nil {
			t.Fatal(err)
		}
		if got := filesIn(slots + keptSuffix + "/t-a"); filesIn(slots) != "" || got != log+" path" {
			t.Fatalf("%q, %q", filesIn(slots), got)
		}
	}
	if file := Find(slot); file != filepath.Join(slots+keptSuffix, "t-a", Name) {
		t.Error(file)
	}
	if all, err := Kept(slots, nameOf); err != nil || !slices.Equal(all, []string{"t/a"}) {
		t.Errorf("%q, %v", all, err)
	}
	addFiles(t, slot, "lock")
	for range 2 {
		if err := Restore(slot); err != nil {
			t.Fatal(err)
		}
		if got := filesIn(slot); got != "lock "+log || filesIn(slots+keptSuffix) != "" {
			t.Fatalf("%q, %q", got, filesIn(slots+keptSuffix))
		}
	}
	if file := Find(slot); file != filepath.Join(slot, Name) {
		t.Error(file)
	}
	if all, err := Kept(slots, nameOf); err != nil || len(all) > 0 {
		t.Errorf("%q, %v", all, err)
	}
}

// A slot without a log leaves nothing, and what a slot has written again is not replaced.
func TestKeepNothing(t *testing.T) {
	t.Parallel()
	slot := newSlot(t, "t-a", "lock")
	if err := Discard(slot, "t/a"); err != nil || filesIn(filepath.Dir(slot)+keptSuffix) != "" {
		t.Errorf("%v, %q", err, filesIn(filepath.Dir(slot)+keptSuffix))
	}
	addFiles(t, slot, Name)
	if err := Discard(slot, "t/a"); err != nil {
		t.Fatal(err)
	}
	addFiles(t, slot)
	if err := os.WriteFile(filepath.Join(slot, Name), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Restore(slot); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(slot, Name)); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
}

// What is kept is bounded, and the latest is kept. Directories with another name than that of their path, and links,
// are none of ours.
func TestKeepBounds(t *testing.T) {
	t.Parallel()
	slot := newSlot(t, "t-0")
	slots, now := filepath.Dir(slot), time.Now()
	keep := func(name string, age time.Duration) string {
		dir := filepath.Join(slots+keptSuffix, name)
		addFiles(t, dir, Name)
		if err := os.WriteFile(filepath.Join(dir, pathFile), []byte(strings.ReplaceAll(name, "-", "/")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for i := range keepSlots + 10 {
		keep(fmt.Sprint("t-", i), time.Duration(i)*time.Second)
	}
	keep("t-old", keepTime+time.Second)
	large := keep("t-large", 5*time.Second/2)
	if err := os.Truncate(filepath.Join(large, Name), keepBytes); err != nil {
		t.Fatal(err)
	}
	if err := pruneKept(slots+keptSuffix, now); err != nil {
		t.Fatal(err)
	}
	all, err := Kept(slots, nameOf)
	if slices.Sort(all); err != nil || !slices.Equal(all, []string{"t/0", "t/1", "t/2"}) {
		t.Errorf("with a large one: %q, %v", all, err)
	}
	for i := range keepSlots + 10 {
		keep(fmt.Sprint("t-", i), time.Duration(i)*time.Second)
	}
	if err := pruneKept(slots+keptSuffix, now); err != nil {
		t.Fatal(err)
	}
	if all, err = Kept(slots, nameOf); err != nil || len(all) != keepSlots || slices.Contains(all, "t/1009") {
		t.Errorf("%d, %v", len(all), err)
	}
	other := keep("other", 0)
	if err := os.WriteFile(filepath.Join(other, pathFile), []byte("t/1"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := keep("link", 0)
	os.Remove(filepath.Join(link, pathFile))
	if err := os.Symlink(filepath.Join(other, pathFile), filepath.Join(link, pathFile)); err != nil {
		t.Fatal(err)
	}
	if all, err = Kept(slots, nameOf); err != nil || len(all) != keepSlots {
		t.Errorf("%d, %v", len(all), err)
	}
}

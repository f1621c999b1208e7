package filewatch

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, w *Watcher, what string) {
	t.Helper()
	select {
	case <-w.Changed():
	case <-time.After(60 * time.Second):
		t.Fatal("there was no notice that " + what)
	}
}

func TestWatch(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "project")
	file, other := filepath.Join(dir, "a.toml"), filepath.Join(dir, "b.toml")
	write(t, file, "1")
	w := New(Set{Files: []string{file}, Dirs: []string{dir}}, slog.New(slog.DiscardHandler))
	defer func() { w.Close(); <-w.ended }()
	write(t, file, "22")
	await(t, w, "it was written")

	// Editors replace a file by renaming a new one.
	write(t, filepath.Join(dir, ".a.swp"), "333")
	if err := os.Rename(filepath.Join(dir, ".a.swp"), file); err != nil {
		t.Fatal(err)
	}
	await(t, w, "it was replaced")
	write(t, file, "4444")
	await(t, w, "what has replaced it was written")

	write(t, other, "1") // a pattern may match it
	await(t, w, "there is a new file")

	// The directory is removed, and created again later.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	await(t, w, "the directory is gone")
	write(t, file, "55555")
	await(t, w, "the directory is back")
	for settled := false; !settled; { // further notices about it
		select {
		case <-w.Changed():
		case <-time.After(2*Every + 2*Quiet):
			settled = true
		}
	}
	write(t, file, "666666")
	await(t, w, "it was written in the directory that is back")

	far := filepath.Join(root, "far", "c.toml")
	w.Watch(Set{Files: []string{far}, Dirs: []string{filepath.Dir(far)}})
	write(t, far, "1")
	await(t, w, "what is watched now was made with its directory")
}

// Polling alone finds changes.
func TestLook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	file := filepath.Join(dir, "a")
	write(t, file, "1")
	v := newView(Set{Files: []string{file}, Dirs: []string{dir}})
	v.watch(nil)
	look := func(want bool, what string) {
		t.Helper()
		if got := v.poll(nil); got != want {
			t.Errorf("%s: looks different: %v, want %v", what, got, want)
		}
	}
	look(false, "nothing happened")
	write(t, file, "22")
	look(true, "another size")
	if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	look(true, "another time")
	look(false, "nothing happened")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	look(true, "gone")
	look(false, "still gone")
	write(t, file, "22")
	look(true, "back")
	look(false, "nothing happened")
}

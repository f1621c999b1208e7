package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A .coppice in a checkout or shared directory may come from a stranger. Nothing outside of it is
// written or changed through its links.
func TestLinksInStateDirectory(t *testing.T) {
	t.Parallel()
	const content = "not ours\n"
	for _, name := range []string{
		"controller.lock", "daemon.log", "ended.json", ".gitignore",
		"state.db", "state.db-wal", "state.db-shm", "state.db.lock", "state.db.mark",
		"run", "tmux", "errands", "aide", "daemon.sock", "run/slot",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, agentTOML("a", sleeper))
			state, target := filepath.Join(f.dir, ".coppice"), filepath.Join(t.TempDir(), "target")
			dir := !strings.Contains(name, ".")
			if dir {
				if err := os.Mkdir(target, 0o755); err != nil {
					t.Fatal(err)
				}
			} else {
				write(t, target, content)
			}
			if err := os.Chmod(target, 0o755); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(state, name)
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			out, err := f.try("up", "-d")
			if err == nil || !strings.Contains(out, link+" is a symbolic link") || !strings.Contains(out, "remove it") {
				t.Errorf("up: %v: %s", err, out)
			}
			info, err := os.Stat(target)
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Fatalf("the target of the link: %v, %v", info, err)
			}
			if dir {
				if made, _ := os.ReadDir(target); len(made) > 0 {
					t.Errorf("written through the link: %v", made)
				}
			} else if text, _ := os.ReadFile(target); string(text) != content {
				t.Errorf("written through the link: %q", text)
			}
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
			f.do("up", "-d")
			if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the directory of the state: %v, %v", info.Mode(), err)
			}
		})
	}
}

// The state directory must belong to this user and not be a link.
func TestForeignStateDirectory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper))
	state := filepath.Join(f.dir, ".coppice")
	if err := os.Symlink(t.TempDir(), state); err != nil {
		t.Fatal(err)
	}
	out, err := f.try("up", "-d")
	if err == nil || !strings.Contains(out, state+" is a symbolic link") {
		t.Errorf("a link: %v: %s", err, out)
	}
	if out, _ := f.try("doctor"); !strings.Contains(out, "is a symbolic link") {
		t.Errorf("doctor: %s", out)
	}
	if os.Getuid() != 0 {
		t.Skip("to give a directory away needs root")
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"up", "run", "doctor"} {
		out, err := f.try(command)
		want := fmt.Sprintf("%s belongs to user 65534, not to user 0; remove it, or run coppice as its owner", state)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	if made, _ := os.ReadDir(state); len(made) > 0 {
		t.Errorf("made in the directory of another user: %v", made)
	}
}

// Links in the slot of an agent are not followed either.
func TestLinksInSlot(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "echo hello; exec sleep 1000"))
	f.do("up", "-d")
	f.do("down")
	slots, _ := filepath.Glob(filepath.Join(f.dir, ".coppice", "run", "*-a"))
	if len(slots) != 1 {
		t.Fatal(slots)
	}
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, "")
	for _, name := range []string{"output.log", "shim.log", ".exit.json", ".exit.json.sync"} {
		os.Remove(filepath.Join(slots[0], name))
		if err := os.Symlink(target, filepath.Join(slots[0], name)); err != nil {
			t.Fatal(err)
		}
	}
	f.try("up", "-d") // it may fail
	f.try("down")
	if text, _ := os.ReadFile(target); len(text) > 0 {
		t.Errorf("written through a link: %.200q", text)
	}
}

package test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

const remembers = `[agent.beliefs]
x = { type = "int", persistent = true }

`

func (f *fleet) state(name string) string { return filepath.Join(f.dir, ".coppice", name) }

// A store emptied or removed while no daemon ran is not silently replaced: up refuses, and explains
// the options.
func TestLostStoreRefused(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(db string) error{
		"emptied": func(db string) error { return os.Truncate(db, 0) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, agentTOML("a", sleeper)+remembers)
			f.do("up", "-d")
			f.do("belief", "set", "a", "x=5")
			epoch := f.lastEvent().Epoch
			f.do("down")
			if err := harm(f.state("state.db")); err != nil {
				t.Fatal(err)
			}
			for _, command := range [][]string{{"up", "-d"}, {"up"}, {"run"}} {
				f.wantFailure(1, command, "cannot be used", "coppice restore FILE", "coppice doctor --fix")
			}
			f.wantFailure(1, []string{"doctor"}, "problem", "coppice restore FILE", "coppice doctor --fix")
			f.do("doctor", "--fix")
			f.do("up", "-d")
			last := f.lastEvent()
			if last.Epoch == epoch || last.Epoch == "" {
				t.Errorf("the epoch is %q as before", last.Epoch)
			}
			// A reader of the old log is told.
			all := f.eventsOf("--after", "2", "--epoch", epoch)
			if len(all) < 2 || all[0].Type != event.EventsReset || all[1].Seq != 1 {
				t.Errorf("after an event of another epoch: %+v", all)
			}
			if all := f.eventsOf("--after", "2", "--epoch", last.Epoch); len(all) == 0 || all[0].Seq != 3 {
				t.Errorf("after an event of this epoch: %+v", all)
			}
		})
	}
}

// eventsOf reads events as programs do.
func (f *fleet) eventsOf(flags ...string) (all []event.Event) {
	f.t.Helper()
	for line := range strings.Lines(f.do(append([]string{"events", "--json"}, flags...)...)) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func (f *fleet) lastEvent() event.Event {
	f.t.Helper()
	all := f.eventsOf("-n", "1")
	if len(all) != 1 {
		f.t.Fatalf("%d events", len(all))
	}
	return all[0]
}

// Without the journal of a killed daemon, changes may be missing.
func TestLostLogRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.do("up", "-d")
	f.do("belief", "set", "a", "x=5")
	f.crash()
	if err := os.Remove(f.state("state.db-wal")); err != nil {
		t.Fatal(err)
	}
	if out, err := f.try("up", "-d"); err != nil {
		if !strings.Contains(out, "its last changes are gone") || !strings.Contains(out, "coppice doctor --fix") {
			t.Errorf("up: %s", out)
		}
		f.do("doctor", "--fix")
		f.do("up", "-d")
	} else if x := f.belief("a", "x"); !strings.Contains(x, "5") {
		t.Errorf("x is %q", x)
	}
}

// Changes acknowledged after the file was emptied are there for the next daemon.
func TestStoreEmptiedLive(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.do("up", "-d")
	if err := os.Truncate(f.state("state.db"), 0); err != nil {
		t.Fatal(err)
	}
	f.do("belief", "set", "a", "x=5")
	f.crash()
	f.do("up", "-d")
	if x := f.belief("a", "x"); !strings.Contains(x, "5") {
		t.Errorf("x is %q", x)
	}
	if err := os.Truncate(f.state("state.db"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "word of it in the log", func() bool {
		told, _ := f.history()
		return told["store.restored  0"] == 1
	})
	f.do("down")
	f.do("up", "-d")
	if x := f.belief("a", "x"); !strings.Contains(x, "5") {
		t.Errorf("after another truncation x is %q", x)
	}
}

// If nothing else is left, the slots show that there was state.
func TestStoreRemovedWithMark(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.do("up", "-d")
	f.do("down")
	files, _ := filepath.Glob(f.state("state.db*"))
	for _, name := range files {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	f.do("up", "-d")
	told, _ := f.history()
	if told["store.damaged  0"] != 1 {
		t.Errorf("no word of it: %v", told)
	}
	f.do("down")
	f.do("up", "-d")
	if told, _ := f.history(); told["store.damaged  0"] != 1 {
		t.Errorf("told again: %v", told)
	}
}

// A record that the disk has corrupted affects only itself, and is reported everywhere.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.do("up", "-d")
	f.do("belief", "set", "a", "x=5")
	events := f.eventsOf()
	f.do("down")
	const key = "events/00000000000000000002"
	data, err := os.ReadFile(f.state("state.db"))
	if err != nil {
		t.Fatal(err)
	}
	// Each flipped bit is in the value of one event.
	i := bytes.Index(data, []byte(key))
	if i < 0 {
		t.Fatal("no such record")
	}
	data[i+len(key)+20] ^= 1
	write(t, f.state("state.db"), string(data))
	f.wantFailure(1, []string{"doctor"}, "problem", key)
	f.do("up", "-d")
	all := f.eventsOf()
	if len(all) < len(events) || all[0].Seq != 1 || all[1].Seq != 2 || all[1].Type != event.Unreadable || all[2].Seq != 3 {
		t.Errorf("events: %+v", all)
	}
	if x := f.belief("a", "x"); !strings.Contains(x, "5") {
		t.Errorf("x is %q", x)
	}
	eventually(t, "word of it in the log", func() bool {
		return slices.ContainsFunc(f.eventsOf(), func(e event.Event) bool {
			return e.Type == event.StoreDamaged && strings.Contains(e.Message, key)
		})
	})
	if s := f.status(); s.Store.OK || !strings.Contains(s.Store.Error, key) {
		t.Errorf("status: %+v", s.Store)
	}
	f.do("down")
	f.do("doctor", "--fix")
	f.do("doctor")
	f.do("up", "-d")
	if x := f.belief("a", "x"); !strings.Contains(x, "5") {
		t.Errorf("after the repair x is %q", x)
	}
}

// Text quoted from a damaged or foreign store does not act on the terminal.
func TestDamagedStoreQuotedPlainly(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper))
	if err := os.Mkdir(f.state(""), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), f.state("state.db"))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	file, err := os.ReadFile(f.state("state.db"))
	if err != nil {
		t.Fatal(err)
	}
	const clear = "\u009b2J" // C1: SQLite takes it for a word, and names it
	write(t, f.state("state.db"), string(bytes.ReplaceAll(file, []byte("STRICT"), []byte(clear+"CT"))))
	for _, command := range [][]string{{"up", "-d"}, {"task", "ls"}, {"doctor"}} {
		out, err := f.try(command...)
		if err == nil || !strings.Contains(out, "unknown table option") || strings.Contains(out, clear) {
			t.Errorf("coppice %q: %v: %q", command, err, out)
		}
	}
}

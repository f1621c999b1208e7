package test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// printed returns what a command that must succeed prints on its standard output.
func (f *fleet) printed(args ...string) string {
	f.t.Helper()
	r := launch(f.t, f.dir, args...)
	r.wantExit(0)
	return r.out.String()
}

// printedEvents reads all events, with a daemon or without.
func (f *fleet) printedEvents() (all []event.Event) {
	f.t.Helper()
	d := json.NewDecoder(strings.NewReader(f.printed("events", "--json")))
	for {
		var e event.Event
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			f.t.Fatal(err)
		}
		all = append(all, e)
	}
}

// A daemon on a copy of the store knows all that the one on the original knew, and counts on.
func TestStoreCopy(t *testing.T) {
	t.Parallel()
	agents := agentTOML("a", sleeper) + remembers
	f := newFleet(t, agents)
	copied := filepath.Join(f.dir, "copy.db")
	f.do("up", "-d")
	f.do("belief", "set", "a", "x=5")
	first := f.add("to be done")
	f.do("task", "close", f.add("done already"))
	f.do("mail", "send", "people", "-m", "good morning")
	f.wantFailure(1, []string{"store", "copy", "sqlite", "sqlite:copy.db"}, "a daemon is already running for")
	f.crash()
	f.wantFailure(1, []string{"store", "copy", "sqlite", "sqlite:copy.db"}, "t/a still run without a daemon",
		"would not match the copy", "coppice down")
	f.do("down")

	out := f.do("store", "copy", "sqlite", "sqlite:copy.db")
	for _, want := range []string{" copied and verified", "to   sqlite:" + copied, "[persistence]", `path = "` + copied + `"`,
		"coppice up -d"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") || strings.Contains(out, "verifying") {
		t.Errorf("progress is shown where no terminal is:\n%s", out)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	f.wantFailure(1, []string{"store", "copy", "sqlite", "sqlite:copy.db"}, "the store is not empty", "new file or prefix")
	seen := func() (all []string) {
		t.Helper()
		for _, args := range [][]string{{"task", "ls", "--json", "--all"}, {"belief", "get", "a", "x"}, {"mail", "ls", "--json"}} {
			all = append(all, f.printed(args...))
		}
		return all
	}
	tasks, events := seen(), f.printedEvents()
	last := events[len(events)-1]

	f.rewrite(agents, "[persistence]\npath = \"copy.db\"\n")
	for i, got := range seen() { // without a daemon
		if got != tasks[i] {
			t.Errorf("the copy shows\n%s\nwant\n%s", got, tasks[i])
		}
	}
	f.do("up", "-d")
	f.awaitState("t/a", "running")
	for i, got := range seen() {
		if got != tasks[i] {
			t.Errorf("the daemon on the copy shows\n%s\nwant\n%s", got, tasks[i])
		}
	}
	now := f.printedEvents()
	if len(now) <= len(events) {
		t.Fatalf("%d events, the original has %d", len(now), len(events))
	}
	epoch := now[0].Epoch
	for i, e := range now {
		if e.Epoch != epoch || i > 0 && e.Seq != now[i-1].Seq+1 {
			t.Errorf("event %d of epoch %s after %d of epoch %s", e.Seq, e.Epoch, now[max(0, i-1)].Seq, epoch)
		}
		if i < len(events) && (e.Seq != events[i].Seq || e.Message != events[i].Message || e.Type != events[i].Type) {
			t.Errorf("event %d is %q, was %q", e.Seq, e.Message, events[i].Message)
		}
	}
	if epoch == last.Epoch {
		t.Error("the events of the copy have the epoch of the original, which may go on")
	}
	if n := f.node("t/a").Incarnation; n != 2 {
		t.Errorf("incarnation %d, the original had 1", n)
	}
	if got := f.belief("a", "x"); got != "5" {
		t.Errorf("x is %s", got)
	}
	next := f.add("new")
	for _, id := range []string{first, next} {
		if got := f.task(id).ID; got != id {
			t.Errorf("task %s is %s", id, got)
		}
	}
	if strings.Contains(tasks[0], `"`+next+`"`) {
		t.Errorf("the id %s is used again", next)
	}
	f.do("mail", "send", "people", "-m", "good evening")
	if all := f.printed("mail", "ls"); !strings.Contains(all, "m-1 ") || !strings.Contains(all, "m-2 ") ||
		!strings.Contains(all, "good morning") {
		t.Errorf("mail: %s", all)
	}
	f.awaitEvent(event.TaskCreated, "", last.Seq)
	f.do("down")

	// And back: the original is as it was, so it is not empty; the place of a new one is.
	f.wantFailure(1, []string{"store", "copy", "sqlite:copy.db", "sqlite:.coppice/state.db"}, "the store is not empty")
	var report struct {
		From, To, SHA256   string
		Records, Sequences int
		Bytes, Epoch       int64
		Damaged            []string
	}
	if err := json.Unmarshal([]byte(f.do("store", "copy", "sqlite", "sqlite:back.db", "--json")), &report); err != nil {
		t.Fatal(err)
	}
	if report.From != "sqlite:"+copied || report.To != "sqlite:"+filepath.Join(f.dir, "back.db") || report.Records < 10 ||
		report.Sequences != 1 || len(report.SHA256) != 64 || report.Bytes < 100 || report.Damaged == nil {
		t.Errorf("%+v", report)
	}
}

// A copy in etcd that is copied back is the store that it was.
func TestStoreCopyEtcd(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1, TLS: true})
	agents := agentTOML("a", sleeper) + remembers
	f := newFleet(t, agents)
	f.do("up", "-d")
	f.do("belief", "set", "a", "x=5")
	first := f.add("to be done")
	f.do("mail", "send", "people", "-m", "good morning")
	f.do("down")
	events := f.printedEvents()
	url := c.URL("fleets/one")
	if out := f.do("store", "copy", "sqlite", url); !strings.Contains(out, " copied and verified") ||
		strings.Contains(out, "start the daemon") {
		t.Errorf("the output is %s", out)
	}
	f.wantFailure(1, []string{"store", "copy", "sqlite", url}, "the store is not empty", "new file or prefix")
	f.do("store", "copy", url, "sqlite:back.db")
	f.rewrite(agents, "[persistence]\npath = \"back.db\"\n")
	f.do("up", "-d")
	f.awaitState("t/a", "running")
	now := f.printedEvents()
	if len(now) <= len(events) {
		t.Fatalf("%d events, the original has %d", len(now), len(events))
	}
	for i, e := range events {
		if now[i].Seq != e.Seq || now[i].Message != e.Message {
			t.Errorf("event %d is %q, was %d, %q", now[i].Seq, now[i].Message, e.Seq, e.Message)
		}
	}
	if got := f.belief("a", "x"); got != "5" {
		t.Errorf("x is %s", got)
	}
	if next := f.add("new"); f.task(first).ID != first || next == first {
		t.Errorf("task %s after %s", next, first)
	}
	f.do("down")
}

// What cannot be copied is refused with the reason, and makes no file.
func TestStoreCopyRefuses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.wantFailure(1, []string{"store", "copy", "sqlite", "sqlite:b.db"}, "state.db", "does not exist")
	f.do("up", "-d")
	f.do("down")
	f.wantFailure(2, []string{"store", "copy", "sqlite"}, "takes two arguments")
	f.wantFailure(2, []string{"store", "copy", "sqlite", "b.db"}, `"b.db" is no store`, "sqlite:FILE")
	f.wantFailure(2, []string{"store", "copy", "sqlite", "sqlite:.coppice/state.db"}, "both are the same store")
	f.wantFailure(2, []string{"store", "copy", "sqlite", "etcd://"}, `"" is not HOST or HOST:PORT`)
	write(t, filepath.Join(f.dir, "text.db"), "a letter, longer than the head of a file")
	f.wantFailure(1, []string{"store", "copy", "sqlite:text.db", "sqlite:b.db"}, "text.db", "no SQLite database")
	f.wantFailure(1, []string{"store", "copy", "sqlite", "sqlite:text.db"}, "text.db", "no SQLite database")
	if _, err := os.Lstat(filepath.Join(f.dir, "b.db")); err == nil {
		t.Error("b.db was made")
	}
	f.rewrite(agentTOML("a", sleeper), "[persistence]\nbackend = \"memory\"\n")
	f.wantFailure(2, []string{"store", "copy", "sqlite", "sqlite:b.db"}, "is in memory")
	f.rewrite("[project\n")
	f.wantFailure(78, []string{"store", "copy", "sqlite", "sqlite:b.db"}, "coppice.toml")
}

// A copy that is interrupted makes no store, and one that is killed none that is not empty.
func TestStoreCopyInterrupted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper))
	from, err := sqlite.Open(t.Context(), filepath.Join(f.dir, "from.db"))
	if err != nil {
		t.Fatal(err)
	}
	const records = 100_000
	err = from.Import(t.Context(), func(yield func(store.Entry, error) bool) {
		for i := range records {
			if !yield(store.Entry{Kind: store.RecordEntry, Key: store.SequenceKey("a", uint64(i)), Value: make([]byte, 300)}, nil) {
				return
			}
		}
	})
	if err = errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(f.dir, "copy.db")
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGKILL, -1}} {
		r := launch(t, f.dir, "store", "copy", "sqlite:from.db", "sqlite:copy.db")
		eventually(t, "the log of the copy", func() bool {
			info, err := os.Stat(copied + "-wal")
			return err == nil && info.Size() > 1<<20
		})
		r.signal(c.signal)
		r.wantExit(c.code)
		if r.out.String() != "" {
			t.Errorf("%v: %s", c.signal, r.out)
		}
		if _, err := os.Lstat(copied); c.code == 130 && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("interrupted, the file is left: %v", err)
		}
	}
	s, err := sqlite.Open(t.Context(), copied)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Export(t.Context()) {
		t.Errorf("the copy has %v, %v", e, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if out := f.do("store", "copy", "sqlite:from.db", "sqlite:copy.db"); !strings.Contains(out, "100,000 records") {
		t.Errorf("the third copy: %s", out)
	}
}

package deadline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

const boot = "b1"

func TestParse(t *testing.T) {
	t.Parallel()
	const now = Instant(time.Hour)
	for text, want := range map[string]struct {
		deadline Deadline
		err      string
	}{
		`{"version":1,"boot":"b1","until":5}`:                   {Deadline{until: 5}, ""},
		`{"version":1,"boot":"b1"}`:                             {Deadline{}, ""},
		`{"version":1,"boot":"b1","left":"n2"}`:                 {Deadline{left: "n2"}, ""},
		`{"version":1,"boot":"b0","left":"n2"}`:                 {Deadline{}, ""},
		`{"version":1,"boot":"b1","until":5,"left":"n2"}`:       {Deadline{}, "has time nevertheless"},
		`{"version":1,"boot":"b1","left":"\u001b[31m"}`:         {Deadline{}, "other characters"},
		`{"version":1,"none":true,"left":"n2"}`:                 {Deadline{}, "not a deadline"},
		`{"version":1,"none":true}`:                             {Deadline{none: true}, ""},
		`{"version":1,"boot":"b0","until":5}`:                   {Deadline{}, ""}, // an earlier boot
		`{"version":1,"boot":"b0","until":9223372036854775807}`: {Deadline{}, ""},
		`{"version":1,"boot":"b1","until":90000000000000}`:      {Deadline{until: 90000000000000}, ""}, // a day ahead
		`{"version":1,"boot":"b1","until":90000000000001}`:      {Deadline{}, "expected at most 24h0m0s"},
		`{"version":1,"boot":"b1","until":-5}`:                  {Deadline{}, "negative"},
		`{"version":1,"boot":"b1","until":9223372036854775808}`: {Deadline{}, "not a deadline"},
		`{"version":1,"none":true,"boot":"b1","until":5}`:       {Deadline{}, "not a deadline"},
		`{"version":1,"until":5}`:                               {Deadline{}, "ID of the boot"},
		`{"version":2,"boot":"b1","until":5}`:                   {Deadline{}, "unknown version 2, expected 1"},
		`{"version":1,"boot":"b1","until":5`:                    {Deadline{}, "not a deadline"},
		`{"version":1,"boot":"b1","until":5}{"none":true}`:      {Deadline{}, "not a deadline"},
		"":     {Deadline{}, "not a deadline"},
		"null": {Deadline{}, "unknown version"},
		"\x00": {Deadline{}, "not a deadline"},
	} {
		d, err := parse([]byte(text), boot, now)
		if d != want.deadline || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %+v, %v; want %+v, %s", text, d, err, want.deadline, want.err)
		}
	}
}

// Whatever is in the file, it is never a deadline that is too far ahead.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"boot":"b1","until":5}`), int64(4))
	f.Add([]byte(`{"version":1,"none":true}`), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, at int64) {
		now := Instant(max(0, at))
		d, err := parse(text, boot, now)
		switch {
		case err != nil && d != (Deadline{}):
			t.Errorf("%+v and %v", d, err)
		case d.until < 0 || d.until > now.Add(maxAhead), d.until != 0 && (d.none || d.left != ""):
			t.Errorf("%+v", d)
		}
	})
}

func TestAddDoesNotOverflow(t *testing.T) {
	t.Parallel()
	if got := Instant(5).Add(1<<63 - 1); got != 1<<63-1 {
		t.Errorf("%d", got)
	}
	if got := Instant(5).Add(-3); got != 2 {
		t.Errorf("%d", got)
	}
}

// now returns the time.
func now(t testing.TB) Instant {
	t.Helper()
	n, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newWriter(t testing.TB, path string) *Writer {
	t.Helper()
	w, err := NewWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deadline")
	begin := now(t)
	must(t, Check(path)) // no file
	must(t, Check(""))
	w := newWriter(t, path)
	wants := func(want Deadline) {
		t.Helper()
		if d, err := Load(path); err != nil || d != want {
			t.Errorf("%+v, %v; want %+v", d, err, want)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	first, second := begin.Add(time.Hour), begin.Add(2*time.Hour)
	must(t, w.Move(second))
	must(t, w.Move(first))
	wants(Deadline{until: second})
	must(t, Check(path))

	w = newWriter(t, path) // of the next daemon
	must(t, w.Move(first))
	wants(Deadline{until: second})
	must(t, w.Expire())
	wants(Deadline{})
	if err := Check(path); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("after the end: %v", err)
	}
	must(t, w.Leave("n2"))
	wants(Deadline{left: "n2"})
	if err := Check(path); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("after the node has left: %v", err)
	}
	must(t, w.Move(first))
	wants(Deadline{until: first})
	must(t, w.Lift())
	wants(Deadline{none: true})
	must(t, Check(path))
	must(t, w.Move(1))
	wants(Deadline{until: 1})
	if err := Check(path); !errors.Is(err, runtime.ErrFenced) || !strings.Contains(err.Error(), "since ") {
		t.Errorf("after the deadline: %v", err)
	}
	if err := w.Move(begin.Add(48 * time.Hour)); err == nil {
		t.Error("a deadline in two days is written")
	}
	must(t, os.WriteFile(path, []byte("{"), 0o600))
	must(t, newWriter(t, path).Move(first)) // over a damaged file
	wants(Deadline{until: first})
}

// damages are ways to damage a file, each with a part of the error.
var damages = map[string]struct {
	do   func(path string) error
	says string
}{
	"truncated": {func(path string) error { return os.Truncate(path, 20) }, "not a deadline"},
	"empty":     {func(path string) error { return os.Truncate(path, 0) }, "not a deadline"},
	"huge":      {func(path string) error { return os.Truncate(path, 1<<40) }, "larger than"},
	"open":      {func(path string) error { return os.Chmod(path, 0o666) }, "chmod 600"},
	"link": {func(path string) error {
		return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path))
	}, "symbolic link"},
	"directory": {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "regular file"},
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		path := filepath.Join(t.TempDir(), "deadline")
		must(t, newWriter(t, path).Move(now(t).Add(time.Hour)))
		must(t, damage.do(path))
		err := Check(path)
		if !errors.Is(err, runtime.ErrFenced) || !strings.Contains(err.Error(), damage.says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

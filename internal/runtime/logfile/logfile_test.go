package logfile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// read reads everything after a mark.
func read(t *testing.T, file string, m Mark) (lines []string) {
	t.Helper()
	tail, err := From(file, m)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	emit := Texts(func(l string) { lines = append(lines, l) })
	if err := tail.Next(emit); err != nil {
		t.Fatal(err)
	}
	tail.Rest(emit)
	return lines
}

func TestFromMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output.log")
	if m := End(file); m.Inode != 0 || m.Offset != 0 {
		t.Errorf("the end of nothing is %+v", m)
	}
	if got := read(t, file, Mark{}); got != nil {
		t.Errorf("read of nothing: %q", got)
	}
	w := NewWriter(file)
	w.Limit(runtime.Log{MaxSize: 100, Keep: 2})
	w.Append([]byte("one\ntwo\n"))
	m := End(file)
	w.Append([]byte("three\nfour"))
	if got := read(t, file, m); !slices.Equal(got, []string{"three", "four"}) {
		t.Errorf("read %q", got)
	}
	w.Append([]byte("\n"))
	for i := range 5 { // rotated once, the mark is in output.log.1
		w.Append(fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("x", 20)))
	}
	if got := read(t, file, m); len(got) != 7 || got[0] != "three" {
		t.Errorf("after a rotation: %q", got)
	}
	for i := range 50 {
		w.Append(fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("y", 20)))
	}
	got := read(t, file, m)
	if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "49 ") || strings.HasPrefix(got[0], "three") {
		t.Errorf("what is left after many rotations: %q", got)
	}
	all := read(t, file, Mark{})
	if !slices.Equal(all, got) {
		t.Errorf("all that is left: %q", all)
	}
}

// A reader that begins after some lines has a mark from which another one goes on: what it has passed over, such as the
// beginning and end of an incarnation, does not come again.
func TestMarkAtStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), Name)
	w := NewWriter(file)
	w.Begin(1)
	w.Append([]byte("one\n"))
	w.End(1, "exited with 1", true)
	for what, s := range map[string]Start{"the end": {}, "later": {Since: time.Now().Add(time.Hour)}} {
		first, err := Open(file, s)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		mark := first.Mark()
		second, err := Open(file, Start{After: &mark})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		for name, tail := range map[string]*Tail{"it": first, "the next one": second} {
			if err := tail.Next(func(l Line) { t.Errorf("%s: %s emits %+v", what, name, l) }); err != nil {
				t.Error(err)
			}
		}
	}
}

package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// show formats a line for comparisons.
func show(l Line) string {
	at := "-"
	if !l.Time.IsZero() {
		at = l.Time.UTC().Format("05.000")
	}
	if b := l.Between; b != nil {
		return fmt.Sprintf("%s ended %d (%s), began %d", at, b.Ended, b.How, b.Began)
	}
	return fmt.Sprintf("%s %d %s", at, l.Incarnation, l.Text)
}

// all returns what a Tail emits to the end, including an unfinished line.
func all(t *testing.T, tail *Tail, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var lines []string
	emit := func(l Line) { lines = append(lines, show(l)) }
	if err := tail.Next(emit); err != nil {
		t.Fatal(err)
	}
	tail.Rest(emit)
	return strings.Join(lines, "\n")
}

// writeIncarnations writes the output of three incarnations, one second apart. The second one
// does not finish its last line, the third one is silent.
func writeIncarnations(w *Writer) (begin time.Time) {
	begin = time.Now()
	w.Begin(1)
	w.Append([]byte("one\ntwo\n"))
	time.Sleep(5 * time.Millisecond) // within a step
	w.Append([]byte("three\n"))
	time.Sleep(time.Second)
	w.Append([]byte("four\n"))
	w.End(1, "exit code 3", true)
	time.Sleep(time.Second)
	w.Begin(2)
	w.Append([]byte("five\nunfinished"))
	w.End(2, "exit code 4", true)
	time.Sleep(time.Second)
	w.Begin(3)
	time.Sleep(time.Millisecond)
	w.End(3, "", false)
	return begin
}

const livesShown = `00.000 ended 0 (), began 1
00.000 1 one
00.000 1 two
00.000 1 three
01.005 1 four
02.005 ended 1 (exit code 3), began 2
02.005 2 five
02.005 2 unfinished
03.005 ended 2 (exit code 4), began 3
03.006 ended 3 (), began 0`

// Each line has its time and its incarnation, however often the log was rotated, and from
// wherever it is read.
func TestTimes(t *testing.T) {
	for _, size := range []int64{1 << 20, 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "output.log")
				w := NewWriter(file)
				w.Limit(runtime.Log{MaxSize: size, Keep: 10})
				begin := writeIncarnations(w)
				livesShown := livesShown
				if size == 10 { // each file begins with a time
					livesShown = strings.Replace(livesShown, "00.000 1 three", "00.005 1 three", 1)
				}
				tail, err := From(file, Mark{})
				if got := all(t, tail, err); got != livesShown {
					t.Errorf("all:\n%s\nwant:\n%s", got, livesShown)
				}
				tail, err = Last(file, 2)
				if got := all(t, tail, err); !strings.HasSuffix(livesShown, got) || !strings.HasPrefix(got, "02.005 2 five") &&
					!strings.HasPrefix(got, "02.005 ended 1 (exit code 3), began 2\n") {
					t.Errorf("last two:\n%s", got)
				}
				tail, err = Since(file, begin.Add(time.Second))
				if got := all(t, tail, err); !strings.HasSuffix(livesShown, got) || !strings.HasPrefix(got, "01.005 1 four") {
					t.Errorf("since 1 s:\n%s", got)
				}
				tail, err = Since(file, begin.Add(-time.Hour))
				if got := all(t, tail, err); got != livesShown {
					t.Errorf("since before all:\n%s", got)
				}
				tail, err = Since(file, time.Now().AddDate(200, 0, 0))
				if got := all(t, tail, err); got != "" {
					t.Errorf("since the future:\n%s", got)
				}
			})
		})
	}
}

// A line is found that was written in the millisecond of a time, also if the clock of the file system is behind.
func TestSinceNow(t *testing.T) {
	for _, lag := range []time.Duration{0, 4 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "output.log")
			w := NewWriter(file)
			w.Begin(1)
			time.Sleep(500 * time.Microsecond)
			since := time.Now()
			w.Append([]byte("one\n"))
			at := since.Add(-lag)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
			tail, err := Since(file, since)
			if got := all(t, tail, err); !strings.Contains(got, "1 one") {
				t.Errorf("the file is %v behind: %q", lag, got)
			}
		})
	}
}

// A reader that continues from any position in a log reads everything once.
func TestReadsOnFromEverywhere(t *testing.T) {
	for _, size := range []int64{1 << 20, 10} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "output.log")
			w := NewWriter(file)
			w.Limit(runtime.Log{MaxSize: size, Keep: 10})
			writeIncarnations(w)
			tail, err := From(file, Mark{})
			if err != nil {
				t.Fatal(err)
			}
			defer tail.Close()
			var marks []Mark
			if err := tail.Next(func(Line) { marks = append(marks, tail.Mark()) }); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(livesShown, "\n")
			if len(marks) != len(lines) {
				t.Fatalf("%d places, want %d", len(marks), len(lines))
			}
			for i, m := range marks {
				same, err := ParseMark(m.String())
				if err != nil || same.String() != m.String() {
					t.Errorf("%v: %v, %v", m, same, err)
				}
				tail, err := From(file, same)
				got, want := all(t, tail, err), strings.Join(lines[i+1:], "\n")
				if strings.ReplaceAll(got, "00.005", "00.000") != want {
					t.Errorf("size %d, behind %q:\n%s\nwant:\n%s", size, lines[i], got, want)
				}
			}
		})
	}
}

// A follower reads everything once while the log is written and rotated, and each index stays
// with its file.
func TestFollowsRotation(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "output.log")
	w := NewWriter(file)
	w.Limit(runtime.Log{MaxSize: 200, Keep: 3})
	tail, err := Last(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var got []string
	for i := range 500 {
		if i%50 == 0 {
			w.Begin(uint64(i/50 + 1))
		}
		w.Append(fmt.Appendf(nil, "line %d\n", i))
		if i%7 == 0 {
			if err := tail.Next(func(l Line) {
				if l.Between == nil {
					got = append(got, fmt.Sprint(l.Incarnation, " ", l.Text))
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, line := range got {
		if want := fmt.Sprintf("%d line %d", i/50+1, i); line != want {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	if len(got) < 490 {
		t.Errorf("%d lines", len(got))
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 8 {
		t.Errorf("%v, %v; want four logs with their indexes", entries, err)
	}
}

// A follower that reads while the log is rotated repeatedly misses nothing.
func TestFollowsConcurrentRotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output.log")
	w := NewWriter(file)
	w.Limit(runtime.Log{MaxSize: 1000, Keep: 100}) // so that nothing is rotated away
	const lines = 2000
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range lines {
			w.Append(fmt.Appendf(nil, "line %d of many that fill the files\n", i))
		}
	}()
	tail, err := From(file, Mark{})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	next := 0
	emit := Texts(func(text string) {
		if want := fmt.Sprintf("line %d of many that fill the files", next); text != want {
			t.Fatalf("%q, want %q", text, want)
		}
		next++
	})
	for over := false; !over; {
		select {
		case <-written:
			over = true
		default:
		}
		if err := tail.Next(emit); err != nil {
			t.Fatal(err)
		}
	}
	if next != lines {
		t.Errorf("%d lines, want %d", next, lines)
	}
}

// Without a failure nothing is written for a silent agent.
func TestSilent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output.log")
	w := NewWriter(file)
	w.Begin(1)
	w.End(1, "exit code 0", false)
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a log")
	}
	w.Begin(2)
	w.End(2, "exit code 1", true)
	tail, err := From(file, Mark{})
	if got := all(t, tail, err); strings.Count(got, "\n") != 2 || !strings.HasSuffix(got, " ended 2 (exit code 1), began 0") {
		t.Errorf("%s", got)
	}
}

// An index that is cut, damaged or missing costs times and nothing else.
func FuzzDamagedIndex(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("0000000000 00000000000\n"))
	f.Add([]byte("0000000000 00dc6acfac0 {\"n\":1,\"event\":\"began\"}\n0000000004 00dc6acfac"))
	f.Add([]byte("fffffffff0 00dc6acfac0\n0000000004 00dc6acfac0 {\"n\":1,\"event\":\"ended\",\"how\":\"\\u001b\"}\n\x00\xff"))
	f.Add([]byte(strings.Repeat("x", 100_000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "output.log")
		w := NewWriter(file)
		w.Append([]byte("one\ntwo\nthree\n"))
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(indexFile(file, inode(st)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func() (*Tail, error){
			func() (*Tail, error) { return From(file, Mark{}) },
			func() (*Tail, error) { return Last(file, 3) },
			func() (*Tail, error) { return Since(file, time.Time{}) },
		} {
			tail, err := open()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := tail.Next(Texts(func(text string) { got = append(got, text) })); err != nil {
				t.Fatal(err)
			}
			tail.Close()
			if strings.Join(got, " ") != "one two three" {
				t.Fatalf("read %q", got)
			}
		}
	})
}

func FuzzMark(f *testing.F) {
	f.Add("1f.2c.0.AAAA")
	f.Add("..-1.")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMark(text)
		if err != nil {
			return
		}
		if again, err := ParseMark(m.String()); err != nil || again.String() != m.String() {
			t.Errorf("%q: %v, %v", text, again, err)
		}
	})
}

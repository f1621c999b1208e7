package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestDirName(t *testing.T) {
	seen := map[string]string{}
	for _, path := range []string{"a", "A", "..", ".", "/", "../../x", "app/a", "app//a", "app/a/", "ä/ö", "x\x00y", "a b", strings.Repeat("n", MaxPath)} {
		name, err := DirName(path)
		if err != nil {
			t.Errorf("%.40q: %v", path, err)
			continue
		}
		if name != filepath.Base(name) || strings.Trim(name, ".") == "" || len(name) > 41 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("%.40q becomes %q", path, name)
		}
		if other, ok := seen[strings.ToLower(name)]; ok {
			t.Errorf("%.40q and %.40q share a name", path, other)
		}
		seen[strings.ToLower(name)] = path
	}
	for _, path := range []string{"", "\xff", strings.Repeat("n", MaxPath+1)} {
		if name, err := DirName(path); err == nil {
			t.Errorf("%.40q becomes %q", path, name)
		}
	}
}

func TestFailureKeepsWhatMatters(t *testing.T) {
	for _, want := range []supervisor.Exit{
		{Kind: supervisor.Normal},
		{Kind: supervisor.ShutDown},
		{Kind: supervisor.Killed, Err: supervisor.ErrKilled},
		{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 3, LastOutput: []string{"a", "b"}}},
		{Kind: supervisor.Killed, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGKILL}},
		{Kind: supervisor.Failure, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGSEGV, CoreDumped: true}},
	} {
		if got := NewEnd(want, time.Now()).Exit(); !reflect.DeepEqual(got, want) {
			t.Errorf("%#v has become %#v", want, got)
		}
	}
	for _, want := range []error{runtime.ErrFenced, runtime.ErrDeadline, runtime.ErrOverdue} {
		why := fmt.Errorf("%w (%w)", want, &proc.ExitError{Code: 2})
		exit := NewEnd(supervisor.Exit{Kind: supervisor.Failure, Err: why}, time.Now()).Exit()
		if exit.Kind != supervisor.Failure || !errors.Is(exit.Err, want) || exit.Err.Error() != why.Error() {
			t.Errorf("%v has become %v", why, exit)
		}
	}
	err := NewFailure(errors.Join(supervisor.ErrNotReady, &proc.ExitError{Code: 2}, runtime.ErrBusy)).Err()
	var ee *proc.ExitError
	if !errors.Is(err, supervisor.ErrNotReady) || !errors.Is(err, runtime.ErrBusy) || !errors.As(err, &ee) || ee.Code != 2 {
		t.Errorf("%#v", err)
	}
}

func TestNoticeKeepsWhatMatters(t *testing.T) {
	now := time.Now()
	for _, want := range []sdnotify.Notice{
		{},
		{Since: now.Add(-time.Minute)},
		{
			Since: now.Add(-time.Minute), Heard: now, Status: "at work", Alive: now.Add(-time.Second), Period: time.Hour, Until: now.Add(time.Hour),
			Triggered: true, Stopping: now.Add(-time.Millisecond), Reloading: true, Errno: 5,
		},
	} {
		b, err := Encode(&Message{Type: Said, Said: NewNotice(want, now)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewReader(bytes.NewReader(b)).Read()
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Said.Notice(now); got != want {
			t.Errorf("%+v has become %+v", want, got)
		}
		// With another clock.
		if got := m.Said.Notice(now.Add(time.Hour)); !want.Alive.IsZero() && !got.Alive.Equal(want.Alive.Add(time.Hour)) {
			t.Errorf("by another clock, %v has become %v", want.Alive, got.Alive)
		}
	}
}

func TestLaunchIsBytes(t *testing.T) {
	want := runtime.Launch{Argv: []string{"a", "", "\xff\xfe", ""}, Env: []string{"A=\xff", "B="}, Dir: "/\xff", Stdin: ""}
	packed, err := NewLaunch(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Encode(&Message{Type: Start, Launch: packed})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewReader(bytes.NewReader(b)).Read()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Launch.Unpack(); !reflect.DeepEqual(got, want) {
		t.Errorf("%#v has become %#v", want, got)
	}
	for _, bad := range []runtime.Launch{{Argv: []string{"a\x00b"}}, {Env: []string{"A=\x00B=c"}}, {SpecHash: "\xff"}} {
		if _, err := NewLaunch(bad); err == nil {
			t.Errorf("%+v can be carried over", bad)
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ExitFile)
	for _, token := range []string{strings.Repeat("long", 100), "b", strings.Repeat("middle", 10)} {
		end := End{Kind: "failure", Failure: &Failure{Text: token}}
		if err := WriteFile(file, NewRecord(dir, 1, end, nil)); err != nil {
			t.Fatal(err)
		}
		if r, err := ReadRecord(dir); err != nil || r.End.Failure.Text != token {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if err := os.WriteFile(file, bytes.Repeat([]byte(" "), maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecord(dir); err == nil {
		t.Error("a file of any size is read")
	}
}

// For any input, the reader returns an error, or messages that can be sent again.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"type\":\"hello\",\"v\":1}\n{\"type\":"))
	f.Add([]byte("\x00\xff\n\n"))
	f.Add([]byte("{\"type\":\"said\",\"said\":{\"since\":-9223372036854775808,\"alive\":9223372036854775807,\"status\":\"x\"}}\n"))
	f.Add([]byte("{\"type\":\"x\",\"data\":\"AAAA\",\"state\":{\"end\":{\"kind\":\"no\",\"failure\":{\"is\":[\"busy\"]}}}}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			m, err := r.Read()
			if err != nil {
				if m != nil {
					t.Error("a message and an error")
				}
				return
			}
			if m.State != nil && m.State.End != nil {
				if e := m.State.End.Exit(); e.Kind == supervisor.NoExit {
					t.Error("an end that is none")
				}
			}
			if m.Launch != nil {
				m.Launch.Unpack()
			}
			m.Failure.Err()
			m.Said.Notice(time.Now())
			if _, err := Encode(m); err != nil && !errors.Is(err, ErrTooLong) {
				t.Errorf("cannot be sent again: %v", err)
			}
		}
	})
}

func TestReaderBounds(t *testing.T) {
	if _, err := NewReader(io.LimitReader(endless{}, 100<<20)).Read(); !errors.Is(err, ErrTooLong) {
		t.Errorf("a line without end: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	lock, err := TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	write := func(n uint64, token string) {
		t.Helper()
		if err := WriteState(lock, &State{Version: Version, Path: "a", Incarnation: n, Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(n uint64, token string) {
		t.Helper()
		if st, err := ReadState(dir); err != nil || st.Incarnation != n || st.Token != token {
			t.Errorf("%+v, %v; want incarnation %d", st, err, n)
		}
	}
	if _, err := ReadState(dir); !IsMissing(err) {
		t.Errorf("nothing there: %v", err)
	}
	write(1, "a long one")
	read(1, "a long one")
	write(2, "short")
	read(2, "short")
	write(1, "again")
	read(1, "again")
	if err := lock.Truncate(10); err != nil {
		t.Fatal(err)
	}
	if st, err := ReadState(dir); err == nil {
		t.Errorf("what is damaged was guessed at: %+v", st)
	}
	if err := lock.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); !IsMissing(err) {
		t.Errorf("an empty file, and no end: %v", err)
	}
	if err := WriteFile(filepath.Join(dir, ExitFile), NewRecord(dir, 1, End{}, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); err == nil || IsMissing(err) {
		t.Errorf("an empty file, although an incarnation has ended: %v", err)
	}
}

func TestPastIsBounded(t *testing.T) {
	output := []string{strings.Repeat("x", 2<<10)}
	var r *Record
	for n := uint64(1); n <= 100; n++ {
		end := NewEnd(supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: int(n), LastOutput: output}}, time.Now())
		end.Failure.Text += strings.Repeat("é", 4<<10)
		r = NewRecord(t.TempDir(), n, *end, r)
	}
	if len(r.Before) != Remembered || r.Before[0].Incarnation != 100-Remembered || r.Before[Remembered-1].Incarnation != 99 {
		t.Errorf("%d ends, from %d", len(r.Before), r.Before[0].Incarnation)
	}
	if p := r.Before[Remembered-1].End.Failure; len(p.Exit.LastOutput) != 1 {
		t.Error("the last words before the last are gone")
	}
	if p := r.Before[0].End.Failure; len(p.Exit.LastOutput) != 0 || p.Exit.Code != 100-Remembered || len(p.Text) > maxPastText+10 {
		t.Errorf("the oldest: %+v, %d bytes", p.Exit, len(p.Text))
	}
}

package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

func openGate(fifo string) error {
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("go\n")
	return errors.Join(err, f.Close())
}

func testHostileNames(t *testing.T, b *harness) {
	r := b.runtime()
	outside := filepath.Dir(b.state)
	before, err := os.ReadDir(outside)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"../../x", "/etc/passwd", "a/../../../b", ".", "..", "/", "app/ä/日本語", "app/a b\tc\nd", "-rf", "app/$(touch x)",
		"app/A", "app/a", "app/'\"`;&", "app/\x1b[2J", "app:0.1", "app/%s%n", strings.Repeat("long", 500),
	}
	for _, name := range names {
		s := b.start(r, sh(name, 1, forever))
		if o := s.Observe(); o.Path != name {
			t.Errorf("%.40q has become %.40q", name, o.Path)
		}
	}
	all, err := r.List(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, o := range all {
		listed = append(listed, o.Path)
	}
	slices.Sort(names)
	slices.Sort(listed)
	if !slices.Equal(names, listed) {
		t.Errorf("listed %.60q, want %.60q", listed, names)
	}
	after, err := os.ReadDir(outside)
	if err != nil || len(after) != len(before) {
		t.Errorf("next to the directory: %v, was %v; %v", after, before, err)
	}
	for _, name := range []string{"", "a\xff", strings.Repeat("x", 100_000)} {
		if _, err := r.Start(b.ctx(), sh(name, 1, forever)); err == nil {
			t.Errorf("an agent %.20q was started", name)
		}
	}
}

func testHostileOutput(t *testing.T, b *harness) {
	r := b.runtime()
	s := b.start(r, sh("app/a", 1, `printf '\033]0;title\007\033[2J\033[31mred\033[0m\n\033[6n\233\000\001\377\376 `+
		`binary\nover\rwritten\n\033P never ended\n'; echo; echo end; sleep 0.1; exit 3`))
	e := b.exit(s)
	if !isExit(e, 3) {
		t.Errorf("exit = %v", e)
	}
	lines, err := s.Peek(b.ctx(), 100)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"red", "binary", "written", "end"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, lines)
		}
	}
	for _, l := range lines {
		if plaintext.Line(l) != l || strings.ContainsAny(l, "\x1b\x00\x07\n") {
			t.Errorf("line %q could do something to a terminal", l)
		}
	}
}

func testPeek(t *testing.T, b *harness) {
	r := b.runtime()
	s := b.start(r, sh("app/a", 1, `i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done; `+forever))
	b.until(s, "line 49")
	lines, err := s.Peek(b.ctx(), 3)
	if err != nil || !slices.Equal(lines, []string{"line 47", "line 48", "line 49"}) {
		t.Errorf("the last lines: %q, %v", lines, err)
	}
	for _, n := range []int{0, -1} {
		if lines, err := s.Peek(b.ctx(), n); err != nil || len(lines) != 0 {
			t.Errorf("%d lines: %q, %v", n, lines, err)
		}
	}
	if lines, err := s.Peek(b.ctx(), 1<<30); err != nil || len(lines) < 50 {
		t.Errorf("all lines: %q, %v", lines, err)
	}
	// A runtime that has not started the agent can read them, too.
	other := b.runtime()
	file, err := other.Log("app/a")
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := logfile.Peek(file, 2); err != nil || !slices.Equal(lines, []string{"line 48", "line 49"}) {
		t.Errorf("the last lines of the slot: %q, %v", lines, err)
	}
	if file, err = other.Log("app/none"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log of no slot: %v", err)
	}
}

func testFollow(t *testing.T, b *harness) {
	r := b.runtime()
	gate := filepath.Join(t.TempDir(), "gate")
	s := b.start(r, sh("app/a", 1, `mkfifo '`+gate+`'; echo one; echo two; echo three; read x < '`+gate+
		`'; i=0; while [ $i -lt 300 ]; do echo more $i; i=$((i+1)); done; printf unfinished; exit 1`))
	b.until(s, "three")
	var got []string
	opened := false
	if err := Lines(b.ctx(), b.log(s), s, 2, func(line string) {
		got = append(got, line)
		if !opened && line == "three" {
			opened = true
			go openGate(gate)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2+300+1 || got[0] != "two" || got[2] != "more 0" || got[301] != "more 299" ||
		got[302] != "unfinished" {
		t.Errorf("followed %d lines: %.200q", len(got), got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Follow(ctx, func() {}); err != nil {
		t.Errorf("follow that was given up: %v", err)
	}
}

// log returns the log of a session's slot.
func (b *harness) log(s runtime.Session) string {
	b.Helper()
	file, err := b.last.Log(s.Observe().Path)
	if err != nil {
		b.Fatal(err)
	}
	return file
}

// Lines passes the lines of a session's log to f, beginning with the last n, until ctx is done
// or the incarnation has ended.
func Lines(ctx context.Context, file string, s runtime.Session, n int, f func(line string)) error {
	t, err := logfile.Last(file, n)
	if err != nil {
		return err
	}
	defer t.Close()
	var failed error
	lines := logfile.Texts(f)
	err = s.Follow(ctx, func() { failed = errors.Join(failed, t.Next(lines)) })
	t.Rest(lines)
	return errors.Join(err, failed)
}

func testActivity(t *testing.T, b *harness) {
	before := time.Now().Add(-time.Second)
	s := b.start(b.runtime(), sh("app/a", 1, "echo hello; "+forever))
	b.until(s, "hello")
	at, err := s.LastActivity(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if at.Before(before) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("last activity at %v", at)
	}
	silent := b.start(b.runtime(), sh("app/silent", 1, forever))
	o := silent.Observe()
	if at, err := silent.LastActivity(b.ctx()); err != nil || at.Before(o.StartedAt.Add(-time.Second)) ||
		at.After(time.Now().Add(time.Second)) {
		t.Errorf("last activity of one that says nothing, and was started at %v: %v, %v", o.StartedAt, at, err)
	}
}

func testWrite(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, `while read x; do echo "got $x"; done`)
	if b.AlwaysTerminal {
		l.Terminal = true
	} else {
		l.Input = true
	}
	s := b.start(r, l)
	if err := s.Write(b.ctx(), []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	b.until(s, "got hello")
	s.Kill()
	b.exit(s)
	if err := s.Write(b.ctx(), []byte("x")); !errors.Is(err, runtime.ErrEnded) {
		t.Errorf("write after the end: %v", err)
	}
	if b.AlwaysTerminal {
		return
	}
	s = b.start(r, sh("app/b", 1, forever))
	if err := s.Write(b.ctx(), []byte("x")); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("write to an agent without input: %v", err)
	}
}

func testAttach(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, `stty -echo; trap 'echo size $(stty size)' WINCH; echo running; while :; do if read x; `+
		`then echo "got $x"; fi; done`)
	l.Terminal, l.Rows, l.Cols = true, 30, 100
	s := b.start(r, l)
	b.until(s, "running")

	attach := func(a runtime.Attachment) (leave func() error) {
		ctx, cancel := context.WithCancel(b.ctx())
		done := make(chan error, 1)
		go func() { done <- s.Attach(ctx, a) }()
		return func() error { cancel(); return <-done }
	}
	var seen, watched buffer
	in, typed := io.Pipe()
	sizes := make(chan [2]uint16)
	leave := attach(runtime.Attachment{Input: in, Output: &seen, Sizes: sizes})
	seen.await(b, "running") // earlier output
	leaveWatcher := attach(runtime.Attachment{Output: &watched, Earlier: 1000, Resized: func(rows, cols uint16) {
		fmt.Fprintf(&watched, "[%dx%d]", rows, cols)
	}})
	watched.await(b, "running")
	watched.mu.Lock()
	if text := watched.b.String(); !strings.HasPrefix(text, "[30x100]") {
		t.Errorf("the size does not come first: %q", text)
	}
	watched.mu.Unlock()

	second, _ := io.Pipe()
	defer second.Close()
	if err := s.Attach(b.ctx(), runtime.Attachment{Input: second, Output: io.Discard}); !errors.Is(err,
		runtime.ErrWriter) {
		t.Errorf("a second writer: %v", err)
	}
	io.WriteString(typed, "hello\n")
	seen.await(b, "got hello")
	watched.await(b, "got hello")
	sizes <- [2]uint16{40, 120}
	watched.await(b, "size 40 120")
	if r.Kind() != "tmux" { // whose client shows a part of what is larger
		watched.await(b, "[40x120]")
	}
	if err := leave(); err != nil {
		t.Errorf("left: %v", err)
	}
	typed.Close()
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("after a viewer left: %+v", o)
	}
	// The next writer may type, and learns when the agent ends.
	in, typed = io.Pipe()
	defer typed.Close()
	var next buffer
	end := make(chan error, 1)
	go func() { end <- s.Attach(b.ctx(), runtime.Attachment{Input: in, Output: &next}) }()
	next.await(b, "got hello")
	s.Kill()
	if err := <-end; err != nil {
		t.Errorf("attached at the end: %v", err)
	}
	if err := leaveWatcher(); err != nil {
		t.Errorf("watching at the end: %v", err)
	}
	if err := s.Attach(b.ctx(), runtime.Attachment{Output: io.Discard}); !errors.Is(err, runtime.ErrEnded) {
		t.Errorf("attach after the end: %v", err)
	}
}

func testEnvironment(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, `printf '%s|%s|%s|%s\n' "$PWD" "$ODD" "$COPPICE_INCARNATION" "$1" "$GOMAXPROCS"; `+forever)
	l.Argv = append(l.Argv, "a b\t'\"$x\xff")
	l.Env = append(l.Env, "ODD=ä \xff=$(x)")
	l.Dir = t.TempDir()
	s := b.start(r, l)
	got := b.until(s, l.Dir)
	if want := "|ä \uFFFD=$(x)|1|a b\t'\"$x\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s = b.start(r, sh("app/b", 1, "echo $(env | cut -d= -f1 | sort); "+forever))
	for name := range strings.FieldsSeq(b.until(s, "")) {
		if strings.HasPrefix(name, "GO") {
			t.Errorf("the agent has %s", name)
		}
	}
}

// daemons starts grandchildren in their own sessions that ignore everything but SIGKILL.
const daemons = `
for i in 1 2; do
	setsid sh -c 'trap "" TERM HUP INT; sh -c "trap \"\" TERM HUP INT; echo deep \$\$; while :; do sleep 1; done" & echo "daemon $$"; while :; do sleep 1; done' &
done
`

func testDescendants(t *testing.T, b *harness) {
	exectest.Need(t, "setsid")
	r := b.runtime()
	collect := func(s runtime.Session) (pids []string) {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		Lines(ctx, b.log(s), s, 100, func(line string) {
			word, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
			if word == "daemon" || word == "deep" {
				if pids = append(pids, pid); len(pids)%4 == 0 {
					cancel()
				}
			}
		})
		if len(pids) < 4 {
			t.Fatalf("not all have started: %v", pids)
		}
		return pids[len(pids)-4:]
	}
	// After a stop, all are gone soon after the grace period.
	l := sh("app/a", 1, daemons+`trap '' TERM; while :; do sleep 1; done`)
	l.Grace = 300 * time.Millisecond
	s := b.start(r, l)
	pids := collect(s)
	begin := time.Now()
	s.Stop()
	b.exit(s)
	for _, pid := range pids {
		b.gone(pid)
	}
	if d := time.Since(begin); d > l.Grace+time.Second {
		t.Errorf("all gone after %v only, the grace period is %v", d, l.Grace)
	}
	// The agent ends on its own, after the grandchildren were reparented.
	s = b.start(r, sh("app/b", 1, daemons+`sleep 1; exit 5`))
	pids = collect(s)
	if e := b.exit(s); !isExit(e, 5) {
		t.Errorf("exit = %v", e)
	}
	for _, pid := range pids {
		b.gone(pid)
	}
}

func testHuge(t *testing.T, b *harness) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	r := b.runtime()
	l := sh("app/a", 1, "head -c 104857600 /dev/zero | tr '\\0' x; echo; echo end; exit 6")
	l.Log = runtime.Log{MaxSize: 1 << 20, Keep: 2}
	s := b.start(r, l)
	e := b.exit(s)
	if !isExit(e, 6) {
		t.Errorf("exit = %v", e)
	}
	lines, err := s.Peek(b.ctx(), 1)
	if err != nil || !slices.Equal(lines, []string{"end"}) {
		t.Errorf("the last line: %.100q, %v", lines, err)
	}
	var size int64
	filepath.WalkDir(b.state, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if st, err := d.Info(); err == nil {
				size += st.Size()
			}
		}
		return nil
	})
	if most := int64(4 << 20); size > most {
		t.Errorf("%d bytes are kept, at most %d should be", size, most)
	}
}

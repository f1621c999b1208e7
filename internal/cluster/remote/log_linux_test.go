package remote

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// marked is a line with the mark after it.
type marked struct {
	logfile.Line
	After string
}

// drain reads what a log has.
func drain(t testing.TB, r logfile.Reader) (all []marked) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = r.Some(func(l logfile.Line) {
			l.Time = l.Time.UTC()
			if l.Between != nil {
				b := *l.Between
				b.EndedAt = b.EndedAt.UTC()
				l.Between = &b
			}
			all = append(all, marked{l, r.Mark().String()})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// here opens a log of the node as the node does itself.
func (f *far) here(t testing.TB, path string, s logfile.Start) *logfile.Tail {
	t.Helper()
	file, err := f.local.Log(path)
	if err != nil {
		t.Fatal(err)
	}
	tail, err := logfile.Open(file, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tail.Close)
	return tail
}

// A log of another node has the lines, times and positions that it has there, in whatever parts it comes.
func TestLogParts(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	for n, script := range []string{
		"i=0; while [ $i -lt 3000 ]; do echo line $i of it; i=$((i+1)); done",
		`yes | head -c 5000; head -c 300000 /dev/zero | tr '\0' x; printf '\377\376\001\033[1m\n\r\n\n'; exit 3`,
	} {
		l := sh("app/a", uint64(n+1), script)
		l.Log = runtime.Log{MaxSize: 32 << 10, Keep: 100}
		await(t, "its end", start(t, w.far, l).Done())
	}
	all := drain(t, w.here(t, "app/a", logfile.Start{Lines: -1}))
	if file, _ := w.local.Log("app/a"); len(all) < 5500 {
		t.Fatalf("%s has %d lines", file, len(all))
	} else if _, err := os.Stat(file + ".2"); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]logfile.Start{
		"all": {Lines: -1}, "none": {}, "the last ones": {Lines: 1700}, "more than there are": {Lines: 1 << 40},
		"since a second": {Since: all[3000].Time}, "since long ago": {Since: time.Unix(1, 0)},
		"since later": {Since: time.Now().Add(time.Hour)}, "not to be": {Lines: -1 << 60},
	} {
		want := w.here(t, "app/a", s)
		got := w.Tail(ctxOf(t), "app/a", s)
		if d := cmp.Diff(drain(t, want), drain(t, got)); d != "" {
			t.Errorf("%s:\n%.2000s", what, d)
		}
		if got, want := got.Mark().String(), want.Mark().String(); got != want {
			t.Errorf("%s: it ends at %s, want %s", what, got, want)
		}
		if more := drain(t, got); more != nil {
			t.Errorf("%s: then there are %+v", what, more)
		}
	}
	for i := 0; i < len(all); i += 611 {
		m, err := logfile.ParseMark(all[i].After)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(all[i+1:], drain(t, w.Tail(ctxOf(t), "app/a", logfile.Start{After: &m}))); d != "" {
			t.Errorf("after line %d:\n%.2000s", i, d)
		}
	}
	var most, lines int
	tail := w.Tail(ctxOf(t), "app/a", logfile.Start{Lines: -1})
	for more := true; more; {
		text, n := 0, 0
		var err error
		if more, err = tail.Some(func(l logfile.Line) { text += len(l.Text); n++ }); err != nil {
			t.Fatal(err)
		}
		most, lines = max(most, text), max(lines, n)
	}
	if most > maxLogText || lines > maxLogLines {
		t.Errorf("a part has %d bytes, another one %d lines", most, lines)
	}
}

// What an agent writes comes once, in order and whole, over lost connections, and so does a node that was cut off.
func TestLogOverCuts(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	tail := w.Tail(ctxOf(t), "app/a", logfile.Start{})
	if got := drain(t, tail); got != nil || tail.Mark().String() != (logfile.Mark{}).String() {
		t.Errorf("before the agent: %+v, %v", got, tail.Mark())
	}
	l := sh("app/a", 1, `while read x; do echo "$x"; done`)
	l.Input = true
	s := start(t, w.far, l)
	write := func(text string) {
		t.Helper()
		err := s.Write(ctxOf(t), []byte(text+"\n"))
		for ctx := ctxOf(t); errors.Is(err, errLost) && ctx.Err() == nil; {
			err = s.Write(ctx, []byte(text+"\n"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	expect := func(text string) {
		t.Helper()
		for ctx := ctxOf(t); len(got) == 0 || got[len(got)-1] != text; {
			if _, err := tail.Some(logfile.Texts(func(text string) { got = append(got, text) })); err != nil {
				t.Fatal(err)
			}
			if ctx.Err() != nil {
				t.Fatalf("%q never came: %q", text, got)
			}
		}
	}
	for i := range 5 {
		write(fmt.Sprint(i))
		expect(fmt.Sprint(i))
		w.cutAndAwait(t)
		until(t, s, "alive", alive)
	}
	w.proxy.refuse(true)
	w.proxy.cut()
	failed := func() time.Duration {
		t.Helper()
		begin := time.Now()
		_, err := tail.Some(func(l logfile.Line) { t.Errorf("%+v", l) })
		if !errors.Is(err, runtime.ErrUnknown) || !strings.Contains(err.Error(), "node n2") {
			t.Errorf("of a node that is cut off: %v", err)
		}
		return time.Since(begin)
	}
	if took := failed(); took > logTimeout+time.Second {
		t.Errorf("it took %v", took)
	}
	for ctx := ctxOf(t); w.client.isLongSilent() == nil && ctx.Err() == nil; {
		failed()
	}
	if took := failed(); took > time.Second {
		t.Errorf("once it is known: it took %v", took)
	}
	w.proxy.refuse(false)
	if _, err := w.client.await(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	until(t, s, "alive", alive)
	write("5")
	expect("5")
	if want := "0 1 2 3 4 5"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

// A node that does not answer delays the reader for a bounded time.
func TestLogOfSilentNode(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	w.connected(t).hold()
	begin := time.Now()
	_, err := w.Tail(ctxOf(t), "app/a", logfile.Start{}).Some(nil)
	if took := time.Since(begin); !errors.Is(err, runtime.ErrUnknown) || took > logTimeout+time.Second {
		t.Errorf("%v, after %v", err, took)
	}
}

// The log of a terminal has its last line before that is complete.
func TestLogRest(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, "echo hello; printf 'password: '; exec sleep 100000")
	l.Terminal = true
	start(t, w.far, l)
	for ctx := ctxOf(t); ; {
		tail := w.Tail(ctx, "app/a", logfile.Start{Lines: -1})
		var got []string
		add := logfile.Texts(func(text string) { got = append(got, text) })
		if _, err := tail.Some(add); err != nil {
			t.Fatal(err)
		}
		whole := len(got)
		if tail.Rest(add); len(got) == 2 && whole == 1 && got[0] == "hello" && got[1] == "password: " {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%q", got)
		}
	}
}

// A log that an agent has in another runtime of the node is found.
func TestLogOfOtherKind(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	await(t, "its end", start(t, w.far, sh("app/a", 1, "echo here")).Done())
	s, address := w.serve(t, w.local, nowhere{w.local, t.TempDir()})
	t.Cleanup(s.Close)
	c := w.connect(t, func() string { return address })
	t.Cleanup(func() { c.Close() })
	var got []string
	tail := c.Runtime("nowhere").Tail(ctxOf(t), "app/a", logfile.Start{Lines: -1})
	if _, err := tail.Some(logfile.Texts(func(text string) { got = append(got, text) })); err != nil ||
		strings.Join(got, "|") != "here" {
		t.Errorf("%q, %v", got, err)
	}
}

// nowhere is a runtime without logs.
type nowhere struct {
	runtime.Runtime
	dir string
}

func (nowhere) Kind() string                 { return "nowhere" }
func (n nowhere) Log(string) (string, error) { return n.dir + "/output.log", nil }
func (nowhere) Close() error                 { return nil }

// A request for a log that makes no sense gets an error that names why, and reads no other file.
func TestHostileLogRequests(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	await(t, "its end", start(t, w.far, sh("app/a", 1, "echo one; echo two")).Done())
	a := message.Ref{Kind: "proc", Path: "app/a"}
	long := strings.Repeat("x", 1<<20)
	for what, q := range map[string]message.Request{
		"does not say where":              {Ref: a},
		"\"x\" is not a position":         {Ref: a, Log: &message.LogStart{After: "x"}},
		"\"1.-1.0.\" is not a position":   {Ref: a, Log: &message.LogStart{After: "1.-1.0."}},
		"xxx\" is not a position":         {Ref: a, Log: &message.LogStart{After: long}},
		"no runtime of the kind \"none\"": {Ref: message.Ref{Kind: "none", Path: "app/a"}, Log: &message.LogStart{}},
		"without a path":                  {Ref: message.Ref{Kind: "proc"}, Log: &message.LogStart{}},
		"bytes, at most 4096 are all":     {Ref: message.Ref{Kind: "proc", Path: long}, Log: &message.LogStart{}},
	} {
		if err := w.readRaw(t, q).Failure.Err(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %.300v", what, err)
		}
	}
	for what, after := range map[string]string{
		"another file": "1.5.0.YWJjZGU", "beyond its end": "1.7fffffffffffffff.0.", "before all": "0.0.-1.",
	} {
		got := w.readRaw(t, message.Request{Ref: a, Log: &message.LogStart{After: after}})
		if err := got.Failure.Err(); err != nil || len(got.Log.Lines) != 4 || got.Log.Lines[1].Text != "one" {
			t.Errorf("%s: %v, %+v", what, err, got.Log)
		}
	}
	for _, path := range []string{"../../etc", "/etc/passwd", "app/a/../../..", "a\x00b", "app/b"} {
		got := w.readRaw(t, message.Request{Ref: message.Ref{Kind: "proc", Path: path},
			Log: &message.LogStart{Lines: -1}})
		if err := got.Failure.Err(); err == nil && (got.Log.Mark != (logfile.Mark{}).String() || got.Log.Lines != nil) {
			t.Errorf("%q: %+v", path, got.Log)
		}
	}
	file, err := w.local.Log("app/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	_, err = w.Tail(ctxOf(t), "app/a", logfile.Start{Lines: -1}).Some(func(l logfile.Line) { t.Errorf("%+v", l) })
	if err == nil || !strings.Contains(err.Error(), file) || errors.As(err, new(*private.Error)) {
		t.Errorf("a link in place of the log: %v", err)
	}
}

// readRaw sends a request for a log and returns the answer.
func (w *way) readRaw(t *testing.T, q message.Request) *message.Answer {
	t.Helper()
	r := w.raw(t, Path)
	q.ID, q.Op = 2, message.OpLog
	r.send(greeting, q)
	r.answer()
	return r.answer()
}

// Answers that make no sense are errors, and no reader goes on and on because of them.
func TestUselessLogAnswers(t *testing.T) {
	t.Parallel()
	good := (logfile.Mark{Inode: 1, Offset: 2}).String()
	for what, test := range map[string]struct {
		part message.LogPart
		want string
	}{
		"no mark": {message.LogPart{}, "the answer is damaged"},
		"no line's mark": {message.LogPart{Lines: []message.LogLine{{Text: "x", Mark: "?"}}, Mark: good},
			"the answer is damaged"},
		"more, without an end": {message.LogPart{Mark: good, More: true}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := answering(t, message.Answer{Log: &test.part})
			tail := c.Runtime("proc").Tail(ctxOf(t), "app/a", logfile.Start{})
			more, err := tail.Some(func(l logfile.Line) { t.Errorf("%+v", l) })
			if more || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%t, %v", more, err)
			}
		})
	}
	tail := answering(t, message.Answer{}).Runtime("proc").Tail(ctxOf(t), "app/a", logfile.Start{})
	if _, err := tail.Some(nil); err == nil || !strings.Contains(err.Error(), "n2 has answered without") {
		t.Errorf("nothing: %v", err)
	}
}

// answering returns a client of a node that has one answer to everything.
func answering(t *testing.T, a message.Answer) *Client {
	p := newPair(t)
	address := clustertest.Serve(t, mtls.Server(func() *identity.Identity { return p.other }, p.admits),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			nc, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer nc.Close()
			fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			nc.Write(must(t, message.Answer{ID: 1, Version: message.Version}))
			for {
				var q message.Request
				if _, err := message.Read(buffered, &q); err != nil {
					return
				}
				if q.Op == message.OpHello {
					continue
				}
				a.ID = q.ID
				nc.Write(must(t, a))
			}
		}))
	c := p.connect(t, func() string { return address })
	t.Cleanup(func() { c.Close() })
	return c
}

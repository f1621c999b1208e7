package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// began is the start of the calls of the tests, in the past so that files of the time before it can be written.
var began = time.Now().Add(-time.Hour)

// IDs of sessions.
const (
	one   = "01a2200f-2b0d-7290-a8af-7216c039fa2a"
	two   = "02a2200f-2b0d-7290-a8af-7216c039fa2b"
	three = "11a2200f-2b0d-7290-a8af-7216c039fa2c"
)

// vendor says how a command line spells its files.
type vendor struct {
	cli  agentcli.CLI
	file func(h *house, id string) string                        // of a session
	sub  func(h *house, id, of string) string                    // of a subagent
	head func(h *house, id, of, dir string, at time.Time) string // the first lines
	used func(message string, tokens int64, at time.Time) string // a line of a call of the model
}

func stamped(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func vendors() []vendor {
	day := began.Format("2006/01/02/")
	return []vendor{
		{
			agentcli.Claude,
			func(_ *house, id string) string { return ".claude/projects/-work/" + id + ".jsonl" },
			func(_ *house, id, of string) string {
				return ".claude/projects/-work/" + of + "/subagents/agent-" + id + ".jsonl"
			},
			func(_ *house, id, of, dir string, at time.Time) string {
				return fmt.Sprintf(`{"type":"queue-operation","timestamp":%q,"sessionId":%[2]q}`+"\n"+
					`{"type":"user","timestamp":%[1]q,"sessionId":%[2]q,"cwd":%[3]q}`+"\n", stamped(at), of, dir)
			},
			func(m string, n int64, at time.Time) string {
				return fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"id":%q,"usage":{"input_tokens":1,`+
					`"output_tokens":%d}}}`+"\n", stamped(at), m, n-1)
			},
		},
		{
			agentcli.Codex,
			func(_ *house, id string) string {
				return ".codex/sessions/" + day + "rollout-2026-11-28T02-49-54-" + id + ".jsonl"
			},
			func(_ *house, id, _ string) string {
				return ".codex/sessions/" + day + "rollout-2026-11-28T02-50-54-" + id + ".jsonl"
			},
			func(_ *house, id, of, dir string, at time.Time) string {
				return fmt.Sprintf(`{"timestamp":%q,"type":"session_meta","payload":{"session_id":%q,"id":%q,`+
					`"timestamp":%[1]q,"cwd":%[4]q}}`+"\n", stamped(at), of, id, dir)
			},
			func(m string, n int64, at time.Time) string {
				return fmt.Sprintf(`{"timestamp":%q,"type":"token_usage_record","payload":{"response_id":%q,`+
					`"usage":{"input_tokens":1,"output_tokens":%d}}}`+"\n", stamped(at), m, n-1)
			},
		},
		{
			agentcli.Gemini,
			func(h *house, id string) string {
				h.write(".gemini/tmp/work/.project_root", h.dir)
				return ".gemini/tmp/work/chats/session-2026-11-28T02-50-" + id[:8] + ".jsonl"
			},
			func(_ *house, id, of string) string { return ".gemini/tmp/work/chats/" + of + "/" + id + ".jsonl" },
			func(h *house, id, of, dir string, at time.Time) string {
				h.write(".gemini/tmp/work/.project_root", dir)
				kind := "main"
				if id != of {
					kind = "subagent"
				}
				return fmt.Sprintf(`{"sessionId":%q,"startTime":%q,"kind":%q}`+"\n", id, stamped(at), kind)
			},
			func(m string, n int64, at time.Time) string {
				return fmt.Sprintf(`{"id":%q,"timestamp":%q,"type":"gemini","tokens":{"input":1,"total":%d}}`+"\n",
					m, stamped(at), n)
			},
		},
		{
			agentcli.Copilot,
			func(_ *house, id string) string { return ".copilot/session-state/" + id + "/events.jsonl" },
			nil, // all is in one file
			func(_ *house, id, _, dir string, at time.Time) string {
				return fmt.Sprintf(`{"type":"session.start","id":"entry-%s","data":{"sessionId":%[1]q,"startTime":%[2]q,`+
					`"context":{"cwd":%[3]q}}}`+"\n", id, stamped(at), dir)
			},
			func(m string, n int64, at time.Time) string {
				return fmt.Sprintf(`{"type":"session.usage_record","timestamp":%q,"data":{"usage":{"inputTokens":1,`+
					`"outputTokens":%d,"apiCallId":%q}}}`+"\n", stamped(at), n-1, m)
			},
		},
	}
}

// house is the home of a user, with a working directory.
type house struct {
	t         *testing.T
	home, dir string
	aged      int // directories; see age
}

func newHouse(t *testing.T) *house { return &house{t, t.TempDir(), t.TempDir(), 0} }

// write appends to a file below the home.
func (h *house) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.home, name)
	if filepath.Base(name) == ".project_root" {
		os.Remove(path)
	}
	if err := appendFile(path, text); err != nil {
		h.t.Fatal(err)
	}
}

func appendFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// begin writes the head of a session, or of a subagent of it.
func (h *house) begin(v vendor, id, of, dir string, at time.Time) (name string) {
	name = v.file(h, id)
	if id != of {
		name = v.sub(h, id, of)
	}
	h.write(name, v.head(h, id, of, dir, at))
	return name
}

func (h *house) follow(v vendor, session string) *Follower {
	return Follow(Call{CLI: v.cli, Env: []string{"HOME=" + h.home}, Dir: h.dir, Began: began, Session: session})
}

// look has the next Poll look for files.
func (f *Follower) look(out agentcli.Report) bool {
	f.fresh = true
	return f.Poll(out)
}

func (h *house) expect(f *Follower, session string, tokens int64) {
	h.t.Helper()
	r := f.Report()
	if r.Session != session || r.Tokens() != tokens || r.Known != (tokens > 0) {
		h.t.Errorf("session %q, %d tokens, known %v; expected %q and %d", r.Session, r.Tokens(), r.Known, session, tokens)
	}
}

func each(t *testing.T, test func(t *testing.T, h *house, v vendor)) {
	for _, v := range vendors() {
		t.Run(string(v.cli), func(t *testing.T) { test(t, newHouse(t), v) })
	}
}

// A file is read while it is written, and a line counts when it has ended.
func TestFollow(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		f := h.follow(v, "")
		if f.Poll(agentcli.Report{}) {
			t.Error("something was read, and nothing is there")
		}
		out := agentcli.Report{Session: one}
		if f.Poll(out); len(f.files) != 0 {
			t.Errorf("%d files", len(f.files))
		}
		name := h.begin(v, one, one, h.dir, began.Add(time.Second))
		if !f.look(out) || f.Poll(out) {
			t.Error("what was written is not read, or read twice")
		}
		h.expect(f, one, 0)
		line := v.used("a", 100, began.Add(time.Minute))
		h.write(name, line[:len(line)/2])
		f.Poll(out)
		h.expect(f, one, 0)
		h.write(name, line[len(line)/2:])
		f.Poll(out)
		h.expect(f, one, 100)
		h.write(name, v.used("b", 20, began.Add(time.Minute))+v.used("b", 20, began.Add(time.Minute))+"{half")
		f.Finish(out)
		h.expect(f, one, 120)
		if len(f.files) != 1 {
			t.Errorf("%d files", len(f.files))
		}
	})
}

// What a file has of the time before the call does not count, and the session of a call that continues one is known.
func TestContinued(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		name := h.begin(v, one, one, h.dir, began.Add(-time.Hour))
		h.write(name, v.used("a", 1000, began.Add(-time.Minute)))
		f := h.follow(v, one)
		f.Poll(agentcli.Report{})
		h.expect(f, one, 0)
		h.write(name, v.used("b", 10, began.Add(time.Second)))
		f.Poll(agentcli.Report{})
		h.expect(f, one, 10)
	})
}

// What subagents use counts once, and what they fail with does not decide.
func TestSubagents(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		if v.sub == nil {
			return
		}
		f := h.follow(v, "")
		at := began.Add(time.Second)
		h.write(h.begin(v, one, one, h.dir, at), v.used("a", 10, at))
		sub := h.begin(v, two, one, h.dir, at)
		h.write(sub, v.used("b", 100, at))
		h.write(sub, fmt.Sprintf(`{"type":"event_msg","timestamp":%q,"payload":{"type":"task_complete",`+
			`"error":{"message":"no","codex_error_info":"usage_limit_exceeded"}}}`+"\n"+
			`{"type":"assistant","timestamp":%[1]q,"error":"rate_limit","message":{}}`+"\n", stamped(at)))
		h.write(h.begin(v, three, three, h.dir, at), v.used("c", 1000, at)) // another session
		f.Poll(agentcli.Report{Session: one})
		h.expect(f, one, 110)
		if r := f.Report(); r.Failed || len(r.Failures) > 0 {
			t.Errorf("it has failed: %v", r.Failures)
		}
	})
}

// A session that was not reported is the only one that has begun since the start of the call in its directory.
func TestGuess(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		after := began.Add(time.Second)
		f := h.follow(v, "")
		other := t.TempDir()
		if v.cli != agentcli.Gemini { // it has a directory for each working directory
			h.write(h.begin(v, three, three, other, after), v.used("c", 1000, after))
		}
		old := h.begin(v, two, two, h.dir, began.Add(-time.Second))
		h.write(old, v.used("b", 100, after))
		f.look(agentcli.Report{})
		h.expect(f, "", 0)
		h.write(h.begin(v, one, one, h.dir, after), v.used("a", 10, after))
		f.look(agentcli.Report{})
		h.expect(f, one, 10)

		// Two fit: neither is known, until one is reported.
		const fourth = "21a2200f-2b0d-7290-a8af-7216c039fa2d"
		h.write(h.begin(v, fourth, fourth, h.dir, after), v.used("d", 7, after))
		f.look(agentcli.Report{})
		h.expect(f, "", 0)
		f.look(agentcli.Report{Session: fourth})
		h.expect(f, fourth, 7)
	})
}

// A guess that was wrong counts nothing.
func TestWrongGuess(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		after := began.Add(time.Second)
		f := h.follow(v, "")
		h.write(h.begin(v, three, three, h.dir, after), v.used("c", 1000, after))
		f.look(agentcli.Report{})
		h.expect(f, three, 1000)
		f.look(agentcli.Report{Session: one})
		h.expect(f, one, 0)
	})
}

// copilot names the first entry of its file long before its session, so that two at a time can be told apart.
func TestOrigin(t *testing.T) {
	v, h := vendors()[3], newHouse(t)
	after := began.Add(time.Second)
	h.write(h.begin(v, one, one, h.dir, after), v.used("a", 10, after))
	h.write(h.begin(v, two, two, h.dir, after), v.used("b", 100, after))
	f := h.follow(v, "")
	f.look(agentcli.Report{Origin: "entry-" + two})
	h.expect(f, two, 100)
	f = h.follow(v, "")
	f.look(agentcli.Report{Origin: "entry-" + three})
	h.expect(f, "", 0)
}

// A program that calls command lines is followed by the sessions that it reports, all of which count.
func TestScript(t *testing.T) {
	h := newHouse(t)
	after := began.Add(time.Second)
	f := Follow(Call{CLI: agentcli.Plain, Env: []string{"HOME=" + h.home}, Dir: h.dir, Began: began})
	for i, id := range []string{one, two} {
		v := vendors()[i]
		h.write(h.begin(v, id, id, h.dir, after), v.used("a", 10, after))
		f.Poll(agentcli.Report{})
		f.look(agentcli.Report{CLI: v.cli, Session: id})
	}
	h.expect(f, two, 10) // both have a message "a"
	v := vendors()[1]
	h.write(v.file(h, two), v.used("b", 5, after))
	f.Poll(agentcli.Report{})
	h.expect(f, two, 15)
}

// The home is that of the call.
func TestHome(t *testing.T) {
	for _, c := range []struct {
		cli  agentcli.CLI
		env  []string
		home string
	}{
		{agentcli.Claude, []string{"HOME=/h"}, "/h/.claude"},
		{agentcli.Claude, []string{"HOME=/h", "CLAUDE_CONFIG_DIR=/c"}, "/c"},
		{agentcli.Codex, []string{"HOME=/h"}, "/h/.codex"},
		{agentcli.Codex, []string{"CODEX_HOME=/c", "HOME=/h"}, "/c"},
		{agentcli.Gemini, []string{"HOME=/h"}, "/h/.gemini"},
		{agentcli.Gemini, []string{"HOME=/h", "GEMINI_CLI_HOME=/g"}, "/g/.gemini"},
		{agentcli.Copilot, []string{"HOME=/h"}, "/h/.copilot"},
		{agentcli.Copilot, []string{"HOME=/h", "COPILOT_HOME=/c"}, "/c"},
		{agentcli.Opencode, []string{"HOME=/h"}, "/h/.local/share/opencode"},
		{agentcli.Opencode, []string{"HOME=/h", "XDG_DATA_HOME=/d"}, "/d/opencode"},
		{agentcli.Opencode, nil, ""},
		{agentcli.Plain, []string{"HOME=/h"}, ""},
		{agentcli.Claude, nil, ""},
		{agentcli.Claude, []string{"HOME=/h", "HOME=/i"}, "/i/.claude"},
	} {
		if got := home(c.cli, c.env); got != c.home {
			t.Errorf("%s with %v: %q, expected %q", c.cli, c.env, got, c.home)
		}
	}
}

// A file that was truncated or replaced is read again, and no message counts twice.
func TestReplaced(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		at := began.Add(time.Second)
		f := h.follow(v, one)
		name := h.begin(v, one, one, h.dir, at)
		path := filepath.Join(h.home, name)
		h.write(name, v.used("a", 10, at)+v.used("b", 10, at)+"{half")
		f.look(agentcli.Report{})
		h.expect(f, one, 20)
		for i, change := range []func(string) error{
			func(p string) error { return os.Truncate(p, 0) },
			os.Remove,
		} {
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			f.Poll(agentcli.Report{})
			h.begin(v, one, one, h.dir, at)
			h.write(name, v.used("a", 10, at)+v.used(fmt.Sprint("c", i), 1, at))
			f.Poll(agentcli.Report{})
			h.expect(f, one, 21+int64(i))
		}
	})
}

// What is no regular file in the directory of the command line is not read, and nothing waits for it.
func TestHostile(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		at := began.Add(time.Second)
		outside := filepath.Join(t.TempDir(), "outside.jsonl")
		if err := os.WriteFile(outside, []byte(v.head(h, one, one, h.dir, at)+v.used("a", 10, at)), 0o600); err != nil {
			t.Fatal(err)
		}
		for what, plant := range map[string]func(path string) error{
			"a link that leads out": func(p string) error { return os.Symlink(outside, p) },
			"a pipe":                func(p string) error { return syscall.Mkfifo(p, 0o600) },
			"a directory":           func(p string) error { return os.Mkdir(p, 0o700) },
			"an endless file":       func(p string) error { return os.Symlink("/dev/zero", p) },
			"rubbish":               func(p string) error { return os.WriteFile(p, []byte("\x00{{{\"\n}\n[]\nnull\n"), 0o600) },
		} {
			path := filepath.Join(h.home, v.file(h, one))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			os.Remove(path)
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			f := h.follow(v, one)
			f.look(agentcli.Report{})
			f = h.follow(v, "")
			f.look(agentcli.Report{})
			if f.look(agentcli.Report{Session: one}); f.Report().Known {
				t.Errorf("%s was read", what)
			}
		}
		// A file becomes a link while it is followed.
		path := filepath.Join(h.home, v.file(h, one))
		os.Remove(path)
		h.begin(v, one, one, h.dir, at)
		f := h.follow(v, one)
		f.look(agentcli.Report{})
		os.Remove(path)
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
		if f.Poll(agentcli.Report{}); f.Report().Known {
			t.Error("the link was read")
		}
	})
	for _, id := range []string{
		"../../../etc/passwd", "*", "", "a", strings.Repeat("a", 129), "-abcdefgh", "aaaaaaaa/b", "aaaaaaaa\x00",
		"aaaaaaaa?",
	} {
		f := newHouse(t).follow(vendors()[0], id)
		if f.Poll(agentcli.Report{Session: id}); len(f.sessions) > 0 {
			t.Errorf("%q is followed", id)
		}
	}
}

// Of files that are too large nothing is known, and one look reads only a part.
func TestHuge(t *testing.T) {
	v, h := vendors()[0], newHouse(t)
	at := began.Add(time.Second)
	name := h.begin(v, one, one, h.dir, at)
	h.write(name, v.used("a", 10, at))
	f := h.follow(v, one)
	if err := os.Truncate(filepath.Join(h.home, name), maxPoll+1<<20); err != nil { // sparse
		t.Fatal(err)
	}
	if !f.look(agentcli.Report{}) || f.read != maxPoll {
		t.Errorf("%d bytes were read", f.read)
	}
	h.write(name, "\n"+v.used("b", 5, at))
	f.Poll(agentcli.Report{})
	h.expect(f, one, 15)
	f.read = maxRead + 1
	if r := f.Report(); r.Known || r.Session != "" {
		t.Errorf("%+v", r)
	}
	if h.write(name, v.used("c", 5, at)); f.Poll(agentcli.Report{}) {
		t.Error("it is still read")
	}
}

// The file of a subagent of codex that was not written for a day is followed when it is written again.
func TestOldSubagent(t *testing.T) {
	v, h := vendors()[1], newHouse(t)
	day := time.Now().AddDate(0, 0, -1) // not of began, which is two days ago in the first hour of a day
	dir := ".codex/sessions/" + day.Format("2006/01/02/")
	name := dir + "rollout-" + day.Format("2006-01-02T15-04-05-") + two + ".jsonl"
	h.write(name, v.head(h, two, one, h.dir, day))
	for _, old := range []string{name, dir} {
		if err := os.Chtimes(filepath.Join(h.home, old), day, day); err != nil {
			t.Fatal(err)
		}
	}
	f := h.follow(v, one)
	f.look(agentcli.Report{})
	h.write(name, v.used("a", 10, began.Add(time.Second)))
	f.look(agentcli.Report{})
	h.expect(f, one, 10)
}

// A session of codex that was begun long ago is found, too.
func TestOldRollout(t *testing.T) {
	v, h := vendors()[1], newHouse(t)
	name := ".codex/sessions/2025/01/02/rollout-2025-01-02T00-00-00-" + one + ".jsonl"
	h.write(name, v.head(h, one, one, h.dir, began.Add(-9000*time.Hour)))
	h.write(name, v.used("a", 10, began.Add(time.Second)))
	f := h.follow(v, one)
	f.look(agentcli.Report{})
	f.look(agentcli.Report{})
	h.expect(f, one, 10)
}

// Whatever the start of a file is, what is known of it is consistent.
func FuzzHeader(f *testing.F) {
	h := &house{home: f.TempDir(), dir: "/work"}
	for i, v := range vendors() {
		if v.cli != agentcli.Gemini {
			f.Add(i, []byte(v.head(h, one, one, h.dir, began)))
			f.Add(i, []byte(v.head(h, two, one, h.dir, began)))
		}
	}
	f.Add(2, []byte(`{"sessionId":"`+one+`","startTime":"2026-11-28T02:50:19.297Z","kind":"main"}`+"\n"))
	f.Fuzz(func(t *testing.T, which int, text []byte) {
		cli := vendors()[uint(which)%4].cli
		got := parseHeader(cli, bytes.NewReader(text))
		if got.whole() && (got.id == "" || got.dir == "" || got.began.IsZero()) {
			t.Errorf("%+v", got)
		}
		more := parseHeader(cli, bytes.NewReader(append(text, "{half"...)))
		if more != got && strings.HasSuffix(string(text), "\n") {
			t.Errorf("half a line after it: %+v, before %+v", more, got)
		}
	})
}

// Where command lines keep their sessions depends on no other variable than those of Variables.
func TestVariables(t *testing.T) {
	all := []string{"SECRET=x", "HOME=/h", "HOMES=/x"}
	for _, more := range [][]string{
		nil, {"CLAUDE_CONFIG_DIR=/c"}, {"CODEX_HOME=/c"}, {"GEMINI_CLI_HOME=/c"}, {"XDG_DATA_HOME=/c"},
		{"COPILOT_HOME=/c"},
	} {
		env := append(all[:len(all):len(all)], more...)
		some := Variables(env)
		if len(some) != 1+len(more) {
			t.Errorf("%q", some)
		}
		changed := false
		for _, cli := range agentcli.CLIs() {
			if home(cli, env) != home(cli, some) {
				t.Errorf("%s: %q with all variables, and %q with %q", cli, home(cli, env), home(cli, some), some)
			}
			changed = changed || home(cli, env) != home(cli, all)
		}
		if changed != (more != nil) {
			t.Errorf("%q changes no home", more)
		}
	}
}

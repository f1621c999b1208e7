package session

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session/opencode/opencodetest"
)

// IDs of sessions of opencode.
const (
	first  = "ses_dde7c2e84ffe2NlNBlBR2tt0rS"
	second = "ses_dde782057ffeI6G0KJ6kJW7idj"
)

// at returns a time after the start of the calls of the tests, in milliseconds since 1970.
func at(after time.Duration) int64 { return began.Add(after).UnixMilli() }

// opencode makes the database of a home.
func (h *house) opencode() *opencodetest.DB {
	h.t.Helper()
	dir := filepath.Join(h.home, ".local/share/opencode")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return opencodetest.New(h.t, dir)
}

// step adds a message whose only step has used tokens.
func step(db *opencodetest.DB, id, session string, tokens int) {
	db.Assistant("msg_"+id, session, at(time.Second))
	db.Step("prt_"+id, "msg_"+id, tokens-1, 1)
}

func (h *house) followOpencode(session string) *Follower {
	return h.follow(vendor{cli: agentcli.Opencode}, session)
}

// A session of opencode is followed in its database, with those of its subagents.
func TestDatabase(t *testing.T) {
	h := newHouse(t)
	f := h.followOpencode("")
	if f.Poll(agentcli.Report{}) {
		t.Error("something was read, and nothing is there")
	}
	out := agentcli.Report{Session: first}
	f.Poll(out)
	db := h.opencode()
	db.Session(first, "", "/elsewhere", at(time.Second))
	db.Session("ses_below", first, h.dir, at(time.Second))
	step(db, "a", first, 100)
	step(db, "b", "ses_below", 20)
	db.Message("msg_b", "ses_below", at(time.Second), `{"role":"assistant","modelID":"model",`+
		`"error":{"name":"APIError"}}`)
	if !f.Poll(out) || f.Poll(out) {
		t.Error("what was written is not read, or read twice")
	}
	h.expect(f, first, 120)
	if r := f.Report(); r.Failed || r.Turns != 2 || r.Models["model"].CacheRead != 14 {
		t.Errorf("%+v", r)
	}
	db.Step("prt_a", "msg_a", 149, 1) // it has grown
	db.Message("msg_a", first, at(time.Second), `{"role":"assistant","error":{"name":"APIError",`+
		`"data":{"message":"no","statusCode":401,"isRetryable":false}}}`)
	f.Finish(out)
	h.expect(f, first, 170)
	if r := f.Report(); !r.Failed || len(r.Failures) != 1 || r.Failures[0].Status != 401 ||
		r.Failures[0].Source != agentcli.FromSession {
		t.Errorf("%+v", r)
	}
	db.User("msg_c", first, at(time.Minute))
	f.Finish(out)
	if r := f.Report(); r.Failed || r.Version != "1.18.33" {
		t.Errorf("it goes on: %+v", r)
	}
}

// The tools that work are known.
func TestDatabaseTools(t *testing.T) {
	h := newHouse(t)
	db := h.opencode()
	db.Session(first, "", h.dir, at(time.Second))
	db.Assistant("msg_a", first, at(time.Second))
	f := h.followOpencode(first)
	for _, c := range []struct {
		status    string
		working   int
		succeeded int
	}{{"pending", 1, 0}, {"running", 1, 0}, {"completed", 0, 1}} {
		db.Part("prt_a", "msg_a", `{"type":"tool","tool":"bash","callID":"c","state":{"status":"`+c.status+`"}}`)
		f.Poll(agentcli.Report{})
		if r := f.Report(); r.Calls != 1 || r.Working != c.working || r.Succeeded != c.succeeded {
			t.Errorf("%s: %+v", c.status, r)
		}
	}
}

// A session of opencode that was not reported is the only one that has begun since the start of the call in its
// directory.
func TestDatabaseGuess(t *testing.T) {
	h := newHouse(t)
	db := h.opencode()
	f := h.followOpencode("")
	db.Session("ses_elsewhere", "", t.TempDir(), at(time.Second))
	step(db, "e", "ses_elsewhere", 1000)
	db.Session("ses_earlier", "", h.dir, at(-time.Second))
	step(db, "f", "ses_earlier", 1000)
	f.look(agentcli.Report{})
	h.expect(f, "", 0)
	db.Session(first, "", h.dir, at(time.Second))
	step(db, "a", first, 10)
	f.look(agentcli.Report{})
	h.expect(f, first, 10)
	db.Session(second, "", h.dir, at(time.Second))
	step(db, "b", second, 7)
	f.look(agentcli.Report{})
	h.expect(f, "", 0)
	f.look(agentcli.Report{Session: second})
	h.expect(f, second, 7)

	f = Follow(Call{
		CLI: agentcli.Opencode, Env: []string{"HOME=" + h.home}, Dir: h.dir, Began: began,
		Shared: func() bool { return true },
	})
	db.Exec("DELETE FROM session WHERE id = ?", second)
	f.look(agentcli.Report{})
	h.expect(f, "", 0)
}

// Of a session whose steps are not as they should be, nothing is known. Other kinds of parts are counted.
func TestDatabaseUnknown(t *testing.T) {
	for data, known := range map[string]bool{
		`{"type":"step-finish","tokens":{"input":"many","output":2}}`: false,
		`{"type":"step-finish","tokens":{"input":1}}`:                 false,
		`{"type":"step-finish","tokens":{"input":1.5,"output":2}}`:    false,
		`{"type":"step-finish"}`:                                      false,
		`{"type":"dance"}`:                                            true,
		`{"type":7}`:                                                  true,
		`[]`:                                                          true,
		`{`:                                                           true,
	} {
		h := newHouse(t)
		db := h.opencode()
		db.Session(first, "", h.dir, at(time.Second))
		step(db, "a", first, 10)
		db.Part("prt_b", "msg_a", data)
		f := h.followOpencode(first)
		f.Poll(agentcli.Report{})
		if r := f.Report(); r.Known != known || known && (r.Tokens() != 10 || len(r.Unknown) != 1) {
			t.Errorf("%s: %+v", data, r)
		}
	}
	h := newHouse(t)
	db := h.opencode()
	db.Session(first, "", h.dir, at(time.Second))
	step(db, "a", first, 10)
	f := h.followOpencode(first)
	f.Poll(agentcli.Report{})
	db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= 5000)
		INSERT INTO part SELECT 'prt_' || i, 'msg_a', ?, 0, 0, '{"type":"step-start"}' FROM n`, first)
	f.Poll(agentcli.Report{})
	if r := f.Report(); r.Known {
		t.Errorf("of too many parts: %+v", r)
	}
}

// What is no regular file in the directory of opencode is not read, and nothing waits for it.
func TestDatabaseHostile(t *testing.T) {
	elsewhere := newHouse(t)
	db := elsewhere.opencode()
	db.Session(first, "", elsewhere.dir, at(time.Second))
	step(db, "a", first, 10)
	outside := filepath.Join(elsewhere.home, ".local/share/opencode/opencode.db")
	for what, plant := range map[string]func(path string) error{
		"a link that leads out": func(p string) error { return os.Symlink(outside, p) },
		"a pipe":                func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"a directory":           func(p string) error { return os.Mkdir(p, 0o700) },
		"an endless file":       func(p string) error { return os.Symlink("/dev/zero", p) },
	} {
		for _, ending := range []string{"", "-wal"} {
			h := newHouse(t)
			path := filepath.Join(h.home, ".local/share/opencode/opencode.db")
			if ending == "" {
				os.MkdirAll(filepath.Dir(path), 0o700)
			} else {
				own := h.opencode()
				own.Session(first, "", h.dir, at(time.Second))
				step(own, "a", first, 10)
				own.Close()
			}
			if err := plant(path + ending); err != nil {
				t.Fatal(err)
			}
			f := h.followOpencode("")
			f.look(agentcli.Report{})
			if f.look(agentcli.Report{Session: first}); f.Report().Known {
				t.Errorf("%s%s was read", what, ending)
			}
		}
	}
}

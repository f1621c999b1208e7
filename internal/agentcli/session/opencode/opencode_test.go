package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session/opencode/opencodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name  = opencodetest.Name
	root  = "ses_root0001"
	began = int64(1_795_858_616_000) // milliseconds since 1970
)

// house is a directory with a database, and a reader of it.
type house struct {
	*opencodetest.DB
	t      *testing.T
	path   string
	dir    *counting
	reader *Reader
}

// counting is a directory that counts how often files are opened.
type counting struct {
	fs.StatFS
	opened []string
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened = append(c.opened, name)
	return c.StatFS.Open(name)
}

func newHouse(t *testing.T) *house {
	path := t.TempDir()
	h := &house{opencodetest.New(t, path), t, path, directory(path), New(time.UnixMilli(began))}
	h.Session(root, "", "/work", began)
	return h
}

func directory(path string) *counting { return &counting{StatFS: os.DirFS(path).(fs.StatFS)} }

// read returns the rows that are new, in short.
func (h *house) read(sessions ...string) (all []string) {
	h.t.Helper()
	if sessions == nil {
		sessions = []string{root}
	}
	rows, err := h.reader.Read(h.dir, name, sessions)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range rows {
		var data struct {
			Type, Role string
			State      struct{ Status string }
		}
		if err := json.Unmarshal(r.Data, &data); err != nil && r.Data != nil {
			h.t.Error(err)
		}
		text := strings.TrimSpace(r.Part + " " + data.Type + data.Role + " " + data.State.Status)
		if r.Sub {
			text = "sub " + text
		}
		all = append(all, text)
		if r.Version != "1.18.33" || r.Session == "" {
			h.t.Errorf("%+v", r)
		}
	}
	return all
}

func (h *house) expect(what string, want ...string) {
	h.t.Helper()
	if got := h.read(); !slices.Equal(got, want) {
		h.t.Errorf("%s: %q, expected %q", what, got, want)
	}
}

// Rows are read when they are new or have changed, while the model works.
func TestRead(t *testing.T) {
	h := newHouse(t)
	h.expect("nothing was asked")
	h.User("msg_1", root, began+1)
	h.Part("prt_0", "msg_1", `{"type":"text","text":"What is the answer?"}`)
	h.expect("a prompt", "user")
	h.Assistant("msg_2", root, began+2)
	h.Part("prt_1", "msg_2", `{"type":"step-start"}`)
	h.Part("prt_2", "msg_2", `{"type":"tool","state":{"status":"running"}}`)
	h.expect("a tool runs", "prt_1 step-start", "prt_2 tool running", "assistant")
	h.expect("nothing has changed")
	h.Part("prt_2", "msg_2", `{"type":"tool","state":{"status":"completed"}}`)
	h.Step("prt_3", "msg_2", 1, 2)
	h.User("msg_1", root, began+1)
	h.Message("msg_1", root, began+1, `{"role":"user","summary":{}}`) // as it does later
	h.expect("the tool has ended", "prt_2 tool completed", "prt_3 step-finish")
	h.Assistant("msg_3", root, began+3)
	h.Step("prt_4", "msg_3", 1, 2)
	h.Message("msg_3", root, began+3, `{"role":"assistant","error":{"name":"APIError"}}`)
	h.expect("the next step", "prt_4 step-finish", "assistant")
	h.User("msg_4", root, began+4)
	h.expect("another prompt", "user")
	h.Message("msg_4", root, began+4, `{"role":"user","summary":{}}`)
	h.expect("the same prompt")
	if p := h.reader.sessions[root]; len(p.rows) != 3 || p.from != began+3 {
		t.Errorf("it keeps %+v", p)
	}
}

// What is older than the call does not count. A fork has copies of old messages, whose parts are new.
func TestSince(t *testing.T) {
	h := newHouse(t)
	h.Assistant("msg_1", root, began-1)
	h.Step("prt_1", "msg_1", 1, 2)
	h.Assistant("msg_2", root, began)
	h.Step("prt_2", "msg_2", 1, 2)
	h.expect("a session that is continued", "prt_2 step-finish", "assistant")
}

// Sessions below a session are read, at any depth, and each once.
func TestBelow(t *testing.T) {
	h := newHouse(t)
	h.Session("ses_below", root, "/work", began)
	h.Session("ses_deeper", "ses_below", "/work", began)
	h.Session("ses_other", "", "/work", began)
	h.Session("ses_unused", root, "/work", began-1)
	for i, s := range []string{"ses_below", "ses_deeper", "ses_other", "ses_unused"} {
		m := fmt.Sprint("msg_", i)
		h.Assistant(m, s, began)
		h.Step(fmt.Sprint("prt_", i), m, 1, 2)
	}
	h.Exec("UPDATE session SET parent_id = 'ses_unused' WHERE id = 'ses_below'") // one that was not used is between
	h.expect("two are below it", "sub prt_0 step-finish", "sub assistant", "sub prt_1 step-finish", "sub assistant")
	if got := h.read(root, "ses_other", "ses_below"); !slices.Equal(got, []string{"prt_2 step-finish", "assistant"}) {
		t.Errorf("with others: %q", got)
	}
	h.Exec("UPDATE session SET parent_id = 'ses_deeper' WHERE id = ?", root)
	h.Assistant("msg_9", root, began+1)
	h.expect("a circle", "assistant")
}

// Begun finds sessions by directory and time.
func TestBegun(t *testing.T) {
	h := newHouse(t)
	h.Session("ses_old", "", "/work", began-1)
	h.Session("ses_below", root, "/work", began)
	h.Session("ses_elsewhere", "", "/elsewhere", began)
	for range 2 {
		got, err := h.reader.Begun(h.dir, name, []string{"/work", "/work", "/link"})
		if err != nil || !slices.Equal(got, []string{root}) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	h.Session("ses_two", "", "/link", began)
	if got, err := h.reader.Begun(h.dir, name, []string{"/work", "/link"}); err != nil || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
}

// More than a few messages are read in several queries, and more than is read at a time in several calls.
func TestMany(t *testing.T) {
	h := newHouse(t)
	const n = 2*maxMessages + maxMessages/2
	h.Exec("BEGIN")
	for i := range n {
		m := fmt.Sprint("msg_", i)
		h.Assistant(m, root, began+int64(i))
		h.Step(fmt.Sprint("prt_", i), m, 1, 2)
	}
	h.Exec("COMMIT")
	if got := h.read(); len(got) != 2*n {
		t.Errorf("%d rows, expected %d", len(got), 2*n)
	}
	large := `{"type":"reasoning","text":"` + strings.Repeat("x", 1_900_000) + `"}`
	h.Exec("BEGIN")
	h.Assistant("msg_large", root, began+n)
	for i := range 7 {
		h.Part(fmt.Sprintf("prt_large%d", i), "msg_large", large)
	}
	h.Step("prt_z", "msg_large", 1, 2)
	for i := range maxMessages {
		h.Assistant(fmt.Sprint("msg_after", i), root, began+n+1+int64(i))
	}
	h.Exec("COMMIT")
	first := h.read()
	if len(first) != 5 || h.reader.sessions[root].from != began+n-1 {
		t.Errorf("%d rows at first, from %d", len(first), h.reader.sessions[root].from-began)
	}
	h.expect("the rest", append([]string{"prt_large5 reasoning", "prt_large6 reasoning", "prt_z step-finish"},
		slices.Repeat([]string{"assistant"}, 1+maxMessages)...)...)
	h.expect("no more")
}

// A database of which not everything can be read has an error, and never a part.
func TestBounds(t *testing.T) {
	for what, write := range map[string]func(h *house){
		"parts": func(h *house) {
			h.Assistant("msg_1", root, began)
			h.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)
				INSERT INTO part SELECT 'prt_' || i, 'msg_1', ?, 0, 0, '{"type":"step-start"}' FROM n`, maxParts, root)
		},
		"sessions": func(h *house) {
			h.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)
				INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated)
				SELECT 'ses_' || i, '', ?, '', '', '', '', 0, ? FROM n`, maxSessions, root, began)
		},
		"messages at a time": func(h *house) {
			h.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)
				INSERT INTO message SELECT 'msg_' || i, ?, ?, 0, '{"role":"user"}' FROM n`, maxMessages, root, began)
		},
	} {
		h := newHouse(t)
		write(h)
		if rows, err := h.reader.Read(h.dir, name, []string{root}); !errors.Is(err, ErrBounds) || rows != nil {
			t.Errorf("%s: %d rows, %v", what, len(rows), err)
		}
	}
}

// Values that are not as they should be are null, or an error.
func TestHostile(t *testing.T) {
	null := []string{"prt_1", "assistant"}
	for what, c := range map[string]struct {
		write func(h *house)
		want  []string // nil: an error
	}{
		"no JSON":    {func(h *house) { h.Part("prt_1", "msg_1", `{"type":"step-finish"`) }, null},
		"a blob":     {func(h *house) { h.Part("prt_1", "msg_1", []byte(`{"type":"step-finish"}`)) }, null},
		"huge":       {func(h *house) { h.Part("prt_1", "msg_1", `"`+strings.Repeat("x", 3<<20)+`"`) }, null},
		"larger":     {func(h *house) { h.Part("prt_1", "msg_1", `"`+strings.Repeat("x", 5<<20)+`"`) }, null},
		"no message": {func(h *house) { h.Exec("UPDATE message SET data = 'null'") }, []string{""}},
		"a time":     {func(h *house) { h.Exec("UPDATE message SET time_created = 'yesterday'") }, nil},
		"a huge ID":  {func(h *house) { h.Exec("UPDATE part SET id = ?", strings.Repeat("x", 5<<20)) }, nil},
		"a view": {func(h *house) {
			h.Exec("ALTER TABLE part RENAME TO p; CREATE VIEW part AS SELECT * FROM p")
		}, nil},
		"no table":      {func(h *house) { h.Exec("DROP TABLE part") }, nil},
		"other columns": {func(h *house) { h.Exec("ALTER TABLE message RENAME COLUMN data TO info") }, nil},
		"a virtual table": {func(h *house) {
			h.Exec("DROP TABLE part; CREATE VIRTUAL TABLE part USING fts5(id, message_id, data)")
		}, nil},
	} {
		h := newHouse(t)
		h.Assistant("msg_1", root, began)
		h.Part("prt_1", "msg_1", `{"type":"step-start"}`)
		c.write(h)
		rows, err := h.reader.Read(h.dir, name, []string{root})
		if (err == nil) != (c.want != nil) {
			t.Errorf("%s: %v, %v", what, rows, err)
		}
		if c.want != nil && !slices.Equal(h.again().read(), c.want) {
			t.Errorf("%s: %q", what, h.again().read())
		}
	}
}

// again returns the same database with a reader that has read nothing.
func (h *house) again() *house {
	other := *h
	other.reader = New(time.UnixMilli(began))
	return &other
}

// Files that are no database have an error.
func TestFiles(t *testing.T) {
	for what, plant := range map[string]func(path string) error{
		"nothing":  func(string) error { return nil },
		"an empty": func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"rubbish": func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("rubbish", 10_000)), 0o600)
		},
		"a directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"a huge log": func(p string) error {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				return err
			}
			return errors.Join(os.WriteFile(p+"-wal", nil, 0o600), os.Truncate(p+"-wal", maxLog+1))
		},
		"a cut": func(p string) error {
			h := newHouse(t)
			h.Close()
			text, err := os.ReadFile(filepath.Join(h.path, name))
			if err != nil {
				return err
			}
			return os.WriteFile(p, text[:len(text)/2], 0o600)
		},
	} {
		path := t.TempDir()
		if err := plant(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
		rows, err := New(time.UnixMilli(began)).Read(directory(path), name, []string{root})
		if rows != nil || err == nil || !strings.HasPrefix(err.Error(), "reading "+name+": ") {
			t.Errorf("%s: %v, %v", what, rows, err)
		}
	}
}

// A line of a row is read by a Stream.
func TestLine(t *testing.T) {
	h := newHouse(t)
	h.Assistant("msg_1", root, began)
	h.Step("prt_1", "msg_1", 10, 20)
	rows, err := h.reader.Read(h.dir, name, []string{root})
	if err != nil {
		t.Fatal(err)
	}
	s := agentcli.Stream{CLI: agentcli.Opencode, Source: agentcli.FromSession, Since: time.UnixMilli(began)}
	for _, r := range rows {
		line, err := r.Line()
		if err != nil {
			t.Fatal(err)
		}
		s.Write(line)
	}
	want := agentcli.Usage{Input: 10, Output: 20, CacheRead: 7, Dollars: 0.5}
	if got := s.Report(); got.Models["model"] != want || len(got.Unknown) > 0 {
		t.Errorf("%+v", got)
	}
}

// tree returns the files of a directory with their contents and times.
func tree(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %v %v %x\n", e.Name(), info.Mode(), info.ModTime(), text)
	}
	return all.String()
}

// It makes no difference whether opencode runs, has ended or was killed, and nothing is written.
func TestStates(t *testing.T) {
	write := func(h *house) {
		h.Assistant("msg_1", root, began)
		h.Step("prt_1", "msg_1", 1, 2)
	}
	// move puts the files with some endings elsewhere, as they are when opencode is killed.
	move := func(h *house, endings ...string) {
		to := h.t.TempDir()
		for _, e := range endings {
			text, err := os.ReadFile(filepath.Join(h.path, name+e))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name+e), text, 0o600)
			}
			if err != nil {
				h.t.Fatal(err)
			}
		}
		h.Close()
		h.path, h.dir = to, directory(to)
	}
	for what, leave := range map[string]func(h *house){
		"it runs":                         func(*house) {},
		"it has ended":                    func(h *house) { h.Close() },
		"it was killed":                   func(h *house) { move(h, "", "-wal", "-shm") },
		"it was killed, without an index": func(h *house) { move(h, "", "-wal") },
		"files may only be read": func(h *house) {
			move(h, "", "-wal", "-shm")
			if err := os.Chmod(h.path, 0o500); err != nil {
				h.t.Fatal(err)
			}
			h.t.Cleanup(func() { os.Chmod(h.path, 0o700) })
		},
		"half a commit is at the end": func(h *house) {
			h.Step("prt_2", "msg_1", 100, 200)
			move(h, "", "-wal")
			log := filepath.Join(h.path, name+"-wal")
			info, err := os.Stat(log)
			if err == nil {
				err = os.Truncate(log, info.Size()-10)
			}
			if err != nil {
				h.t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse(t)
			write(h)
			leave(h)
			before := tree(t, h.path)
			h.expect(what, "prt_1 step-finish", "assistant")
			if after := tree(t, h.path); after != before {
				t.Error("the files were changed")
			}
		})
	}
}

// Nothing is opened while nothing has changed.
func TestUnchanged(t *testing.T) {
	h := newHouse(t)
	h.Close()
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(h.path, name), old, old); err != nil {
		t.Fatal(err)
	}
	h.expect("a first look")
	opened := len(h.dir.opened)
	h.expect("another look")
	if len(h.dir.opened) != opened || opened == 0 {
		t.Errorf("%q were opened", h.dir.opened[opened:])
	}
	other := opencodetest.Open(t, h.path)
	other.User("msg_1", root, began)
	h.expect("something has changed", "user")
}

// What is written meanwhile is never half seen, and writing is not held up. A snapshot that opencode has changed under
// way is dropped.
func TestChanged(t *testing.T) {
	h := newHouse(t)
	const commit, into = "UPDATE part SET data = 'new'", "UPDATE part SET time_updated = time_updated + 1"
	for what, c := range map[string]struct {
		before, change string
		reads          int
	}{
		"a commit":             {into, commit, 1},
		"a checkpoint":         {into, commit + "; PRAGMA wal_checkpoint", 2},
		"the end of the log":   {into, commit + "; PRAGMA wal_checkpoint(TRUNCATE)", 2},
		"a log, begun again":   {into + "; PRAGMA wal_checkpoint", commit, 2},
		"a log, where none is": {"", commit, 2},
	} {
		h.Assistant("msg_1", root, began)
		h.Part("prt_1", "msg_1", "old")
		h.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
		h.Exec(c.before)
		reads, got := 0, ""
		_, err := snapshot(h.dir, name, state{}, func(c2 *conn) error {
			if reads++; reads == 1 {
				h.Exec("PRAGMA busy_timeout = 0")
				h.Exec(c.change)
			}
			return c2.QueryRowContext(c2.ctx, "SELECT data FROM part").Scan(&got)
		})
		if err != nil || reads != c.reads || c.reads == 2 && got != "new" {
			t.Errorf("%s: %q after %d reads, %v", what, got, reads, err)
		}
	}
	reads := 0
	_, err := snapshot(h.dir, name, state{}, func(*conn) error {
		reads++
		h.Exec("UPDATE part SET data = ?; PRAGMA wal_checkpoint(TRUNCATE)", reads)
		return nil
	})
	if !errors.Is(err, errChanged) || reads != attempts {
		t.Errorf("always changed: %v after %d reads", err, reads)
	}
}

// A snapshot does not begin before every change of the database has another time than the last one.
func TestFresh(t *testing.T) {
	h := newHouse(t)
	at := time.Now()
	if err := os.Chtimes(filepath.Join(h.path, name), at, at); err != nil {
		t.Fatal(err)
	}
	_, err := snapshot(h.dir, name, state{}, func(*conn) error {
		if since := time.Since(at); since < coarse {
			t.Errorf("it begins after %v", since)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{name, name + "-wal"} {
		for age, unchanged := range map[time.Duration]bool{0: false, time.Hour: true} {
			old, at := time.Now().Add(-time.Hour), time.Now().Add(-age)
			for f, at := range map[string]time.Time{name: old, name + "-wal": old, file: at} {
				if err := os.Chtimes(filepath.Join(h.path, f), at, at); err != nil {
					t.Fatal(err)
				}
			}
			now, err := stat(h.dir, name)
			if now.at = at.Add(coarse / 2); age > 0 {
				now.at = time.Now()
			}
			if err != nil || now.unchanged(now) != unchanged {
				t.Errorf("%s, %v after it was written: unchanged is %v, %v", file, age, !unchanged, err)
			}
		}
	}
}

// A database that is written all the time is read without an error, and what is read adds up.
func TestWhileWritten(t *testing.T) {
	h := newHouse(t)
	h.Exec("PRAGMA wal_autocheckpoint = 20")
	const steps = 100
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range steps {
			m := fmt.Sprint("msg_", i)
			h.Exec("BEGIN")
			h.Assistant(m, root, began+int64(i))
			h.Part(fmt.Sprint("prt_", i), m, `{"type":"tool","text":"`+strings.Repeat("x", 5000)+`"}`)
			h.Step(fmt.Sprint("prt_", i, "_end"), m, 1, 2)
			h.Exec("COMMIT")
		}
	}()
	seen := map[string]int{}
	for ended := false; ; {
		rows, err := h.reader.Read(h.dir, name, []string{root})
		if err != nil && !errors.Is(err, errChanged) {
			t.Fatal(err)
		}
		for _, r := range rows {
			seen[r.Part]++
		}
		if ended && err == nil {
			break
		}
		select {
		case <-written:
			ended = true
		default:
		}
	}
	for i := range steps {
		if id := fmt.Sprint("prt_", i, "_end"); seen[id] != 1 {
			t.Errorf("%s was read %d times", id, seen[id])
		}
	}
}

// A query ends in time, whatever the database makes of it.
func TestEndless(t *testing.T) {
	h := newHouse(t)
	_, err := snapshot(h.dir, name, state{}, func(c *conn) error {
		ctx, cancel := context.WithCancel(c.ctx)
		cancel()
		return c.QueryRowContext(ctx, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
			SELECT max(i) FROM n`).Scan(new(int))
	})
	if err == nil {
		t.Error("it has an end")
	}
}

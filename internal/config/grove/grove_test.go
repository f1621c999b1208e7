package grove

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const wholeGrove = `
[project]
name = "db-guardian"
version = "2.0.0-rc1"
entry = "app/../app/guardian.sg"

[persistence]
backend = "sqlite"
path = "state/db_guardian.db"

[supervision]
max_restarts = 10
within_seconds = 30

[observability]
backend = "none"
otlp_endpoint = "http://localhost:4317"
service_name = "guardian"

[test]
timeout_ms = 1500

[divine]
command = ["claude", "-p", "{prompt}"]
format = "claude"
timeout = "2m"

[dependencies]
ward = { git = "x", tag = "v1" }

[tools.database]
url = "postgres://localhost/x"

[tools."my tool"]
transport = "stdio"

[extern]
modules = ["a.rs"]
`

func TestParseGrove(t *testing.T) {
	at := func(line, column int, key string) toml.Place {
		return toml.Place{File: "/home/db/grove.toml", Line: line, Column: column, Key: key}
	}
	for _, tt := range []struct {
		name, text string
		want       Grove
		notices    string
	}{
		{"whole", wholeGrove, Grove{
			Name: "db-guardian", Version: "2.0.0-rc1",
			Entry:       toml.Setting[string]{Value: "/home/db/app/guardian.sg", Place: at(5, 9, "project.entry")},
			Persistence: Persistence{spec.SQLite, toml.Setting[string]{Value: "/home/db/state/db_guardian.db", Place: at(9, 8, "persistence.path")}},
			Limit:       supervisor.Escalating(10, 30*time.Second), Trace: NoTrace, TestTimeout: 1500 * time.Millisecond,
			Divine: Divine{[]string{"claude", "-p", "{prompt}"}, Claude, 2 * time.Minute},
		}, `
			17:1: otlp_endpoint is not used: otlp is not supported yet
			18:1: service_name is not used: only otlp has one, which is not supported yet
			28:2: dependencies is not used: a program is made of the modules of its project
			31:8: tools.database is not used
			34:8: tools."my tool" is not used
			37:2: extern is not used: there are no functions of other languages`},
		{"defaults", "project.name = \"db\"\n", Grove{
			Name: "db", Version: "0.1.0",
			Entry:       toml.Setting[string]{Value: "/home/db/src/main.sg", Place: at(0, 0, "project.entry")},
			Persistence: Persistence{spec.SQLite, toml.Setting[string]{Value: "/home/db/.sage/checkpoints.db", Place: at(0, 0, "persistence.path")}},
			Limit:       supervisor.Escalating(5, time.Minute), Trace: NDJSON, TestTimeout: 10 * time.Second,
		}, ""},
		{"memory", "project = { name = \"db\", entry = '/srv/x.sg' }\npersistence = { backend = \"memory\", path = \"x\", url = \"y\" }\nsupervision.max_restarts = \"unlimited\"\n", Grove{
			Name: "db", Version: "0.1.0",
			Entry:       toml.Setting[string]{Value: "/srv/x.sg", Place: at(1, 34, "project.entry")},
			Persistence: Persistence{spec.Memory, toml.Setting[string]{Value: "/home/db/x", Place: at(2, 44, "persistence.path")}},
			Limit:       supervisor.Escalating(supervisor.Unlimited, time.Minute), Trace: NDJSON, TestTimeout: 10 * time.Second,
		}, `
			2:37: path is not used: the backend is memory
			2:49: url is not used: no backend is reached over the network`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("/home/db/grove.toml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var notices []string
			for _, n := range got.Notices {
				notices = append(notices, strings.TrimPrefix(n.String(), "/home/db/grove.toml:"))
			}
			if diff := cmp.Diff(lines(tt.notices), strings.Join(notices, "\n")); diff != "" {
				t.Errorf("notices (-want +got)\n%s", diff)
			}
			got.Notices = nil
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// lines trims each line of a text.
func lines(text string) string {
	var all []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		all = append(all, strings.TrimSpace(line))
	}
	return strings.Join(all, "\n")
}

const groveBase = "[project]\nname = \"a\"\n"

// Each line of want is an error without the prefix "grove.toml:".
var badGrove = []struct{ name, text, want string }{
	{"empty", "", "1:1: the file has no table project, expected one; write [project] with its keys"},
	{"no name", "[project]\nversion = \"1\"\n", "1:2: [project] without name, expected one (string)"},
	{"too large", strings.Repeat("#", toml.MaxFile+1), "1:1: the file has 1048577 bytes, expected at most 1048576; remove what is no setting"},
	{"not UTF-8", groveBase + "version = \"\xff\"\n", "3:12: the byte 0xff is not UTF-8; save it as UTF-8"},
	{"not TOML", "[project", "1:8: not TOML: expected ']' to close table name"},
	{"text without quotes", groveBase + "version = one\n", "3:11: not TOML: unexpected character U+006F 'o' at start of value; text needs quotes"},
	{"doubled key", groveBase + "name = \"b\"\n", "3:1: the key name is there twice, first in line 2, expected once; remove one of the two"},
	{"tables", "projct = {}\nagent = []\n[supervisor]\n[persistance]\n" + groveBase, `
		1:1: unknown table "projct" in the file; did you mean "project"?
		2:1: unknown key "agent" in the file; docs/grove.md lists all keys
		3:2: unknown table "supervisor" in the file; did you mean "supervision"?
		4:2: unknown table "persistance" in the file; did you mean "persistence"?`},
	{"key without table", "max_restarts = 3\n" + groveBase, `1:1: unknown key "max_restarts" in the file; it belongs in [supervision]`},
	{"keys", groveBase + "nam = 1\nauthors = []\n[persistence]\nbackends = 1\nfile = 1\n[supervision]\nmax_restart = 1\nrestart_window_s = 5\nstrategy = 1\n" +
		"[observability]\nbakend = 1\nservice = 1\n[test]\ntimeout = 1\n\"\\u001b[2J\" = 1\n", `
		3:1: unknown key "nam" in [project]; did you mean "name"?
		4:1: unknown key "authors" in [project]; expected one of name, version, entry
		6:1: unknown key "backends" in [persistence]; did you mean "backend"?
		7:1: unknown key "file" in [persistence]; did you mean "path"?
		9:1: unknown key "max_restart" in [supervision]; did you mean "max_restarts"?
		10:1: unknown key "restart_window_s" in [supervision]; did you mean "within_seconds"?
		11:1: unknown key "strategy" in [supervision]; expected one of max_restarts, within_seconds
		13:1: unknown key "bakend" in [observability]; did you mean "backend"?
		14:1: unknown key "service" in [observability]; did you mean "service_name"?
		16:1: unknown key "timeout" in [test]; did you mean "timeout_ms"?
		17:1: unknown key "\x1b[2J" in [test]; expected one of timeout_ms`},
	{"types", "project = 1\npersistence = []\nsupervision = \"x\"\nobservability = true\ntest = 1.5\ndependencies = []\ntools = { http = 1 }\nextern = 1\n", `
		1:11: project is an integer, expected a table
		2:15: persistence is an array, expected a table; write [persistence]
		3:15: supervision is a string, expected a table
		4:17: observability is a boolean, expected a table
		5:8: test is a float, expected a table
		6:16: dependencies is an array, expected a table
		7:18: http is an integer, expected a table
		8:10: extern is an integer, expected a table`},
	{"array of tables", "[[project]]\nname = \"a\"\n", "1:3: project is an array, expected a table; write [project]"},
	{"values", "[project]\nname = 1\nversion = 2\nentry = []\n[persistence]\nbackend = 1\npath = 1\nurl = 1\n[supervision]\nmax_restarts = \"5\"\nwithin_seconds = \"60s\"\n" +
		"[observability]\nbackend = false\notlp_endpoint = 1\n[test]\ntimeout_ms = \"10s\"\n", `
		2:8: name is an integer, expected a string; write "1"
		3:11: version is an integer, expected a string; write "2"
		4:9: entry is an array, expected a path
		6:11: backend is an integer, expected one of sqlite, memory
		7:8: path is an integer, expected a path
		8:7: url is an integer, expected a string; write "1"
		10:16: max_restarts is "5", expected an integer from 0 to 1000000 or "unlimited"
		11:18: within_seconds is a string, expected an integer of at least 1, in seconds
		13:11: backend is a boolean, expected one of ndjson, none
		14:17: otlp_endpoint is an integer, expected a string; write "1"
		16:14: timeout_ms is a string, expected an integer of at least 1, in milliseconds`},
	{"divine", groveBase + "[divine]\ncommand = \"claude -p\"\nformat = \"cluade\"\ntimeout = 30\n", `
		4:11: command is a string, expected an array with the program and its arguments
		5:10: format is "cluade", expected one of text, claude, codex, gemini, opencode, copilot; did you mean "claude"?
		6:11: timeout is a number without a unit, expected a duration such as "10s" or "1h30m"; write "30s" if seconds are meant`},
	{"divine without a program", groveBase + "[divine]\ncommand = []\n", `4:11: command is empty, expected an array with the program and its arguments`},
	{"divine by its prompt", groveBase + "[divine]\ncommand = [\"{prompt}\"]\n", `4:11: command begins with the prompt, expected a program; write it as an argument`},
	{"divine without a command", groveBase + "[divine]\nformat = \"text\"\n", `3:2: [divine] without command, expected one (array of strings)`},
	{"words and numbers", groveBase + "[persistence]\nbackend = \"sqlit\"\n[supervision]\nmax_restarts = -1\nwithin_seconds = 9223372036854775807\n[observability]\nbackend = \"otlp\"\n[test]\ntimeout_ms = 0\n", `
		4:11: backend is "sqlit", expected one of sqlite, memory; did you mean "sqlite"?
		6:16: max_restarts is -1, expected an integer from 0 to 1000000 or "unlimited"
		7:18: within_seconds is 9223372036854775807, expected an integer of at least 1, in seconds
		9:11: backend is "otlp", which is not supported yet, expected one of ndjson, none; write "ndjson"
		11:14: timeout_ms is 0, expected an integer of at least 1, in milliseconds`},
	{"other backends", groveBase + "[persistence]\nbackend = \"postgres\"\n[observability]\nbackend = \"json\"\n", `
		4:11: backend is "postgres", expected one of sqlite, memory
		6:11: backend is "json", expected one of ndjson, none`},
	{"blank", "[project]\nname = \" \"\nversion = \"\"\nentry = \"\"\n[persistence]\npath = \"\"\n", `
		2:8: name is empty, expected a string; remove the key if nothing is meant
		3:11: version is empty, expected a string; remove the key if nothing is meant
		4:9: entry is empty, expected a path; remove the key if nothing is meant
		6:8: path is empty, expected a path; remove the key if nothing is meant`},
	{"name", "[project]\nname = \"a/b\"\n", `2:8: the name "a/b" contains "/", expected one segment of a path`},
	{"paths", groveBase + "entry = \"a\\u0000\"\n[persistence]\npath = \":memory:\"\n", `
		3:9: entry contains a zero byte, expected a path
		5:8: path is ":memory:", expected the path of a file; write backend = "memory" for none`},
}

func TestBadGrove(t *testing.T) {
	for _, tt := range badGrove {
		t.Run(tt.name, func(t *testing.T) {
			grove, err := Parse("grove.toml", []byte(tt.text))
			if grove != nil || err == nil {
				t.Fatalf("got %+v and error %v", grove, err)
			}
			if diff := cmp.Diff(lines(tt.want), strings.ReplaceAll(err.Error(), "grove.toml:", "")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestLoadGrove checks that paths are relative to the file, not to the current directory.
func TestLoadGrove(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := configtest.Write(t, filepath.Join(dir, "a", FileName), groveBase, 0o644)
	old := configtest.Write(t, filepath.Join(dir, "old", sageName), groveBase, 0o644)
	deep := filepath.Join(dir, "a", "src", "deep")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	for _, path := range []string{file, "../../grove.toml"} {
		g, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := g.Persistence.Path.Value, filepath.Join(dir, "a", ".sage", "checkpoints.db"); got != want {
			t.Errorf("beliefs are in %s, want %s", got, want)
		}
		if got, want := g.Entry.Value, filepath.Join(dir, "a", "src", "main.sg"); got != want || g.Notices != nil {
			t.Errorf("entry %s, notices %v; want %s and none", got, g.Notices, want)
		}
		// An error about a default names only the file.
		if got, want := g.Entry.Errorf(fs.ErrNotExist, "write it", "there is no %s", "x").Error(), path+": there is no x; write it"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	g, err := Load(old)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(g.Notices), "["+old+":1:1: sage.toml is the former name of grove.toml; rename it]"; got != want {
		t.Errorf("notices %s, want %s", got, want)
	}

	if got, err := Find("."); got != file || err != nil {
		t.Errorf("FindGrove = %s, %v; want %s", got, err, file)
	}
	if got, err := Find(filepath.Dir(old)); got != old || err != nil {
		t.Errorf("FindGrove = %s, %v; want %s", got, err, old)
	}
	both := configtest.Write(t, filepath.Join(dir, "old", FileName), groveBase, 0o644)
	if got, err := Find(filepath.Dir(old)); got != both || err != nil {
		t.Errorf("FindGrove = %s, %v; want %s", got, err, both)
	}
	if got, err := Find(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("FindGrove = %s, %v; want fs.ErrNotExist", got, err)
	}

	for path, want := range map[string]string{
		"none": "none: no such file, expected the configuration of a project; `coppice sage new` writes one",
		dir:    dir + ":1:1: is a directory, expected a regular file",
	} {
		if _, err := Load(path); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if _, err := Load("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

// printGrove writes settings that differ from the defaults, and sometimes others.
func printGrove(t *rapid.T, g Grove) string {
	var b strings.Builder
	said := func(isDefault bool) bool { return !isDefault || rapid.Bool().Draw(t, "say") }
	line := func(isDefault bool, key string, value any) {
		if text, ok := value.(string); ok {
			value = configtest.Quoted(text)
		}
		if said(isDefault) {
			fmt.Fprintf(&b, "%s = %v\n", key, value)
		}
	}
	line(false, "project.name", g.Name)
	line(g.Version == "0.1.0", "project.version", g.Version)
	line(g.Entry.Value == "/x/src/main.sg", "project.entry", strings.TrimPrefix(g.Entry.Value, "/x/"))
	line(g.Persistence.Backend == spec.SQLite, "persistence.backend", g.Persistence.Backend.String())
	line(g.Persistence.Path.Value == "/x/.sage/checkpoints.db", "persistence.path", strings.TrimPrefix(g.Persistence.Path.Value, "/x/"))
	line(g.Limit.Max == 5, "supervision.max_restarts", g.Limit.Max)
	line(g.Limit.Within == time.Minute, "supervision.within_seconds", int64(g.Limit.Within/time.Second))
	line(g.Trace == NDJSON, "observability.backend", g.Trace.String())
	line(g.TestTimeout == 10*time.Second, "test.timeout_ms", int64(g.TestTimeout/time.Millisecond))
	return b.String()
}

// TestGroveRoundTrip checks that settings that are written and read again are equal, and that
// places are those of the values.
func TestGroveRoundTrip(t *testing.T) {
	path := rapid.StringMatching(`[a-zä♥ "]{1,9}x(/[a-z.]{1,5}x)?`)
	rapid.Check(t, func(t *rapid.T) {
		setting := func(name, otherwise string) toml.Setting[string] {
			return toml.Setting[string]{Value: "/x/" + rapid.OneOf(rapid.Just(otherwise), path).Draw(t, name)}
		}
		want := Grove{
			Name:        configtest.SomeName.Draw(t, "name"),
			Version:     rapid.OneOf(rapid.Just("0.1.0"), configtest.SomeText.Filter(func(s string) bool { return strings.TrimSpace(s) != "" })).Draw(t, "version"),
			Entry:       setting("entry", defaultEntry),
			Persistence: Persistence{rapid.SampledFrom([]spec.Backend{spec.SQLite, spec.Memory}).Draw(t, "backend"), setting("path", defaultPath)},
			Limit:       supervisor.Escalating(rapid.IntRange(0, spec.MaxRestarts).Draw(t, "max"), time.Duration(rapid.IntRange(1, 1e6).Draw(t, "within"))*time.Second),
			Trace:       rapid.SampledFrom([]Trace{NDJSON, NoTrace}).Draw(t, "trace"),
			TestTimeout: time.Duration(rapid.IntRange(1, 1e6).Draw(t, "timeout")) * time.Millisecond,
		}
		text := printGrove(t, want)
		got, err := Parse("/x/grove.toml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, s := range []*toml.Setting[string]{&got.Entry, &got.Persistence.Path} {
			if s.Line > 0 {
				line := []rune(strings.Split(text, "\n")[s.Line-1])
				if want := s.Key + " = "; string(line[:s.Column-1]) != want {
					t.Errorf("%s is said to be at column %d of %q", s.Key, s.Column, string(line))
				}
			}
			s.Place = toml.Place{}
		}
		got.Notices = nil
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text)
		}
	})
}

// FuzzParseGrove checks that Parse does not panic, that errors and notices have places in the
// file, and that valid settings are complete.
func FuzzParseGrove(f *testing.F) {
	f.Add([]byte(wholeGrove))
	for _, tt := range badGrove {
		if len(tt.text) < 10000 {
			f.Add([]byte(tt.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Parse("/x/sage.toml", data)
		if err != nil {
			if g != nil {
				t.Fatalf("got %+v and error %v", g, err)
			}
			configtest.CheckErrors(t, data, err)
			return
		}
		var notices toml.Errors
		for _, n := range g.Notices {
			notices = append(notices, (*toml.Error)(n))
		}
		configtest.CheckErrors(t, data, notices) // one of them is about the name
		if spec.CheckName(g.Name) != "" || g.Version == "" || !filepath.IsAbs(g.Entry.Value) || !filepath.IsAbs(g.Persistence.Path.Value) || g.Limit.Within <= 0 || g.TestTimeout <= 0 {
			t.Errorf("not complete: %+v", g)
		}
	})
}

func TestGroveReference(t *testing.T) {
	for _, s := range sections() {
		text := s.Example
		if !strings.Contains(text, "[project]") {
			text += groveBase
		}
		if _, err := Parse("f.toml", []byte(text)); err != nil {
			t.Errorf("%s: %v", s.Header, err)
		}
		configtest.CheckRows(t, s)
	}
	// The page shows the actual errors.
	_, err := Parse("grove.toml", []byte(groveBase+"\n[persistence]\nbackend = \"sqlit\"\n\n[supervision]\nmax_restarts = 3\nrestart_window_s = 5\n"))
	if err == nil || !strings.Contains(head, "\n"+err.Error()+"\n") {
		t.Errorf("the page does not show\n%v", err)
	}
}

// TestGroveSchema checks that the schema accepts what the reader accepts.
func TestGroveSchema(t *testing.T) {
	groves, err := filepath.Glob("../../../examples/sage/*/grove.toml")
	if err != nil || len(groves) == 0 {
		t.Fatal("no example of a grove.toml", err)
	}
	s := configtest.Compiled(t, WriteSchema)
	for _, path := range groves {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := configtest.InJSON(t, string(text)); !ok || s.Validate(v) != nil {
			t.Errorf("%s: %v", path, s.Validate(v))
		}
	}
	if v, ok := configtest.InJSON(t, wholeGrove); !ok || s.Validate(v) != nil {
		t.Error(s.Validate(v))
	}
}

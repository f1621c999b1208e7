package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/value"
)

// counterTOML returns an agent that counts its incarnations. It continues from its checkpoint, and
// reports when it has written the next one.
func counterTOML(name, keys string) string {
	return agentTOML(name, `n=$(coppice agent belief get check_count) || exit 9
n=$((n + 1))
coppice agent belief set check_count=$n square=$((n * n)) || exit 9
coppice agent belief get check_count threshold > "tmp.$$" && mv "tmp.$$" "`+name+`.$COPPICE_INCARNATION"
exec sleep 1000`) + keys
}

const counts = `[agent.beliefs]
check_count = { type = "int", persistent = true }
square = { type = "int", persistent = true }
threshold = 100

`

// awaitWritten waits for the file that an incarnation writes, and returns its content.
func (f *fleet) awaitWritten(name string, incarnation int) string {
	f.t.Helper()
	path := filepath.Join(f.dir, fmt.Sprint(name, ".", incarnation))
	eventually(f.t, path, func() bool { _, err := os.Stat(path); return err == nil })
	data, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func (f *fleet) belief(path string, name ...string) string {
	f.t.Helper()
	return strings.TrimSpace(f.do(append([]string{"belief", "get", path}, name...)...))
}

// wantFailure runs a command that must fail with a code and with these texts.
func (f *fleet) wantFailure(code int, args []string, parts ...string) {
	f.t.Helper()
	out, err := f.try(args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		f.t.Errorf("coppice %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, code, out)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			f.t.Errorf("coppice %s does not say %q:\n%s", strings.Join(args, " "), part, out)
		}
	}
}

// Persistent beliefs survive the end of the agent, its shim and the daemon. Siblings of one kind
// have their own (P2, P9, P10). No flags or other directories are needed (P3).
func TestBeliefsSurvive(t *testing.T) {
	t.Parallel()
	f := newFleet(t, counterTOML("left", counts), counterTOML("right", counts))
	f.do("up", "-d")
	c := f.client()
	want := func(name string, n int) {
		t.Helper()
		if got, want := f.awaitWritten(name, n), fmt.Sprintf(`{"check_count":%d,"threshold":100}`, n); got != want {
			t.Errorf("incarnation %d of %s: %s, want %s", n, name, got, want)
		}
		if got, want := f.belief(name, "square"), fmt.Sprint(n*n); got != want {
			t.Errorf("%s: square is %s, want %s", name, got, want)
		}
	}
	want("left", 1)
	want("right", 1)

	f.crashAgent(c, "t/left") // SIGKILL of the agent
	want("left", 2)
	want("right", 1)

	killAndWait(t, parent(t, currentNode(t, c, "t/left").PID)) // the shim of both
	want("left", 3)
	want("right", 2)

	f.do("belief", "set", "left", "threshold=5") // volatile, but the next daemon has it too
	f.crash()
	f.do("up", "-d")
	if got := f.belief("left", "threshold"); got != "5" {
		t.Errorf("threshold is %s for the next daemon", got)
	}
	want("left", 3)
	f.crashAgent(c, "t/left")
	want("left", 4)

	f.do("down")
	f.do("up", "-d")
	if got := f.node("t/left"); got.Incarnation != 5 {
		t.Fatalf("incarnation %d", got.Incarnation)
	}
	want("left", 5)
	want("right", 3)
}

// idleTOML returns an agent that writes its token and waits.
func idleTOML(name, keys string) string {
	return agentTOML(name, `echo "$COPPICE_TOKEN" > "tmp.$$" && mv "tmp.$$" "`+name+`.$COPPICE_INCARNATION"
exec sleep 1000`) + keys
}

// asIncarnation runs a command as an incarnation of an agent.
func (f *fleet) asIncarnation(name string, incarnation int, stdin string, args ...string) (string, int) {
	f.t.Helper()
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command("coppice", append([]string{"agent"}, args...)...)
	cmd.Env = append(os.Environ(), "COPPICE_SOCKET="+socket, "COPPICE_TOKEN="+f.awaitWritten(name, incarnation))
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// All belief commands of agents, their errors, and their rejection for an old incarnation.
func TestAgentBelief(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idleTOML("a", `[agent.beliefs]
n = { type = "int", persistent = true }
note = { initial = "none" }
big = { type = "any", persistent = true }

`), idleTOML("free", ""))
	f.do("up", "-d")
	f.awaitWritten("free", 1)
	for _, tt := range []struct {
		agent, args, stdin string
		code               int
		want               string
	}{
		{"a", "belief get n", "", 0, "0\n"},
		{"a", "belief set n=9007199254740993 note=\"x\\n<&>\"", "", 0, ""},
		{"a", "belief get n note", "", 0, `{"n":9007199254740993,"note":"x\n<&>"}` + "\n"},
		{"a", "belief get --string note", "", 0, "x\n<&>\n"},
		{"a", "belief get --string n", "", exitFailure, "coppice: n is not a string but int 9007199254740993\n"},
		{"a", "belief set note --string -", "from stdin\n", 0, ""},
		{"a", "belief get note", "", 0, `"from stdin\n"` + "\n"},
		{"a", "belief set big -", `{"a": [1.50, "ü"]}`, 0, ""},
		{"a", "belief get big", "", 0, `{"a":[1.50,"ü"]}` + "\n"},
		{"a", "belief ls", "", 0, "BELIEF  TYPE    PERSISTENT  ORIGIN  VALUE\nbig     any     yes         kept    {\"a\":[1.50,\"ü\"]}\nn       int     yes         kept    9007199254740993\nnote    string  no          kept    \"from stdin\\n\"\n"},
		{"a", "belief rm n", "", 0, ""},
		{"a", "belief get n", "", 0, "0\n"},
		{"a", "belief set note=hello", "", exitUsage, `note: 1:1: not JSON: invalid character 'h' looking for beginning of value; text needs quotes, for the shell as well: 'note="hello"', or --string`},
		{"a", "belief set n=\"x\"", "", exitUsage, `belief n of t/a is string "x", expected a value of type int`},
		{"a", "belief set nn=1", "", exitNotFound, `t/a has no belief "nn"; did you mean "n"?`},
		{"a", "belief get nots", "", exitNotFound, `did you mean "note"?`},
		{"a", "belief get ", "", exitNotFound, `t/a has no belief ""`},
		{"a", "belief set note={\"a\":1,\"a\":2}", "", exitUsage, `the key "a" is there twice`},
		{"a", "belief set n=1 n=2", "", exitUsage, `"n" is given twice`},
		{"a", "belief set note", "", exitUsage, `"note" is not of the form NAME=JSON`},
		{"a", "belief set", "", exitUsage, "expected NAME=JSON"},
		{"a", "belief set big -", `"` + strings.Repeat("x", 600<<10) + `"`, exitUsage, "a value has 614402 bytes, at most 524288 are allowed"},
		{"a", "belief set big -", `"` + strings.Repeat("x", 100<<20) + `"`, exitUsage, "a value has at most 524288"},
		{"a", "belief set big -", "\"a\xff\"", exitUsage, "big: 1:3: the byte 0xff is not UTF-8"},
		{"free", "belief ls --json", "", 0, "[]\n"},
		{"free", "belief set any-thing.1=null", "", 0, ""},
		{"free", "belief get any-thing.1", "", 0, "null\n"},
		{"free", "belief rm gone", "", exitNotFound, "has no belief"},
	} {
		out, code := f.asIncarnation(tt.agent, 1, tt.stdin, strings.Split(tt.args, " ")...)
		if code != tt.code || code == 0 && out != tt.want || !strings.Contains(out, tt.want) {
			t.Errorf("%s: code %d, want %d:\n%.300s\nwant\n%s", tt.args, code, tt.code, out, tt.want)
		}
	}
	f.do("restart", "a")
	f.awaitWritten("a", 2)
	for _, verb := range []string{"get n", "set n=1", "rm n", "ls"} {
		out, code := f.asIncarnation("a", 1, "", strings.Split("belief "+verb, " ")...)
		if code != exitAuth || !strings.Contains(out, "incarnation 1 of t/a") {
			t.Errorf("%s with a stale token: code %d, %s", verb, code, out)
		}
	}
}

// An agent that writes endlessly hits a limit that the error names, by whatever command.
func TestBeliefLimits(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idleTOML("a", ""))
	f.do("up", "-d")
	agent := api.DialAgent(must(endpoint.Path(f.dir)), f.awaitWritten("a", 1))
	defer agent.Close()
	var err error
	n := 0
	for ; n < 10_000 && err == nil; n++ {
		_, err = belief.ChangeOwn.Call(t.Context(), agent, belief.OwnChange{Set: value.Named{fmt.Sprint("b", n): "1"}})
	}
	if n != 1001 || !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "t/a has 1001 beliefs, at most 1000 are allowed; put several values into one list or map") {
		t.Errorf("after %d beliefs: %v", n, err)
	}
	huge := value.Value(`"` + strings.Repeat("x", 100<<20) + `"`)
	_, err = belief.ChangeOwn.Call(t.Context(), agent, belief.OwnChange{Set: value.Named{"b0": huge}})
	if !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "expected at most") {
		t.Errorf("100 MB: %v", err)
	}
	large := value.Value(`"` + strings.Repeat("x", 600<<10) + `"`)
	_, err = belief.ChangeOwn.Call(t.Context(), agent, belief.OwnChange{Set: value.Named{"b0": large}})
	if !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "at most 524288 are allowed") {
		t.Errorf("600 KB: %v", err)
	}
	if got := f.belief("a", "b0"); got != "1" {
		t.Errorf("b0 is %.100s", got)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The commands for people, with agents that run, that do not, and that are no longer in the file.
func TestBeliefCommands(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idleTOML("a", `[agent.beliefs]
n = { type = "int", initial = 3, persistent = true }
t = { type = "string" }

`), idleTOML("old", ""))
	f.do("up", "-d")
	f.awaitWritten("a", 1)
	f.awaitWritten("old", 1)
	f.do("belief", "set", "a", "n=4", `t="live"`)
	f.do("belief", "set", "t/old", "x=[1, 2]", `y="z"`)
	if got, want := f.do("belief", "ls"), `AGENT  BELIEF  TYPE    PERSISTENT  ORIGIN  VALUE   NOTE
t/a    n       int     yes         kept    4
t/a    t       string  no          kept    "live"
t/old  x       any     yes         kept    [1,2]
t/old  y       any     yes         kept    "z"
`; got != want {
		t.Errorf("ls:\n%s\nwant\n%s", got, want)
	}
	f.wantFailure(exitNotFound, []string{"belief", "ls", "missing"}, "missing")
	f.wantFailure(exitNotFound, []string{"belief", "set", "missing", "x=1"}, "missing")
	f.wantFailure(exitUsage, []string{"belief", "set", "t", "x=1"}, "t is a supervisor")
	f.wantFailure(exitUsage, []string{"belief", "set", "a", "n=x"}, "not JSON")
	f.wantFailure(exitUsage, []string{"belief", "set", "a"}, "NAME=JSON")
	f.wantFailure(exitUsage, []string{"belief", "rm", "a"}, "--all")
	f.wantFailure(exitUsage, []string{"belief", "get", "a", "--raw"}, "one name")
	if got := f.do("events", "--type", "belief.*", "--json"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "n, t set") {
		t.Errorf("events:\n%s", got)
	}

	export := filepath.Join(f.dir, "export.json")
	f.do("belief", "export", "-o", export)
	want := `{
  "version": 1,
  "project": "t",
  "agents": {
    "t/a": {
      "n": 4
    },
    "t/old": {
      "x": [
        1,
        2
      ],
      "y": "z"
    }
  }
}
`
	if got := string(must(os.ReadFile(export))); got != want || f.do("belief", "export") != want {
		t.Errorf("export:\n%s", got)
	}
	f.do("belief", "diff", export)
	f.do("stop", "a")
	f.do("belief", "set", "a", "n=5")
	f.wantFailure(exitUsage, []string{"belief", "set", "a", `t="x"`}, "not persistent and the agent is not running")
	f.do("belief", "rm", "old", "y")
	differences := "~ t/a n = 4, was 5\n+ t/old y = \"z\"\n"
	if out, err := f.try("belief", "diff", export); out != differences || err == nil {
		t.Errorf("diff: %v\n%s", err, out)
	}
	if got := f.do("belief", "import", "--dry-run", export); got != differences {
		t.Errorf("dry run:\n%s", got)
	}
	if got := f.do("belief", "import", export); got != "t/a: 1 imported\nt/old: 1 imported\n" {
		t.Errorf("import:\n%s", got)
	}
	f.do("belief", "diff", export)
	f.do("start", "a")
	f.awaitWritten("a", 2)
	if got := f.belief("a"); got != `{"n":4,"t":""}` {
		t.Errorf("the next one: %s", got)
	}

	for text, part := range map[string]string{
		"":                                ":1:1: not an export of beliefs: the document ends too early",
		"{\n\"version\":2,\"agents\":{}}": "version is 2, expected 1",
		`{"version":1}`:                   "agents is missing",
		`{"version":1,"agents":{"t/a":{"n":1,"n":2}}}`:           `agent "t/a": the name "n" is there twice`,
		`{"version":1,"agents":{"t/a":{},"t/a":{}}}`:             `the agent "t/a" is there twice`,
		`{"version":1,"agents":{"a//b":{}}}`:                     "a//b",
		`{"version":1,"agents":{"t/a":{"a b":1}}}`:               "cannot name a belief",
		`{"version":1,"agents":{"t/a":{"n":1e99999}}}`:           "exponent",
		`{"version":1,"agents":{"t/a":{}},"extra":1}`:            "extra",
		`{"version":1,"project":"t","agents":{"t/a":{"n":"x"}}}`: "expected a value of type int",
	} {
		bad := filepath.Join(f.dir, "bad.json")
		write(t, bad, text)
		out, err := f.try("belief", "import", bad)
		if err == nil || !strings.Contains(out, part) {
			t.Errorf("import of %s: %v\n%s\nwant %s", text, err, out, part)
		}
	}

	// An agent that is no longer in the file keeps its beliefs until they are removed.
	f.do("down")
	write(t, filepath.Join(f.dir, "coppice.toml"), "[project]\nname = \"t\"\n\n"+idleTOML("a", "")+idleTOML("new", ""))
	f.do("up", "-d")
	if got := f.do("belief", "ls", "old"); !strings.Contains(got, "t/old  x") || !strings.Contains(got, "the agent is no longer in the file") {
		t.Errorf("ls:\n%s", got)
	}
	write(t, export, strings.ReplaceAll(strings.ReplaceAll(want, "t/old", "shop/new"), `"t"`, `"shop"`))
	f.do("belief", "import", export) // exported from a project with another name
	if got := f.belief("new"); got != `{"x":[1,2],"y":"z"}` {
		t.Errorf("new: %s", got)
	}
	f.do("belief", "rm", "old", "--all")
	f.wantFailure(exitNotFound, []string{"belief", "get", "old"})
}

// A damaged record loses the value of one belief, and stays readable. (P8)
func TestBeliefDamage(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idleTOML("a", "[agent.beliefs]\nn = { type = \"int\", initial = 3, persistent = true }\nm = { type = \"int\", persistent = true }\n\n"))
	f.do("up", "-d")
	f.do("belief", "set", "a", "n=4", "m=5")
	f.do("down")
	db, err := sqlite.Open(t.Context(), filepath.Join(f.dir, ".coppice", "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: "beliefs/t/a/n", Value: []byte("\x1b[2Jgarbage\xff")}})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	f.do("up", "-d")
	f.awaitWritten("a", 2)
	if got := f.belief("a"); got != `{"m":5,"n":3}` {
		t.Errorf("beliefs: %s", got)
	}
	if got := f.do("belief", "ls"); !strings.Contains(got, "its record cannot be read") {
		t.Errorf("ls:\n%s", got)
	}
	if got := f.do("events", "--type", "belief.unusable"); !strings.Contains(got, "belief n") {
		t.Errorf("events:\n%s", got)
	}
	if got := f.do("belief", "get", "a", "n", "--raw"); got != "\x1b[2Jgarbage\xff\n" {
		t.Errorf("raw: %q", got)
	}
	if out, code := f.asIncarnation("a", 2, "", "belief", "set", "n=6"); code != 0 {
		t.Errorf("set: %s", out)
	}
	if got := f.do("belief", "get", "a", "n", "--aside"); got != "\x1b[2Jgarbage\xff\n" || f.belief("a", "n") != "6" {
		t.Errorf("aside: %q", got)
	}
}

// P1: in memory, beliefs survive every incarnation but not the daemon, and the project says so.
func TestMemoryBackend(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[persistence]\nbackend = \"memory\"\n\n", counterTOML("c", counts))
	f.do("up", "-d")
	c := f.client()
	f.awaitWritten("c", 1)
	f.crashAgent(c, "t/c")
	if got := f.awaitWritten("c", 2); got != `{"check_count":2,"threshold":100}` {
		t.Errorf("restarted: %s", got)
	}
	if s := f.status().Store; s.Kind != "memory" || s.Path != "" || !s.OK {
		t.Errorf("status: %+v", s)
	}
	if got := f.do("doctor"); !strings.Contains(got, "ends with the daemon") {
		t.Errorf("doctor:\n%s", got)
	}
	before := f.node("t/c")
	f.crash()
	f.do("up", "-d")
	after := f.node("t/c")
	if after.PID != before.PID || after.State != "running" || after.Incarnation != 2 {
		t.Errorf("not taken over: %+v, then %+v", before, after)
	}
	if got := f.belief("c", "check_count"); got != "0" {
		t.Errorf("check_count after the daemon: %s", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, ".coppice", "state.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a database: %v", err)
	}
	f.crash()
	if got := f.do("down"); !strings.Contains(got, "t/c") {
		t.Errorf("down:\n%s", got)
	}
	if got, _ := f.try("doctor"); !strings.Contains(got, "ends with the daemon") {
		t.Errorf("doctor:\n%s", got)
	}
}

// An orderly stop is not a failure, even without state: a fleet with more agents than allowed
// restarts starts again.
func TestUpAgainWithoutState(t *testing.T) {
	t.Parallel()
	toml := []string{"[persistence]\nbackend = \"memory\"\n\n", agentTOML("stubborn", "trap '' TERM; : > ready; while :; do sleep 0.2; done", `shutdown = { grace = "50ms" }`)}
	for i := range 7 {
		toml = append(toml, agentTOML(fmt.Sprint("a", i), "exec sleep 1000"))
	}
	f := newFleet(t, toml...)
	for round := range 2 {
		f.do("up", "-d")
		eventually(t, "who does not obey", func() bool { return f.has("ready") })
		s := f.status()
		if s.Summary["running"] != 8 {
			t.Fatalf("round %d: %+v", round, s.Summary)
		}
		for i := range 7 {
			if n := f.node(fmt.Sprint("t/a", i)); n.Restarts != 0 {
				t.Errorf("round %d: %+v", round, n)
			}
		}
		if n := f.node("t/stubborn"); n.Restarts != 0 {
			t.Errorf("round %d: %+v", round, n)
		}
		f.do("down")
		os.Remove(filepath.Join(f.dir, "ready"))
	}
}

// [persistence] sets the path of the state for every command.
func TestPersistencePath(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[persistence]\nbackend = \"sqlite\"\npath = \".sage/guardian.db\"\n\n", counterTOML("c", counts))
	f.do("up", "-d")
	f.awaitWritten("c", 1)
	db := filepath.Join(f.dir, ".sage", "guardian.db")
	if s := f.status().Store; s.Kind != "sqlite" || s.Path != db {
		t.Errorf("status: %+v", s)
	}
	f.crash()
	f.do("down")
	if got := f.do("doctor"); !strings.Contains(got, db+" is sound") {
		t.Errorf("doctor:\n%s", got)
	}
	f.do("up", "-d")
	if got := f.awaitWritten("c", 2); got != `{"check_count":2,"threshold":100}` {
		t.Errorf("the next one: %s", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, ".coppice", "state.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is another database: %v", err)
	}
}

// P4, P5 and P6: a lone agent, a later one, and several beliefs at once all work, also in a run.
func TestBeliefsOfARun(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("c", `n=$(coppice agent belief get check_count) || exit 9
coppice agent belief set check_count=$((n + 1)) square=$(((n + 1) * (n + 1))) || exit 9
coppice agent belief get check_count square threshold`, `restart = "never"`)+counts)
	for n := 1; n <= 3; n++ {
		r := launch(t, dir, "run")
		r.wantExit(0)
		if want := fmt.Sprintf(`{"check_count":%d,"square":%d,"threshold":100}`, n, n*n); !strings.Contains(r.out.String()+r.err.String(), want) {
			t.Errorf("run %d:\n%s%s", n, r.out, r.err)
		}
	}
}

// QueryMonitor: hooks validate the beliefs before the agent starts, and count its failures after it
// ends.
func TestBeliefsInHooks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("query-monitor", `coppice agent belief set check_count=$(($(coppice agent belief get check_count) + 1)) || exit 9
test "$COPPICE_INCARNATION" -gt 2 && exec sleep 1000
exit 1`, `on_waking = "echo resuming with $(coppice agent belief get check_count) previous checks"`,
		`on_error = "coppice agent belief set alert_count=$(($(coppice agent belief get alert_count) + 1))"`)+
		`[agent.beliefs]
check_count = { type = "int", initial = 0, persistent = true }
alert_count = { type = "int", initial = 0, persistent = true }
`)
	f.up()
	eventually(t, "the third life", func() bool { return f.belief("query-monitor", "check_count") == "3" })
	if got := f.belief("query-monitor", "alert_count"); got != "2" {
		t.Errorf("alert_count is %s after two failures", got)
	}
}

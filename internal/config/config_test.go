package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/gascity"
	"github.com/coppice-dev/coppice/internal/config/grove"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const everything = `
[project]
name = "shop"

[supervision]
max_restarts = 10
within_seconds = 30
strategy = "RestForOne"
auto_shutdown = "any_significant"
persist = false

[[agent]]
name = "first"
command = "sleep 5"

[[supervisor]]
name = "inner"
strategy = "one_for_all"
children = ["db"]
restart = "transient"
max_restarts = 1
within = "5s"
on_limit = "pause"
significant = true

[[supervisor]]
name = "outer"
children = ["inner", "api"]
auto_shutdown = "all_significant"

[[agent]]
name = "api"
command = ["./api", "--port", "8080"]
dir = "services/api"
env = { PORT = "8080", "A.B" = "" }
stdin = "input.txt"
restart = "on-failure"
max_restarts = 7
restart_window = "2h"
significant = true
ready.http = "http://localhost:8080/health"
progress_timeout = "1h"
nudge.command = "touch here"
runtime = "tmux"
limits = { memory = "1.5 GiB", cpu = 2, open_files = 1024 }
  [agent.shutdown]
  signal = "sigint"
  grace = "10s"
  [agent.backoff]
  base = "500ms"
  cap = "1m"
  jitter = true
  stable_after = "never"

[[agent]]
name = "db"
command = "cd /tmp && exec db"
dir = "/srv/db"
stdin = "null"
terminal = true
restart = "never"
heartbeat_timeout = "90s"
nudge = { type = true }
backoff = "linear"
on_limit = "give_up"
ready = { exec = "pg_isready -q", timeout = "1m30s" }
  [agent.limits]
  memory = 1048576
  cpu = 0.5
  processes = 7
`

func TestParse(t *testing.T) {
	limit := supervisor.Escalating(10, 30*time.Second)
	term := spec.Shutdown{Signal: "TERM", Grace: 5 * time.Second}
	want := &spec.Tree{RestorePolicy: spec.RestoreNothing, Patrol: spec.DefaultPatrol(), Root: &spec.Node{
		Name: "shop", Strategy: supervisor.RestForOne, AutoShutdown: supervisor.AnySignificant, Limit: supervisor.Quarantining(10, 30*time.Second),
		Children: []spec.Child{
			{Agent: &spec.Agent{Name: "first", Command: []string{"sleep", "5"}, Dir: "/home/shop", Shutdown: term, Backoff: spec.DefaultBackoff(), DefaultBackoff: true}},
			{Node: &spec.Node{Name: "outer", Limit: limit, Backoff: spec.DefaultBackoff(), AutoShutdown: supervisor.AllSignificant, Children: []spec.Child{
				{Node: &spec.Node{
					Name: "inner", Strategy: supervisor.OneForAll, Restart: supervisor.Transient, Significant: true,
					Limit: supervisor.Pausing(1, 5*time.Second), Backoff: spec.DefaultBackoff(),
					Children: []spec.Child{{Agent: &spec.Agent{
						Name: "db", Command: []string{"/bin/sh", "-c", "cd /tmp && exec db"}, Dir: "/srv/db",
						Terminal: true, Limits: spec.Limits{Memory: 1 << 20, CPU: 0.5, Processes: 7},
						Restart: supervisor.Temporary, Backoff: supervisor.Backoff{Kind: supervisor.Linear, Cap: time.Minute}, Limit: supervisor.GivingUp(10), Shutdown: term,
						Ready:            spec.Ready{Exec: []string{"pg_isready", "-q"}, Timeout: 90 * time.Second},
						HeartbeatTimeout: 90 * time.Second, Nudge: spec.Nudge{Type: true},
					}}},
				}},
				{Agent: &spec.Agent{
					Name: "api", Command: []string{"./api", "--port", "8080"}, Dir: "/home/shop/services/api",
					Env: map[string]string{"PORT": "8080", "A.B": ""}, Stdin: "/home/shop/services/api/input.txt",
					Runtime: spec.Tmux, Terminal: true, Limits: spec.Limits{Memory: 3 << 29, CPU: 2, OpenFiles: 1024},
					Restart: supervisor.Transient, Significant: true, Limit: supervisor.Quarantining(7, 2*time.Hour),
					Backoff:         supervisor.Backoff{Kind: supervisor.Exponential, Base: 500 * time.Millisecond, Cap: time.Minute, Jitter: true, StableAfter: -1},
					Shutdown:        spec.Shutdown{Signal: "INT", Grace: 10 * time.Second},
					Ready:           spec.Ready{HTTP: "http://localhost:8080/health", Timeout: 30 * time.Second},
					ProgressTimeout: time.Hour, Nudge: spec.Nudge{Command: []string{"touch", "here"}},
				}},
			}}},
		},
	}}
	for _, text := range []string{everything, strings.ReplaceAll(everything, "\n", "\r\n"), "\xef\xbb\xbf" + everything} {
		got, err := Parse("/home/shop/coppice.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestLimits checks the defaults of the four actions and the precedence of tables.
func TestLimits(t *testing.T) {
	child := func(l supervisor.Limit) supervisor.Limit { l.Scope = supervisor.ScopeChild; return l }
	for _, tt := range []struct {
		name, supervision, supervisor, agent string
		wantSupervisor, wantAgent            supervisor.Limit
	}{
		{name: "nothing", wantSupervisor: supervisor.Escalating(5, time.Minute), wantAgent: supervisor.Quarantining(20, time.Hour)},
		{name: "defaults", supervision: "max_restarts = 3\nwithin_seconds = 7", wantSupervisor: supervisor.Escalating(3, 7*time.Second)},
		{name: "own", supervision: "max_restarts = 3\nwithin_seconds = 7", supervisor: "max_restarts = 0", wantSupervisor: supervisor.Escalating(0, 7*time.Second)},
		{name: "own action, own row", supervisor: `on_limit = "quarantine"`, wantSupervisor: supervisor.Quarantining(20, time.Hour)},
		{name: "own action, common numbers of another", supervision: "within_seconds = 7", supervisor: `on_limit = "pause"`, wantSupervisor: supervisor.Pausing(3, 5*time.Minute)},
		{name: "same action, common numbers", supervision: "max_restarts = 3", supervisor: `on_limit = "escalate"`, wantSupervisor: supervisor.Escalating(3, time.Minute)},
		{name: "unlimited", supervisor: `max_restarts = "unlimited"`, wantSupervisor: supervisor.Escalating(supervisor.Unlimited, time.Minute)},
		{name: "common action", supervision: `on_limit = "give-up"`, wantSupervisor: supervisor.GivingUp(10)},
		{name: "agent, max", agent: "max_restarts = 2", wantAgent: supervisor.Quarantining(2, time.Hour)},
		{name: "agent, window", agent: `restart_window = "1m"`, wantAgent: supervisor.Quarantining(20, time.Minute)},
		{name: "agent, escalate", agent: `on_limit = "escalate"`, wantAgent: child(supervisor.Escalating(5, time.Minute))},
		{name: "agent, escalate at once", agent: "on_limit = \"escalate\"\nmax_restarts = 0", wantAgent: child(supervisor.Escalating(0, time.Minute))},
		{name: "agent, give up", agent: `on_limit = "give_up"`, wantAgent: supervisor.GivingUp(10)},
		{name: "agent, pause", agent: `on_limit = "pause"`, wantAgent: child(supervisor.Pausing(3, 5*time.Minute))},
		{name: "agent, no limit", agent: `max_restarts = "unlimited"`, wantAgent: supervisor.Quarantining(supervisor.Unlimited, time.Hour)},
		{name: "not from the root", supervision: `on_limit = "pause"`, wantSupervisor: supervisor.Pausing(3, 5*time.Minute)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Parse("f.toml", []byte("[supervision]\n"+tt.supervision+"\n[[supervisor]]\nname = \"s\"\nchildren = [\"a\"]\n"+tt.supervisor+"\n"+base+tt.agent))
			if err != nil {
				t.Fatal(err)
			}
			s := tree.Root.Children[0].Node
			if tt.wantSupervisor != (supervisor.Limit{}) && s.Limit != tt.wantSupervisor {
				t.Errorf("supervisor: got %+v, want %+v", s.Limit, tt.wantSupervisor)
			}
			if got := s.Children[0].Agent.Limit; got != tt.wantAgent {
				t.Errorf("agent: got %+v, want %+v", got, tt.wantAgent)
			}
		})
	}
}

func TestErrorKeys(t *testing.T) {
	_, err := Parse("f.toml", []byte(base+"shutdown.grace = 1\n[[agent]]\nname = \"b\"\ncommand = \"x\"\nenv = { \"a b\" = 1 }\n[project]\nnam = 1\n[[supervisor]]\nname = \"s\"\nchildren = [\"a\", \"x\"]\n"))
	var errs toml.Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Key)
	}
	want := []string{"agent[0].shutdown.grace", `agent[1].env."a b"`, "project.nam", "supervisor[0].children[1]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestManyErrors(t *testing.T) {
	_, err := Parse("f.toml", []byte(strings.Repeat("[[agent]]\n", 10000)))
	var errs toml.Errors
	if !errors.As(err, &errs) || len(errs) != toml.MaxErrors+1 {
		t.Fatalf("got %d errors, want %d", len(errs), toml.MaxErrors+1)
	}
	if got, want := errs[toml.MaxErrors].Message, "19800 more errors, expected none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLargest limits the processor time for files that are designed to be slow. The limit is
// far above the time they need, and far below the minutes that comparing all keys takes.
func TestLargest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, line := range map[string]string{
		"tables": "[a%d]\n", "agents": "[[agent]]\nname = \"%d\"\ncommand = \"x\"\n", "keys": "k%d = 1\n", "empty": "[[agent]]\n",
		"supervisors": "[[supervisor]]\nname = \"%[1]d\"\nchildren = [\"x%[1]d\"]\n",
	} {
		var b strings.Builder
		for i := 0; b.Len() < toml.MaxFile-100; i++ {
			b.WriteString(strings.NewReplacer("%d", strconv.Itoa(i), "%[1]d", strconv.Itoa(i)).Replace(line))
		}
		before := cpuTime(t)
		_, _ = Parse("f.toml", []byte(b.String()))
		if d := cpuTime(t) - before; d > 30*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

// cpuTime returns the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	configtest.Write(t, filepath.Join(dir, "bin", "tool"), "#!/bin/sh\n", 0o755)
	configtest.Write(t, filepath.Join(dir, "bin", "plain"), "text", 0o644)
	configtest.Write(t, filepath.Join(dir, "input"), "text", 0o644)
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	for _, tt := range []struct{ name, text, want string }{
		{"all is there", "command = \"bin/tool x\"\nstdin = \"input\"", ""},
		{"device", "command = \"cat\"\nstdin = \"/dev/zero\"", ""},
		{"dir", "command = \"./tool\"\ndir = \"bin\"", ""},
		{"own PATH", "command = [\"tool\"]\nenv.PATH = \"DIR/bin\"", ""},
		{"shell", "command = \"tool | other\"", ""},
		{"not in PATH", "command = \"tool x\"", `3:11: the command "tool" is not in PATH; install it, or write its path`},
		{"not in its own PATH", "command = [\"sleep\", \"1\"]\nenv.PATH = \"DIR/bin\"", `3:11: the command "sleep" is not in PATH; install it, or write its path`},
		{"no such file", "command = \"./x\"", `3:11: the command "./x" in "DIR" does not exist; check the path`},
		{"not executable", "command = \"bin/plain\"", `3:11: the command "bin/plain" in "DIR" is not executable; make it executable with chmod +x`},
		{"directory", "command = [\"DIR/bin\"]", `3:11: the command "DIR/bin" is a directory, expected a program`},
		{"not a directory", "command = \"DIR/input/x\"", `3:11: the command "DIR/input/x" cannot be run: not a directory`},
		{"no dir", "command = \"./x\"\ndir = \"services\"", `4:7: the directory "DIR/services" does not exist; create it with mkdir`},
		{"home", "command = \"./x\"\ndir = \"~/x\"", `4:7: the directory "DIR/~/x" does not exist; ~ is not expanded; write the whole path`},
		{"dir is a file", "command = \"./x\"\ndir = \"input\"", `4:7: dir is "DIR/input", not a directory, expected one`},
		{"nudge", "command = \"sleep 1\"\nnudge.command = \"nothere\"", `4:17: the command "nothere" is not in PATH; install it, or write its path`},
		{"ready", "command = \"sleep 1\"\nready.exec = \"nothere\"", `4:14: the command "nothere" is not in PATH; install it, or write its path`},
		{"stage", `command = "cat"
[agent.pipeline]
plan = { command = "no-plan" }
set_up = "no-npm ci"
test = "make-nothing"
security = ["DIR/none"]`, `5:20: the command "no-plan" is not in PATH; install it, or write its path
6:10: the command "no-npm" is not in PATH; install it, or write its path
7:8: the command "make-nothing" is not in PATH; install it, or write its path
8:12: the command "DIR/none" does not exist; check the path`},
		{"stages in the worktree", "command = \"cat\"\n[agent.pipeline]\ntest = \"./made-by-set-up\"", ""},
		{"command of stages", "command = \"no-model\"\n[agent.pipeline]\ntest = \"true\"",
			`3:11: the command "no-model" is not in PATH; install it, or write its path`},
		{"stages may write", `command = "cat"
read_write_paths = ["missing", "-optional"]
[agent.pipeline]
test = "true"`, "4:20: read_write_paths: DIR/missing: file does not exist; create it, or put - in front to allow that"},
		{"stages may not write", `command = "cat"
read_only_paths = ["bin"]
[agent.pipeline]
test = "true"`,
			"4:19: read_only_paths without read_write_paths, expected both: then a kernel that cannot enforce them is " +
				"an error; add read_write_paths; [] adds nothing to what stages may write"},
		{"a place twice", `command = "cat"
read_write_paths = ["bin", "bin"]
[agent.pipeline]
test = "true"`, `4:28: the file "DIR/bin" is listed twice, expected once; remove one of the two`},
		{"no input", "command = \"cat\"\nstdin = \"x\"", `4:9: the input file "DIR/x" does not exist, expected a file or "null"`},
		{"input is a FIFO", "command = \"cat\"\nstdin = \"fifo\"", `4:9: the input file "DIR/fifo" is a named pipe, expected a regular file`},
		{"no tmux", "command = \"DIR/bin/tool\"\nruntime = \"tmux\"", `4:11: tmux is not installed or not in PATH, expected version 3.2 or later; install it (apt install tmux, dnf install tmux, brew install tmux) or write runtime = "proc"`},
		{"several", "command = \"nothere\"\nstdin = \"x\"\nrestart = \"x\"", `3:11: the command "nothere" is not in PATH; install it, or write its path
4:9: the input file "DIR/x" does not exist, expected a file or "null"
5:11: restart is "x", expected one of always, on-failure, never`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "no tmux" {
				t.Setenv("PATH", filepath.Join(dir, "bin"))
			}
			path := configtest.Write(t, filepath.Join(dir, FileName), "[[agent]]\nname = \"a\"\n"+strings.ReplaceAll(tt.text, "DIR", dir), 0o644)
			tree, err := Load(path)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if tree.Root.Name != "shop" {
					t.Errorf("the project is called %q, want that of its directory", tree.Root.Name)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.ReplaceAll(strings.ReplaceAll(err.Error(), path+":", ""), dir, "DIR")
			if tree != nil || got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestLoadUnreadable checks that Load rejects large and special files without blocking.
func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := configtest.Write(t, filepath.Join(dir, "large"), "", 0o644)
	if err := os.Truncate(large, 100<<20); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		large:                      ":1:1: the file has 104857600 bytes, expected at most 1048576; split the fleet into several projects",
		fifo:                       ":1:1: is a named pipe, expected a regular file",
		dir:                        ":1:1: is a directory, expected a regular file",
		"/dev/zero":                ":1:1: is a device, expected a regular file",
		filepath.Join(dir, "none"): ": no such file, expected the configuration of a project; `coppice init` writes one",
		large + "/x":               ": cannot be opened: not a directory",
	} {
		_, err := Load(path)
		if err == nil || err.Error() != path+want {
			t.Errorf("got  %v\nwant %s", err, path+want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	want := configtest.Write(t, filepath.Join(root, "a", FileName), "", 0o644)
	deep := filepath.Join(root, "a", "b", "c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{deep, filepath.Join(root, "a")} {
		if got, err := Find(dir); got != want || err != nil {
			t.Errorf("Find(%s) = %s, %v; want %s", dir, got, err, want)
		}
	}
	t.Chdir(deep)
	if got, err := Find("."); got != want || err != nil {
		t.Errorf("Find(.) = %s, %v; want %s", got, err, want)
	}
	if got, err := Find(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find(%s) = %s, %v; want fs.ErrNotExist", root, got, err)
	}
}

func TestTemplate(t *testing.T) {
	if _, err := Load(configtest.Write(t, filepath.Join(t.TempDir(), FileName), Template, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestPagesAreCurrent checks that generated files are up to date.
func TestPagesAreCurrent(t *testing.T) {
	for page, write := range map[string]func(io.Writer) error{
		"configuration.md": WriteReference, "coppice.schema.json": WriteSchema, "gascity.md": gascity.WriteReference,
		"grove.md": grove.WriteReference, "grove.schema.json": grove.WriteSchema,
		"aidefile-reference.md": aidefileconfig.WriteReference, "aidefile.schema.json": aidefileconfig.WriteSchema,
	} {
		var want bytes.Buffer
		if err := write(&want); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(got)); diff != "" {
			t.Errorf("docs/%s is not current, run go generate ./internal/config (-want +got)\n%s", page, diff)
		}
	}
}

// TestReferenceExamples checks that every table has an example and that it is valid.
func TestReferenceExamples(t *testing.T) {
	for _, s := range sections() {
		text := s.Example
		if !strings.Contains(text, "[[agent]]") {
			text += base
		}
		if _, err := Parse("f.toml", []byte(text)); err != nil {
			t.Errorf("%s: %v", s.Header, err)
		}
		configtest.CheckRows(t, s)
	}
}

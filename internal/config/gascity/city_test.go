package gascity_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/gascity"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const wholeCity = `
-- city.toml --
include = ["rigs.toml"]
[workspace]
name = "bright"
provider = "wise"
[providers.wise]
base = "builtin:sage"
args = ["--wise", "it's"]
env = { MODEL = "large", A = "provider" }
[daemon]
patrol_interval = "10s"
max_restarts = -1
wisp_gc_interval = "5m"
wisp_ttl = "7d"
[session]
setup_timeout = "20s"
[[agent]]
name = "mayor"
env = { A = "agent" }
[[agent]]
name = "scribe"
start_command = "./write {{.CityName}}"
args = ["a b", "c"]
work_dir = "books/{{.AgentBase}}"
attach = false
suspended = true
pre_start = ["cd books; false", "true # {{ .Agent }}"]
session_setup = ["echo {{.Session}}"]
session_setup_script = "//setup me.sh"
depends_on = ["mayor", "hello/polecat"]
[[patches.agent]]
rig = "hello"
name = "polecat"
pool = { max = 4 }
pre_start_append = ["two"]
[[patches.rigs]]
name = "asleep"
suspended = true
-- rigs.toml --
[daemon]
restart_window = "2h"
[[rigs]]
name = "hello"
path = "../hello"
[[rigs]]
name = "asleep"
path = "/srv/asleep"
[[agent]]
name = "polecat"
dir = "hello"
start_command = "./run"
depends_on = ["mayor", "other"]
pre_start = ["one {{.AgentBase}} {{.RigRoot}}"]
[agent.pool]
min = 2
check = "count {{.Rig}}"
drain_timeout = "1m"
on_boot = "boot"
[[agent]]
name = "other"
dir = "hello"
start_command = "x"
min_active_sessions = 1
scale_check = "echo 3"
[[agent]]
name = "single"
dir = "asleep"
start_command = "x"
max_active_sessions = 1
`

func TestCity(t *testing.T) {
	dir := configtest.Project(t, wholeCity)
	l, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Notices) > 0 {
		t.Errorf("notices: %v", l.Notices)
	}
	shutdown := spec.Shutdown{Signal: "TERM", Grace: 5 * time.Second}
	limit := supervisor.Quarantining(supervisor.Unlimited, 2*time.Hour)
	backoff := supervisor.Backoff{Kind: supervisor.Fixed, Base: 10 * time.Second, Cap: time.Minute} // patrol_interval
	rig := filepath.Join(filepath.Dir(dir), "hello")
	env := func(more ...string) map[string]string {
		m := map[string]string{"GC_CITY": dir, "GC_CITY_PATH": dir}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	hook := func(script string) spec.Hook {
		return spec.Hook{Command: []string{"/bin/sh", "-c", script}, Timeout: 20 * time.Second}
	}
	pool := func(a *spec.Agent) spec.Child {
		return spec.Child{Node: &spec.Node{Name: a.Name, Template: a, DependsOn: a.DependsOn, Limit: supervisor.Escalating(5, time.Minute), Backoff: spec.DefaultBackoff()}}
	}
	want := []spec.Child{
		{Agent: &spec.Agent{
			Name: "mayor", Command: []string{"/bin/sh", "-c", `exec sage --wise 'it'\''s'`}, Dir: dir, Terminal: true, Limit: limit, DefaultLimit: true, Backoff: backoff, Shutdown: shutdown,
			Env: env("GC_AGENT", "mayor", "MODEL", "large", "A", "agent"),
		}},
		{Agent: &spec.Agent{
			Name: "scribe", Command: []string{"/bin/sh", "-c", "mkdir -p " + dir + "/books/scribe && cd " + dir + "/books/scribe || exit\nexec ./write bright 'a b' c"}, Dir: dir, Limit: limit, DefaultLimit: true, Backoff: backoff, Shutdown: shutdown, Suspended: true,
			Env: env("GC_AGENT", "scribe"), DependsOn: []string{"mayor", "hello--polecat"},
			Hooks: spec.Hooks{
				Waking: hook("(cd books; false\n) || exit\n(true # scribe\n) || exit\n"),
				Start:  hook("(echo scribe\n) || echo \"session_setup: exit code $?\" >&2\n('" + dir + "/setup me.sh'\n) || echo \"session_setup: exit code $?\" >&2\n"),
			},
		}},
		pool(&spec.Agent{
			Name: "hello--polecat", Command: []string{"./run"}, Dir: rig, Terminal: true, Limit: limit, DefaultLimit: true, Backoff: backoff, Shutdown: shutdown,
			Env: env("GC_AGENT", "hello/polecat", "GC_RIG", "hello", "GC_RIG_ROOT", rig), DependsOn: []string{"mayor", "hello--other"},
			Hooks: spec.Hooks{Waking: hook("cd " + dir + " || exit\n(one ${COPPICE_AGENT##*/} " + rig + "\n) || exit\n(two\n) || exit\n")},
			Pool: &spec.Pool{
				Min: 2, Max: 4, Check: []string{"count", "hello"}, CheckTimeout: spec.DefaultCheckTimeout, DrainTimeout: time.Minute,
				OnBoot: spec.Hook{Command: []string{"boot"}, Timeout: spec.DefaultHookTimeout},
			},
		}),
		pool(&spec.Agent{
			Name: "hello--other", Command: []string{"x"}, Dir: rig, Terminal: true, Limit: limit, DefaultLimit: true, Backoff: backoff, Shutdown: shutdown,
			Env:  env("GC_AGENT", "hello/other", "GC_RIG", "hello", "GC_RIG_ROOT", rig),
			Pool: &spec.Pool{Min: 1, Max: spec.UnlimitedPool, Check: []string{"/bin/sh", "-c", "echo 3"}, CheckTimeout: spec.DefaultCheckTimeout, DrainTimeout: spec.DefaultDrainTimeout},
		}),
		{Agent: &spec.Agent{
			Name: "asleep--single", Command: []string{"x"}, Dir: "/srv/asleep", Terminal: true, Limit: limit, DefaultLimit: true, Backoff: backoff, Shutdown: shutdown, Suspended: true,
			Env: env("GC_AGENT", "asleep/single", "GC_RIG", "asleep", "GC_RIG_ROOT", "/srv/asleep"),
		}},
	}
	if diff := cmp.Diff(want, l.Tree.Root.Children); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	patrol := spec.DefaultPatrol()
	patrol.Interval, patrol.Limit, patrol.GCInterval, patrol.TTL = 10*time.Second, limit, 5*time.Minute, 7*24*time.Hour
	if diff := cmp.Diff(patrol, l.Tree.Patrol); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if l.Tree.Root.Name != "bright" {
		t.Errorf("it is called %q", l.Tree.Root.Name)
	}
	// WriteTOML writes an equivalent coppice.toml.
	checkMeaning(t, l, filepath.Join(dir, config.FileName))
	if found, err := l.Find("agent.hello--polecat.pool.max"); err != nil || len(found) != 1 || found[0].Line != 33 || !strings.HasSuffix(found[0].File, gascity.FileName) {
		t.Errorf("the origin of a patch: %v, %v", found, err)
	}
}

// TestCityMinimal checks that small cities load, with notices for unsupported parts.
func TestCityMinimal(t *testing.T) {
	for _, tt := range []struct{ name, text, notices string }{
		{"start_command of the workspace", "[workspace]\nstart_command = \"true\"\n[[agent]]\nname = \"a\"\n", ""},
		{"provider of the agent", "[[agent]]\nname = \"a\"\nprovider = \"claude\"\n[session]\nprovider = \"tmux\"\n", ""},
		{"empty values", "[[agent]]\nname = \"a\"\nstart_command = \"x\"\ndir = \"\"\nidle_timeout = \"\"\n[daemon]\nwisp_ttl = \"\"\n", ""},
		{"foreign session", "[session]\nprovider = \"k8s\"\n[session.k8s]\nnamespace = \"gc\"\n[[agent]]\nname = \"a\"\nstart_command = \"x\"\n[[agent]]\nname = \"b\"\nstart_command = \"x\"\n", `
			2:1: session.provider is "k8s", which is not supported: agents are processes with a terminal
			3:10: session.k8s is not supported: all agents run on this machine`},
		{"all that is foreign", "[workspace]\nname = \"x\"\nglobal_fragments = [\"a\"]\nincludes = [\"https://example.org/x.git\"]\n[imports.core]\nsource = \"github.com/x/core\"\nversion = \"^1\"\n[[agent]]\nname = \"a\"\nstart_command = \"x\"\nnudge = \"go\"\nsession_live = [\"tmux x\"]\nzzz = 1\n[beads]\nprovider = \"file\"\n[api]\nport = 1\n[qqq]\nx = 1\n[patches]\nproviders = [{ name = \"claude\" }]\n", `
			3:1: workspace.global_fragments is not supported: Coppice sends no prompts; put it into start_command or args
			4:13: "https://example.org/x.git" is not supported: packs are read from directories; clone it, and write the path of its directory
			6:1: "github.com/x/core" is not supported: packs are read from directories; clone it, and write the path of its directory
			7:1: imports.core.version is not supported: packs are read from their directories as they are
			11:1: agent.a.nudge is not supported: Coppice types nothing into a new agent; put it into args
			12:1: agent.a.session_live is not supported: it configures Gas City's tmux sessions
			13:1: zzz is not a key of [[agent]], and is ignored
			14:2: beads is not supported: Coppice has its own tasks
			16:2: api is not supported: the daemon serves a unix socket only
			18:2: qqq is not a key of the file, and is ignored
			21:1: patches.providers is not supported: write it in [providers]`},
		{"only packs", "[workspace]\nname = \"lifecycle\"\nstart_command = \"true\"\n[defaults.rig.imports.x]\nsource = \"packs/x\"\n[daemon]\nmax_restarts = 3\ntick_debounce = \"500ms\"\n", `
			1:1: there is no agent in this city: neither an [[agent]], nor a pack that has one for the city or for one of its [[rigs]]
			4:2: defaults is not supported: it applies to new rigs; name the packs in each of the [[rigs]]
			8:1: daemon.tick_debounce is not supported: there are no ticks`},
		{"many", "[[agent]]\nname = \"a\"\nstart_command = \"x\"\n" + configtest.Variables(300), "A0 ... 100 more notices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := configtest.Project(t, "-- city.toml --\n"+tt.text)
			l, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range l.Notices {
				got = append(got, strings.TrimPrefix(n.String(), filepath.Join(dir, gascity.FileName)+":"))
			}
			if tt.name == "many" {
				if len(got) != toml.MaxErrors+1 || !strings.HasSuffix(got[toml.MaxErrors], "100 more notices") {
					t.Errorf("got %d notices, the last one %s", len(got), got[len(got)-1])
				}
				return
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(tt.notices)) {
				want = append(want, strings.TrimSpace(line))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCityErrors(t *testing.T) {
	const a = "[[agent]]\nname = \"a\"\nstart_command = \"x\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"misspelled", a + "idle_timout = \"1h\"\n[workspce]\n[daemon]\npatrol_intervall = \"1s\"\n[session]\nprovder = 1\n[[rigs]]\npth = 1\n[agent.pool]\nmaxx = 1\n", `
			4:1: unknown key "idle_timout" in [[agent]]; did you mean "idle_timeout"?
			5:2: unknown key "workspce" in the file; did you mean "workspace"?
			7:1: unknown key "patrol_intervall" in [daemon]; did you mean "patrol_interval"?
			9:1: unknown key "provder" in [session]; did you mean "provider"?
			11:1: unknown key "pth" in [[rigs]]; did you mean "path"?
			13:1: unknown key "maxx" in [agent.pool]; did you mean "max"?`},
		{"durations", a + "[daemon]\npatrol_interval = \"0s\"\nrestart_window = \"-1h\"\nwisp_ttl = \"soon\"\n", `
			5:19: patrol_interval is "0s", expected a duration above zero
			6:18: restart_window is "-1h", negative, expected a duration such as "10s" or "1h30m"
			7:12: ttl is "soon", expected a duration such as "10s" or "1h30m"; the units are ns, us, ms, s, m, h, d (24 hours)`},
		{"no command", "[[agent]]\nname = \"a\"\n[[agent]]\nname = \"b\"\nprovider = 1\n[[agent]]\nstart_command = \"x\"\n", `
			1:3: agent "a" has nothing to run, expected a command; write start_command, or provider, here or in [workspace]
			5:12: provider is an integer, expected the name of a provider
			6:3: [[agent]] without name, expected one (string)`},
		{"taken", a + "[[agent]]\nname = \"a\"\ndir = \"x\"\nstart_command = \"x\"\n" + a, `9:8: the name "a" is taken by agent number 1, expected another one (that is in line 2); names are unique in the whole file, supervisors and agents together`},
		{"types", "workspace = 1\nproviders = 1\nrigs = 1\ndaemon = []\n[[agent]]\nname = \"a\"\nstart_command = 1\nargs = 1\nenv = 1\nattach = 1\npool = 1\npre_start = \"x\"\ndepends_on = \"x\"\n", `
			1:13: workspace is an integer, expected a table
			2:13: providers is an integer, expected a table
			3:8: rigs is an integer, expected an array of tables
			4:10: daemon is an array, expected a table
			7:17: command is an integer, expected a string or an array of strings; write "1"
			9:7: env is an integer, expected a table of strings
			10:10: terminal is an integer, expected true or false
			11:8: pool is an integer, expected a table
			12:13: pre_start is a string, expected an array of strings
			13:14: depends_on is a string, expected an array of names`},
		{"templates", a + "work_dir = \"{{.Worktree}}\"\npre_start = [\"{{range .X}}\"]\n", `
			4:12: "{{.Worktree}}" is not known in work_dir; use one of .CityRoot, .CityName, .ConfigDir, .Agent, .AgentBase, .Rig, .RigRoot, .WorkDir, .Session
			5:14: "{{range .X}}" is not known in an element of pre_start; use one of .CityRoot, .CityName, .ConfigDir, .Agent, .AgentBase, .Rig, .RigRoot, .WorkDir, .Session`},
		{"dependencies", a + "depends_on = [\"b\"]\n", `4:15: unknown dependency "b"`},
		{"patches", a + "[[patches.agent]]\nname = \"b\"\n[[patches.agent]]\nname = \"a\"\ndir = \"x\"\n[[patches.agent]]\nname = \"a\"\nenvv = 1\n[[patches.rig]]\nname = \"x\"\n[[patches.rigs]]\nname = \"x\"\n", `
			5:8: no agent is called "b", expected one to change; did you mean "a"?
			7:8: no agent is called "x/a", expected one to change
			11:1: unknown key "envv" in [[patches.agent]]; did you mean "env"?
			12:11: unknown table "rig" in [patches]; did you mean "rigs"?
			15:8: no rig is called "x", expected one to change`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := configtest.Project(t, "-- city.toml --\n"+tt.text)
			l, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
			var errs toml.Errors
			if l.Tree != nil || !errors.As(err, &errs) {
				t.Fatalf("got %v and error %v, want Errors", l.Tree, err)
			}
			var got, want []string
			for _, e := range errs {
				got = append(got, strings.TrimPrefix(e.Error(), filepath.Join(dir, gascity.FileName)+":"))
			}
			for line := range strings.Lines(strings.TrimSpace(tt.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			if len(got) == 1 && len(want) == 1 && strings.HasPrefix(got[0], want[0]) {
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCityExample(t *testing.T) {
	l, err := config.LoadAll("../../../examples/city/city.toml")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := gascity.WriteReference(&page); err != nil {
		t.Fatal(err)
	}
	for _, n := range l.Notices {
		if !strings.Contains(page.String(), "\n"+filepath.Base(n.File)+strings.TrimPrefix(n.String(), n.File)+"\n") {
			t.Errorf("the page does not show %s", n)
		}
	}
	var paths []string
	for path := range l.Tree.All() {
		paths = append(paths, path)
	}
	if want := []string{"orchard-city/mayor", "orchard-city/clerk", "orchard-city/orchard--picker", "orchard-city/orchard--watchman"}; !cmp.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
}

func TestFindCity(t *testing.T) {
	dir := configtest.Project(t, "-- a/city.toml --\n-- a/b/x --\n-- a/c/coppice.toml --\n-- a/c/city.toml --\n")
	for from, want := range map[string]string{"a": "a/city.toml", "a/b": "a/city.toml", "a/c": "a/c/coppice.toml"} {
		if got, err := config.Find(filepath.Join(dir, from)); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("in %s: %s, %v, want %s", from, got, err, want)
		}
	}
}

// FuzzCity works like FuzzFiles.
func FuzzCity(f *testing.F) {
	f.Add("[[agent]]\nname = \"a\"\nstart_command = \"x\"\n[agent.pool]\nmax = -1\n")
	f.Add("[workspace]\nname = \"x\"\nprovider = \"p\"\n[providers.p]\ncommand = \"{{.CityRoot}}\"\nargs = [\"'\"]\n[[rigs]]\nname = \"r\"\npath = \"..\"\n[[agent]]\nname = \"a\"\ndir = \"r\"\npre_start = [\"{{.Rig}}\"]\nmin_active_sessions = 0\ndepends_on = [\"r/a\"]\n[[patches.agent]]\nrig = \"r\"\nname = \"a\"\nenv_remove = [\"x\"]\n")
	f.Add("agent = [1]\npatches = { agent = [{}], rigs = 1 }\nworkspace = []\nproviders.x = 1\nsession.provider = 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		name := filepath.Join(t.TempDir(), gascity.FileName)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.LoadUnchecked(name)
		if err == nil {
			if len(l.Tree.Root.Children) > 0 { // a coppice.toml has an agent
				checkMeaning(t, l, filepath.Join(filepath.Dir(name), config.FileName))
			}
			return
		}
		if l.Tree != nil {
			t.Fatalf("got tree %v and error %v", l.Tree, err)
		}
		configtest.CheckErrors(t, []byte(text), err)
	})
}

// TestCityOrders checks that unknown types of events and unknown orders in skip are notices in a
// city, and errors in a coppice.toml.
func TestCityOrders(t *testing.T) {
	dir := configtest.Project(t, `-- city.toml --
[[agent]]
name = "a"
start_command = "true"
[orders]
skip = ["b", "mergee"]
-- orders/merge.toml --
[order]
exec = "true"
gate = "event"
on = "bead.closed"
-- orders/convoy.toml --
[order]
exec = "true"
gate = "event"
on = "convoy.closed"
-- orders/many.toml --
[order]
exec = "true"
gate = "event"
on = "session.undrained"
-- orders/pattern.toml --
[order]
exec = "true"
gate = "event"
on = "session.*"
`)
	l, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range l.Notices {
		got = append(got, strings.TrimPrefix(n.String(), dir+string(filepath.Separator)))
	}
	want := []string{
		`city.toml:5:9: there is no order "b" to skip; remove it`,
		`city.toml:5:14: there is no order "mergee" to skip; did you mean "merge"?`,
		`orders/convoy.toml:4:1: there is no event type "convoy.closed": no event fires this order`,
		`orders/many.toml:4:1: there is no event type "session.undrained": no event fires this order`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	on := map[string]string{}
	for _, o := range l.Tree.Orders {
		if g := o.Gate(spec.Event); g != nil {
			on[o.Name] = strings.Join(g.On.Types, " ")
		}
	}
	if on["merge"] != "task.closed" || on["pattern"] != "agent.*" || on["convoy"] != "convoy.closed" {
		t.Errorf("orders fire on %v", on)
	}
}

// checkMeaning fails unless the coppice.toml that WriteTOML writes is equivalent to the city.
func checkMeaning(t *testing.T, l *config.Loaded, path string) {
	t.Helper()
	var shown bytes.Buffer
	if err := l.WriteTOML(&shown); err != nil {
		t.Fatal(err)
	}
	again, err := config.Parse(path, shown.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	if diff := cmp.Diff(l.Tree, again); diff != "" {
		t.Fatalf("the coppice.toml means something else (-want +got)\n%s\n%s", diff, shown.String())
	}
	for _, o := range l.Values() {
		if _, err := l.Find(o.Key); err != nil {
			t.Fatalf("%s is not found: %v", o.Key, err)
		}
	}
}

package gascity_test

import (
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/gascity"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

var update = goflag.Bool("update", false, "write what the cities in testdata come to")

// cityOf writes a city of testdata into a new directory, with scripts that can be run.
func cityOf(t *testing.T, archive []byte) string {
	t.Helper()
	dir := configtest.Project(t, string(archive))
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".sh") {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCities loads cities that resemble the public examples of Gas City, and compares their
// summaries.
func TestCities(t *testing.T) {
	files, err := filepath.Glob("testdata/cities/*.txtar")
	if err != nil || len(files) < 11 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" }); at >= 0 {
				want = string(archive.Files[at].Data)
				archive.Files = archive.Files[:at]
			}
			dir := cityOf(t, txtar.Format(archive))
			l, err := config.LoadAll(filepath.Join(dir, gascity.FileName))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(summary(l), dir, "CITY")
			if *update {
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got); -update writes it\n%s", diff)
			}
			if len(l.Tree.Root.Children) > 0 && len(l.Tree.Orders) == 0 { // orders are files of their own
				checkMeaning(t, l, filepath.Join(dir, config.FileName))
			}
		})
	}
}

// summary describes the tree of a city.
func summary(l *config.Loaded) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, n := range l.Notices {
		line("notice: %s", n)
	}
	for _, c := range l.Tree.Root.Children {
		a := c.Agent
		if a == nil {
			a = c.Node.Template
		}
		line("agent %s in %s: %q", a.Name, a.Dir, a.Command)
		if p := a.Pool; p != nil {
			line("  pool %d to %d, %q, names %q", p.Min, p.Max, p.Check, p.Names)
		}
		if len(a.Hooks.Waking.Command) > 0 {
			line("  before: %q", a.Hooks.Waking.Command[2])
		}
		if len(a.Hooks.Start.Command) > 0 {
			line("  after: %q", a.Hooks.Start.Command[2])
		}
		if len(a.DependsOn) > 0 {
			line("  depends on %q", a.DependsOn)
		}
		if a.IdleTimeout > 0 {
			line("  idle %v", a.IdleTimeout)
		}
		if a.Suspended {
			line("  suspended")
		}
		line("  env %v", a.Env)
	}
	for _, o := range l.Tree.Orders {
		what := fmt.Sprintf("%q", o.Command)
		if o.Task != nil {
			what = fmt.Sprintf("task %q for %q: %q", o.Task.Title, o.Task.Pool, o.Task.Text)
		}
		line("order %s in %s: %s %s", o.Name, o.Dir, what, o.Why)
		for _, g := range o.Gates {
			line("  %v %v%v%q%q", g.Kind, g.Interval, g.Schedule, g.Check, g.On.Types)
		}
		line("  env %v", o.Env)
	}
	return b.String()
}

// TestPackErrors checks errors in packs. Each is reported once, however often a pack is used.
func TestPackErrors(t *testing.T) {
	const city = "-- city.toml --\n[workspace]\nstart_command = \"x\"\nincludes = [\"p\"]\n"
	const meta = "[pack]\nname = \"p\"\nschema = 1\n"
	for _, tt := range []struct{ name, files, want string }{
		{"missing", city, `city.toml:3:13: there is no pack.toml in "p", expected a pack; check the path; it is relative to "."`},
		{"a file", city + "-- p --\n", `city.toml:3:13: "p/pack.toml" cannot be opened: not a directory`},
		{"a directory", city + "-- p/pack.toml/x --\n", "p/pack.toml:1:1: is a directory, expected a regular file"},
		{"home", "-- city.toml --\nworkspace.includes = [\"~/p\"]\n", `city.toml:1:23: "~/p": ~ is not expanded; write the whole path`},
		{"not TOML", city + "-- p/pack.toml --\nname = p\n", "p/pack.toml:1:8: not TOML: unexpected character U+0070 'p' at start of value; text needs quotes"},
		{"not UTF-8", city + "-- p/pack.toml --\n# \xff\n", "p/pack.toml:1:3: the byte 0xff is not UTF-8; save it as UTF-8"},
		{"huge", city + "-- p/pack.toml --\n" + strings.Repeat("#\n", toml.MaxFile/2+1), "p/pack.toml:1:1: the file has 1048578 bytes, expected at most 1048576; split the pack"},
		{"no meta", city + "-- p/pack.toml --\n", "p/pack.toml:1:1: there is no table [pack], expected one; write [pack] with name and schema"},
		{"half of meta", city + "-- p/pack.toml --\n[pack]\nschema = 3\n", "p/pack.toml:1:2: [pack] without name, expected one\np/pack.toml:2:10: schema is 3, expected 1 or 2"},
		{"kinds", "-- city.toml --\nworkspace.includes = \"p\"\nimports = 1\n[[rigs]]\nname = \"r\"\npath = \".\"\nincludes = [1]\nimports.x = {}\nimports.y = 1\nimports.z.source = 1\noverrides = 1\n",
			"city.toml:1:22: includes is a string, expected an array of paths\ncity.toml:2:11: imports is an integer, expected a table\ncity.toml:6:13: an element of includes is an integer, expected the path of a pack\n" +
				"city.toml:7:13: [imports.x] without source, expected one (string)\ncity.toml:8:13: y is an integer, expected a table\ncity.toml:9:20: source is an integer, expected the path of a pack\ncity.toml:10:13: overrides is an integer, expected an array of tables"},
		{"itself", city + "-- p/pack.toml --\n" + meta + "includes = [\".\"]\n", `p/pack.toml:4:13: the pack "p" leads to itself, expected no cycle; remove one of the two`},
		{"a cycle", city + "-- p/pack.toml --\n" + meta + "includes = [\"../q\"]\n-- q/pack.toml --\n" + meta + "[imports.back]\nsource = \"//p\"\n", `q/pack.toml:5:10: the pack "p" leads to itself, expected no cycle; remove one of the two`},
		{"deep", city + deepPacks(gascity.MaxPackDepth+1), fmt.Sprintf("p%s/pack.toml:4:13: packs are nested more than %d levels deep, expected at most that", strings.Repeat("/p", gascity.MaxPackDepth-1), gascity.MaxPackDepth)},
		{"misspelled", city + "-- p/pack.toml --\n" + meta + "incldes = []\n[imprts]\n[[agent]]\nname = \"a\"\nstart_comand = \"x\"\n[imports.q]\nsouce = \"q\"\n",
			"p/pack.toml:4:1: unknown key \"incldes\" in [pack]; did you mean \"includes\"?\np/pack.toml:5:2: unknown key \"imprts\" in pack.toml; did you mean \"imports\"?\np/pack.toml:8:1: unknown key \"start_comand\" in [[agent]]; did you mean \"start_command\"?\n" +
				"p/pack.toml:9:10: [imports.q] without source, expected one (string)\np/pack.toml:10:1: unknown key \"souce\" in [imports.*]; did you mean \"source\"?"},
		{"patches", city + "-- p/pack.toml --\n" + meta + "[[agent]]\nname = \"worker\"\n[[patches.agent]]\nname = \"wroker\"\n[[patches.agent]]\nsuspended = true\n",
			"p/pack.toml:7:8: no agent is called \"wroker\", expected one to change; did you mean \"worker\"?\np/pack.toml:8:11: [[patches.agent]] without name, expected one (string)"},
		{"overrides", "-- city.toml --\nworkspace.start_command = \"x\"\n[[rigs]]\nname = \"r\"\npath = \".\"\nincludes = [\"p\"]\n[[rigs.overrides]]\nagent = \"wroker\"\n[[rigs.overrides]]\nname = \"worker\"\n[[rigs.patches]]\nagent = \"worker\"\nenv_remove = [\"X\"]\n-- p/pack.toml --\n" + meta + "[[agent]]\nname = \"worker\"\n",
			"city.toml:7:9: no agent is called \"wroker\", expected one to change; did you mean \"worker\"?\ncity.toml:8:8: [[rigs.overrides]] without agent, expected one (string)\ncity.toml:12:15: there is no \"X\" in env, expected one to remove"},
		{"scope", city + "-- p/pack.toml --\n" + meta + "[[agent]]\nname = \"a\"\nscope = \"citty\"\n", `p/pack.toml:6:9: scope is "citty", expected city or rig; did you mean "city"?`},
		{"requires", city + "-- p/pack.toml --\n" + meta + "requires = [{ scope = \"city\", agent = \"dog\" }]\n", `p/pack.toml:4:13: the pack requires an agent "dog" of the city, and there is none; include a pack that has it`},
		{"directory", city + "-- p/pack.toml --\n" + meta + "-- p/agents/a/agent.toml --\nname = \"b\"\n-- p/agents/c/agent.toml --\nx = \n",
			"p/agents/a/agent.toml:1:8: name is \"b\" in a directory called \"a\", expected the same; remove it, or rename the directory\np/agents/c/agent.toml:1:5: not TOML: unexpected character U+000A at start of value"},
		{"twice", "-- city.toml --\n[workspace]\nstart_command = \"x\"\nincludes = [\"p\", \"q\"]\n-- p/pack.toml --\n" + meta + "[[agent]]\nname = \"a\"\n-- q/pack.toml --\n" + meta + "[[agent]]\nname = \"a\"\n",
			`q/pack.toml:5:8: the name "a" is taken by agent number 1, expected another one (that is in p/pack.toml:5); names are unique in the whole file, supervisors and agents together`},
		{"told once", "-- city.toml --\nworkspace.start_command = \"x\"\n[[rigs]]\nname = \"r\"\npath = \".\"\nincludes = [\"p\"]\n[[rigs]]\nname = \"s\"\npath = \".\"\nincludes = [\"p\"]\n-- p/pack.toml --\n" + meta + "[[agent]]\nname = \"a\"\nwork_dir = \"{{.X}}\"\n",
			`p/pack.toml:6:12: "{{.X}}" is not known in work_dir; use one of .CityRoot, .CityName, .ConfigDir, .Agent, .AgentBase, .Rig, .RigRoot, .WorkDir, .Session`},
		{"providers", "-- city.toml --\nproviders = 1\n[workspace]\nstart_command = \"x\"\nincludes = [\"p\"]\n-- p/pack.toml --\n" + meta + "[[agent]]\nname = \"a\"\n[providers.x]\ncommand = \"x\"\n", "city.toml:1:13: providers is an integer, expected a table"},
		{"formula", city + "-- p/pack.toml --\n" + meta + "-- p/orders/x.toml --\nformula = \"f\"\n-- p/formulas/f.toml --\nx = y\n", "p/formulas/f.toml:1:5: not TOML: unexpected character U+0079 'y' at start of value; text needs quotes"},
		{"order", city + "-- p/pack.toml --\n" + meta + "-- p/orders/x.toml --\n[order]\nexec = \"true\"\ngate = \"cooldwn\"\n", `p/orders/x.toml:3:8: gate is "cooldwn", expected one of manual, cooldown, cron, condition, event; did you mean "cooldown"?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := configtest.Project(t, tt.files)
			t.Chdir(dir)
			l, err := config.LoadUnchecked(gascity.FileName)
			if l.Tree != nil || err == nil {
				t.Fatalf("got %v and error %v, want an error", l.Tree, err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestCityThatIsAPack checks that city.toml takes precedence over the pack.toml next to it, and
// that only keys of packs are used from that.
func TestCityThatIsAPack(t *testing.T) {
	t.Chdir(configtest.Project(t, `
-- pack.toml --
include = ["other.toml"]
[daemon]
patrol_interval = "1s"
[pack]
name = "x"
schema = 2
[providers.p]
command = "pack"
[providers.q]
command = "second"
[[agent]]
name = "a"
provider = "p"
[[agent]]
name = "b"
provider = "p"
[[patches.agent]]
name = "b"
env = { FROM = "pack", PACK = "1" }
-- city.toml --
[providers.p]
command = "city"
[[agent]]
name = "a"
provider = "q"
[[patches.agent]]
name = "b"
env = { FROM = "city" }
[[rigs]]
name = "r"
`))
	l, err := config.LoadUnchecked(gascity.FileName)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range l.Notices {
		got = append(got, n.String())
	}
	for _, c := range l.Tree.Root.Children {
		got = append(got, fmt.Sprint(c.Agent.Name, c.Agent.Command, c.Agent.Env["FROM"], c.Agent.Env["PACK"]))
	}
	if l.Tree.Patrol.Interval != spec.DefaultPatrol().Interval {
		t.Errorf("the interval is %v", l.Tree.Patrol.Interval)
	}
	want := []string{
		`city.toml:10:1: the rig "r" has no path: its agents run in a directory of that name in the city`,
		"pack.toml:1:1: include is not a key of pack.toml, and is ignored", "pack.toml:2:2: daemon is not a key of pack.toml, and is ignored",
		"a[second]", "b[city]city1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if o, err := l.Find("agent.b.env.FROM"); err != nil || len(o) != 1 || o[0].Place() != "city.toml:8:9" || len(o[0].Overrode) != 1 || o[0].Overrode[0].Place() != "pack.toml:19:9" {
		t.Errorf("the origin is %+v, %v", o, err)
	}
}

// deepPacks returns n nested packs.
func deepPacks(n int) string {
	var b strings.Builder
	dir := "p"
	for range n {
		fmt.Fprintf(&b, "-- %s/pack.toml --\n[pack]\nname = \"p\"\nschema = 1\nincludes = [\"p\"]\n", dir)
		dir += "/p"
	}
	return b.String()
}

// TestManyPacks checks the limit on the total size of packs, which count once per rig.
func TestManyPacks(t *testing.T) {
	var rigs strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rigs, "[[rigs]]\nname = \"r%d\"\npath = \".\"\nincludes = [\"p\"]\n", i)
	}
	dir := configtest.Project(t, "-- city.toml --\nworkspace.start_command = \"x\"\n"+rigs.String()+"-- p/pack.toml --\n[pack]\nname = \"p\"\nschema = 1\n[[agent]]\nname = \"a\"\n"+strings.Repeat("#\n", 300<<10))
	_, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
	want := fmt.Sprintf("p/pack.toml:1:1: the packs have more than %d bytes, counting each once per rig, expected at most that; name fewer packs, or fewer rigs", gascity.MaxPackBytes)
	if err == nil || strings.TrimPrefix(err.Error(), dir+"/") != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPackLinks checks packs behind symbolic links that form a cycle.
func TestPackLinks(t *testing.T) {
	dir := configtest.Project(t, "-- city.toml --\nworkspace.includes = [\"p\", \"loop\"]\n-- p/pack.toml --\n[pack]\nname = \"p\"\nschema = 1\nincludes = [\"down\"]\n")
	t.Chdir(dir)
	for from, to := range map[string]string{"p/down": ".", "loop": "loop"} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	_, err := config.LoadUnchecked(gascity.FileName)
	want := "city.toml:1:28: \"loop/pack.toml\" cannot be opened: too many levels of symbolic links\np/pack.toml:4:13: the pack \"p/down\" leads to itself, expected no cycle; remove one of the two"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzPack works like FuzzCity, with a pack that a city and a rig include.
func FuzzPack(f *testing.F) {
	f.Add("[pack]\nname = \"p\"\nschema = 1\n[[agent]]\nname = \"a\"\nscope = \"rig\"\n[agent.pool]\nmax = 3\n[[patches.agent]]\nname = \"a\"\n", "name = \"b\"\n")
	f.Add("[pack]\nname = \"p\"\nschema = 2\nincludes = [\".\"]\nrequires = [{}]\ncity_agents = [1]\n[imports.x]\nsource = \"p\"\n[providers.x]\n", "fallback = true\nwork_dir = \"{{.AgentBase}}\"\n")
	f.Add("agent = 1\npatches = 1\npack = []\nimports = [1]\nproviders = []\n", "x")
	dir := f.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	write("city.toml", "[workspace]\nstart_command = \"x\"\nincludes = [\"p\"]\n[[rigs]]\nname = \"r\"\npath = \".\"\nimports.i = { source = \"p\" }\n[[rigs.overrides]]\nagent = \"a\"\nsuspended = true\n")
	f.Fuzz(func(t *testing.T, pack, agent string) {
		write("p/pack.toml", pack)
		write("p/agents/a/agent.toml", agent)
		l, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
		if err != nil {
			if l.Tree != nil {
				t.Fatalf("got tree %v and error %v", l.Tree, err)
			}
			return
		}
		if len(l.Tree.Root.Children) > 0 {
			checkMeaning(t, l, filepath.Join(dir, config.FileName))
		}
	})
}

// TestManyRigs checks that a file of a pack counts once, however many rigs use it.
func TestManyRigs(t *testing.T) {
	var rigs strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rigs, "[[rigs]]\nname = \"r%d\"\npath = \".\"\nincludes = [\"p\"]\n", i)
	}
	dir := configtest.Project(t, "-- city.toml --\nworkspace.start_command = \"x\"\n"+rigs.String()+"-- p/pack.toml --\n[pack]\nname = \"p\"\nschema = 1\n[[agent]]\nname = \"a\"\n-- p/orders/x.toml --\nexec = \"true\"\nretries = 1000\n"+strings.Repeat("#\n", 50<<10))
	l, err := config.LoadUnchecked(filepath.Join(dir, gascity.FileName))
	want := "p/orders/x.toml:2:11: retries is 1000, expected an integer from 0 to 100"
	if err == nil || strings.TrimPrefix(err.Error(), dir+"/") != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if len(l.Sources) != 3 {
		t.Errorf("read %q", l.Sources)
	}
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const split = `
-- coppice.toml --
include = ["daemon.toml", "agents/*.toml"]

[daemon]
max_restarts = 3
restart_window = "2h"

[[supervisor]]
name = "front"
children = ["web"]

[[agent]]
name = "db"
command = "sleep 1"
-- daemon.toml --
[daemon]
patrol_interval = "10s"
restart_window = "3h"
-- agents/web.toml --
[[agent]]
name = "web"
command = ["./serve", "-v"]
dir = "services"
env = { MODEL = "opus", PORT = "80", OLD = "1" }
backoff = "linear"
on_start = { command = "true", timeout = "7s" }
[agent.beliefs]
count = { type = "int", persistent = true }
-- agents/.web.toml --
not toml, but what an editor keeps
-- agents/zz.toml --
[[agent]]
name = "cron"
command = "sleep 2"

[[patches.agent]]
name = "web"
suspended = true
command_append = ["--now"]
command = ["./serve"]
env_remove = ["OLD", "PORT"]
backoff = { cap = "1m" }
on_start = "false"
beliefs = { count = 7 }
[patches.agent.env]
MODEL = "haiku"
PORT = "81"

[[patches.supervisor]]
name = "front"
children_append = ["cron"]
max_restarts = 9
`

func TestInclude(t *testing.T) {
	dir := configtest.Project(t, split)
	l, err := LoadUnchecked(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	patrol := spec.DefaultPatrol()
	patrol.Interval, patrol.Limit = 10*time.Second, supervisor.Quarantining(3, 3*time.Hour)
	if diff := cmp.Diff(patrol, l.Tree.Patrol); diff != "" {
		t.Errorf("tables are not merged by field (-want +got)\n%s", diff)
	}
	var paths []string
	agents := map[string]*spec.Agent{}
	for path, c := range l.Tree.All() {
		paths = append(paths, path)
		if c.Agent != nil {
			agents[c.Name()] = c.Agent
		}
	}
	if want := []string{"shop/front", "shop/front/web", "shop/front/cron", "shop/db"}; !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	if front := l.Tree.Root.Children[0].Node; front.Limit.Max != 9 {
		t.Errorf("the limit of front is %v, want 9 restarts", front.Limit)
	}
	web := agents["web"]
	want := &spec.Agent{
		Name: "web", Command: []string{"./serve", "--now"}, Dir: filepath.Join(dir, "services"), Env: map[string]string{"MODEL": "haiku", "PORT": "81"},
		Backoff: supervisor.Backoff{Kind: supervisor.Linear, Cap: time.Minute}, Suspended: true,
		Shutdown: spec.Shutdown{Signal: "TERM", Grace: 5 * time.Second},
		Hooks:    spec.Hooks{Start: spec.Hook{Command: []string{"false"}, Timeout: 7 * time.Second}},
		Beliefs:  web.Beliefs,
	}
	if diff := cmp.Diff(want, web); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if b := web.Beliefs; len(b) != 1 || !b[0].Persistent || b[0].Initial != "7" || b[0].Type.String() != "int" {
		t.Errorf("beliefs: %+v", web.Beliefs)
	}
	in := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(dir, n))
		}
		return all
	}
	if want := in("coppice.toml", "daemon.toml", "agents/web.toml", "agents/zz.toml"); !slices.Equal(l.Sources, want) {
		t.Errorf("sources %q, want %q", l.Sources, want)
	}
	if want := in("", "agents"); !slices.Equal(l.WatchDirs, want) {
		t.Errorf("directories %q, want %q", l.WatchDirs, want)
	}
}

// TestRevision checks that the revision depends on all files, and only on them.
func TestRevision(t *testing.T) {
	dir := configtest.Project(t, split)
	path := filepath.Join(dir, "coppice.toml")
	revision := func() string {
		l, _ := LoadUnchecked(path)
		return l.Revision
	}
	first := revision()
	if first != revision() || len(first) != 64 {
		t.Fatalf("got %q and then another", first)
	}
	if l, _ := LoadUnchecked(filepath.Join(configtest.Project(t, split), "coppice.toml")); l.Revision != first {
		t.Error("in another directory it is another one")
	}
	seen := map[string]string{first: "the first"}
	for _, change := range []struct{ file, text string }{
		{"agents/new.toml", "# new\n"}, {"daemon.toml", "[daemon]\n"}, {"agents/web.toml", "not TOML"}, {"coppice.toml", "# nothing\n"},
	} {
		configtest.Write(t, filepath.Join(dir, change.file), change.text, 0o644)
		r := revision()
		if what, ok := seen[r]; ok {
			t.Errorf("after %s it is that of %s", change.file, what)
		}
		seen[r] = change.file
	}
}

// TestIncludeErrors checks that errors have places in the file that causes them.
func TestIncludeErrors(t *testing.T) {
	main := func(include string) string {
		return "-- coppice.toml --\ninclude = " + include + "\n" + base
	}
	for _, tt := range []struct{ name, archive, want string }{
		{"missing", main(`["more.toml"]`), `coppice.toml:1:12: "more.toml" no such file; check the path; it is relative to this file`},
		{"one is good", main(`["a.toml", "b.toml"]`) + "-- b.toml --\n", `coppice.toml:1:12: "a.toml" no such file; check the path; it is relative to this file`},
		{"not a list", main(`"a.toml"`), `coppice.toml:1:11: include is a string, expected an array of paths`},
		{"not paths", main(`[1, ""]`), `
			coppice.toml:1:12: an element of include is an integer, expected a path
			coppice.toml:1:15: an element of include is empty, expected a path; remove the key if nothing is meant`},
		{"directory", main(`["d"]`) + "-- d/x.toml --\n", `coppice.toml:1:12: "d" is a directory, expected a regular file`},
		{"device", main(`["/dev/zero"]`), `coppice.toml:1:12: "/dev/zero" is a device, expected a regular file`},
		{"home", main(`["~/x.toml"]`), `coppice.toml:1:12: "~/x.toml": ~ is not expanded; write the whole path`},
		{"deep", main(`["a/**/x.toml"]`), `coppice.toml:1:12: "a/**/x.toml": ** is not supported; write a "*" for each level, as in "agents/*/*.toml"`},
		{"no pattern", main(`["a/[.toml"]`), `coppice.toml:1:12: "a/[.toml" is not a valid pattern; a "[" begins a set of characters; \ escapes it`},
		{"itself", main(`["coppice.toml"]`), `coppice.toml:1:12: "coppice.toml" is the file that includes it, expected another one; put what is included into a directory of its own`},
		{"itself by a pattern", main(`["*.toml"]`), `coppice.toml:1:12: "coppice.toml" is the file that includes it, expected another one; put what is included into a directory of its own`},
		{"twice", main("[\n\"a.toml\",\n\"./a.toml\"]") + "-- a.toml --\n", `coppice.toml:3:1: "a.toml" is included already, by line 2, expected once; remove one of the two`},
		{"twice by patterns", main(`["a/*.toml", "a/x*"]`) + "-- a/x.toml --\n", `coppice.toml:1:24: "a/x.toml" is included already, by line 1, expected once; remove one of the two`},
		{"recursive", main(`["a.toml"]`) + "-- a.toml --\ninclude = [\"b.toml\"]\n", `a.toml:1:1: an included file includes nothing itself; include it in coppice.toml`},
		{"cycle", main(`["a.toml"]`) + "-- a.toml --\ninclude = [\"coppice.toml\"]\n", `a.toml:1:1: an included file includes nothing itself; include it in coppice.toml`},
		{"not TOML", main(`["a.toml", "b.toml"]`) + "-- a.toml --\nx = \n-- b.toml --\n[x\n", `
			a.toml:1:5: not TOML: unexpected character U+000A at start of value
			b.toml:1:3: not TOML: expected ']' to close table name`},
		{"errors of several files", main(`["b.toml", "a.toml"]`) + "dir = 1\n-- a.toml --\n[daemon]\nx = 1\n-- b.toml --\n\n[daemon]\npatrol_interval = \"0s\"\n", `
			coppice.toml:5:7: dir is an integer, expected a path
			b.toml:3:19: patrol_interval is "0s", expected a duration above zero
			a.toml:2:1: unknown key "x" in [daemon]; docs/configuration.md lists all keys`},
		{"name is taken", main(`["a.toml"]`) + "-- a.toml --\n" + base, `a.toml:2:8: the name "a" is taken by agent number 1, expected another one (that is in coppice.toml:3); names are unique in the whole file, supervisors and agents together`},
		{"a table and no table", main(`["a.toml"]`) + "[daemon]\n-- a.toml --\ndaemon = 1\nagent = 2\n", `
			a.toml:1:10: daemon is an integer, expected a table
			a.toml:2:9: agent is an integer, expected an array of tables`},

		{"patch of an unknown agent", main(`[]`) + "[[patches.agent]]\nname = \"b\"\n[[patches.agent]]\nname = \"A\"\n[[patches.agent]]\n[[patches.agent]]\nname = 1\n[[patches.supervisor]]\nname = \"a\"\n", `
			coppice.toml:6:8: no agent is called "b", expected one to change; did you mean "a"?
			coppice.toml:8:8: no agent is called "A", expected one to change; did you mean "a"?
			coppice.toml:9:11: [[patches.agent]] without name, expected one (string)
			coppice.toml:11:8: name is an integer, expected a string; write "1"
			coppice.toml:13:8: no supervisor is called "a", expected one to change`},
		{"patch of what", main(`[]`) + "[patches]\nagents = []\nrig = []\nagent = 1\n[patches.supervisor]\n", `
			coppice.toml:6:1: unknown table "agents" in [patches]; did you mean "agent"?
			coppice.toml:7:1: unknown table "rig" in [patches]; expected one of agent, supervisor
			coppice.toml:8:9: agent is an integer, expected an array of tables
			coppice.toml:9:10: patches.supervisor is a single table, expected an array of tables; write [[patches.supervisor]]`},
		{"no patches", main(`[]`) + "[[patches]]\n", `coppice.toml:5:3: patches is an array, expected a table`},
		{"keys of patches", main(`[]`) + "env = { A = \"\", MODEL = \"\" }\n[[patches.agent]]\nname = \"a\"\ncomand = \"x\"\nenv_remov = [\"A\"]\nname_append = []\ncommand_append = [\"x\"]\nenv_remove = [\"MODLE\", 1]\nready_remove = [\"log\"]\nrestart_append = \"x\"\n", `
			coppice.toml:8:1: unknown key "comand" in [[patches.agent]]; did you mean "command"?
			coppice.toml:9:1: unknown key "env_remov" in [[patches.agent]]; did you mean "env_remove"?
			coppice.toml:10:1: unknown key "name_append" in [[patches.agent]]; docs/configuration.md lists all keys
			coppice.toml:11:18: command is a string in coppice.toml:4, expected an array to append to; write command as an array there
			coppice.toml:12:15: there is no "MODLE" in env, expected one to remove; did you mean "MODEL"?
			coppice.toml:12:24: an element of env_remove is an integer, expected a string; write "1"
			coppice.toml:13:17: there is no "log" in ready, expected one to remove
			coppice.toml:14:1: unknown key "restart_append" in [[patches.agent]]; did you mean "on_start_append"?`},
		{"values of patches", main(`[]`) + "[[patches.agent]]\nname = \"a\"\nenv = 1\nenv_remove = \"x\"\nrestart = \"sometimes\"\nshutdown.grace = \"-1s\"\n", `
			coppice.toml:7:7: env is an integer, expected a table of strings
			coppice.toml:8:14: env_remove is a string, expected an array of strings
			coppice.toml:9:11: restart is "sometimes", expected one of always, on-failure, never
			coppice.toml:10:18: grace is "-1s", negative, expected a duration such as "10s" or "1h30m"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(configtest.Project(t, tt.archive))
			l, err := LoadUnchecked("coppice.toml")
			var errs toml.Errors
			if l.Tree != nil || !errors.As(err, &errs) {
				t.Fatalf("got %v and error %v, want Errors", l.Tree, err)
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(tt.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			got := strings.Split(err.Error(), "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(l.Sources) == 0 || len(l.WatchDirs) == 0 || l.Revision == "" {
				t.Errorf("the files cannot be watched: %+v", l)
			}
		})
	}
}

// TestIncludeElsewhere checks that errors show paths in the form of the first path.
func TestIncludeElsewhere(t *testing.T) {
	dir := configtest.Project(t, "-- coppice.toml --\ninclude = [\"a/x.toml\"]\n-- a/x.toml --\nx = 1\n")
	t.Chdir(filepath.Dir(dir))
	for path, want := range map[string]string{
		"shop/coppice.toml":                "shop/a/x.toml:1:1: ",
		filepath.Join(dir, "coppice.toml"): dir + "/a/x.toml:1:1: ",
		"./shop/../shop/coppice.toml":      "shop/a/x.toml:1:1: ",
	} {
		if _, err := LoadUnchecked(path); err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("%s: got %v, want an error at %s", path, err, want)
		}
	}
}

func TestIncludeUnreadable(t *testing.T) {
	t.Chdir(configtest.Project(t, "-- coppice.toml --\ninclude = [\"loop\", \"fifo\", \"large\", \"latin\", \"utf16\", \"gone\", \"bom\"]\n"+base))
	if err := errors.Join(os.Symlink("loop", "loop"), syscall.Mkfifo("fifo", 0o600), os.WriteFile("large", nil, 0o600), os.Truncate("large", 100<<20),
		os.WriteFile("latin", []byte("# caf\xe9\n"), 0o600), os.WriteFile("utf16", []byte("\xff\xfex\x00"), 0o600), os.Symlink("nowhere/at/all", "gone"),
		os.WriteFile("bom", []byte("\xef\xbb\xbf[daemon]\r\npatrol_interval = \"1h\"\r\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := LoadUnchecked("coppice.toml")
	want := strings.Join([]string{
		`coppice.toml:1:12: "loop" cannot be opened: too many levels of symbolic links`,
		`coppice.toml:1:20: "fifo" is a named pipe, expected a regular file`,
		`coppice.toml:1:28: "large" the file has 104857600 bytes, expected at most 1048576; split it`,
		`coppice.toml:1:55: "gone" no such file; check the path; it is relative to this file`,
		`latin:1:6: the byte 0xe9 is not UTF-8; save it as UTF-8`,
		`utf16:1:1: the file is UTF-16, expected UTF-8; save it as UTF-8`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Error("the file that includes does exist")
	}
	if len(l.Sources) != 8 {
		t.Errorf("sources %q, want all of them", l.Sources)
	}
	configtest.Write(t, "coppice.toml", "include = [\"bom\"]\n"+base, 0o644)
	if l, err = LoadUnchecked("coppice.toml"); err != nil || l.Tree.Patrol.Interval != time.Hour {
		t.Errorf("a byte order mark and CRLF: %v", err)
	}
	if os.Geteuid() == 0 {
		return // root may read every file
	}
	if err := os.Chmod("bom", 0); err != nil {
		t.Fatal(err)
	}
	if _, err = LoadUnchecked("coppice.toml"); err == nil || err.Error() != `coppice.toml:1:12: "bom" may not be read; check its permissions with ls -l` {
		t.Errorf("got %v", err)
	}
}

// TestIncludeBounds checks the limits on directories and on the number of files.
func TestIncludeBounds(t *testing.T) {
	dir := configtest.Project(t, "-- coppice.toml --\ninclude = [\"a/*.toml\"]\n"+base)
	t.Chdir(dir)
	for i := range fileset.MaxIncludes + 1 {
		configtest.Write(t, fmt.Sprintf("a/%04d.toml", i), "", 0o644)
	}
	check := func(want string) {
		t.Helper()
		if _, err := LoadUnchecked("coppice.toml"); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	check(`coppice.toml:1:12: "a/*.toml": too many: more than 1000 files match, expected at most that`)
	configtest.Write(t, "coppice.toml", "include = [\"a/0*.toml\", \"a/1*.toml\"]\n"+base, 0o644)
	check(`coppice.toml:1:25: more than 1000 files are included, expected at most that; put several agents into one file`)
	for i := range 5 {
		configtest.Write(t, fmt.Sprintf("b/%d.toml", i), strings.Repeat("#", toml.MaxFile), 0o644)
	}
	configtest.Write(t, "coppice.toml", "include = [\"b/*.toml\"]\n"+base, 0o644)
	check(`coppice.toml:1:12: "b/3.toml" makes 4194368 bytes of all files, expected at most 4194304; split the fleet into several projects`)
}

// TestWatchDirs checks the directories for missing files and for targets of links.
func TestWatchDirs(t *testing.T) {
	dir := configtest.Project(t, "-- coppice.toml --\ninclude = [\"conf/x.toml\", \"agents/*/a.toml\", \"none/deep/*.toml\", \"later/x.toml\"]\n"+base+"-- store/v1/x.toml --\n-- agents/one/a.toml --\n-- agents/two/b.toml --\n")
	if err := os.Symlink("store/v1", filepath.Join(dir, "conf")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "coppice.toml")
	want := []string{dir}
	for _, d := range []string{"agents", "agents/one", "agents/two", "conf", "store/v1"} {
		want = append(want, filepath.Join(dir, d))
	}
	l, err := LoadUnchecked(path)
	if err == nil || !slices.Equal(l.WatchDirs, want) {
		t.Errorf("got %v and %q, want an error and %q", err, l.WatchDirs, want)
	}
	// The directory is removed and created again.
	elsewhere := dir + ".old"
	if err := os.Rename(dir, elsewhere); err != nil {
		t.Fatal(err)
	}
	if l, err = LoadUnchecked(path); !errors.Is(err, fs.ErrNotExist) || !slices.Equal(l.WatchDirs, []string{filepath.Dir(dir)}) || !slices.Equal(l.Sources, []string{path}) {
		t.Errorf("without the directory: %v, %q, %q", err, l.Sources, l.WatchDirs)
	}
	if err := errors.Join(os.Rename(elsewhere, dir), os.MkdirAll(filepath.Join(dir, "later"), 0o755)); err != nil {
		t.Fatal(err)
	}
	configtest.Write(t, filepath.Join(dir, "later/x.toml"), "", 0o644)
	if l, err = LoadUnchecked(path); err != nil || len(l.WatchDirs) != len(want)+1 {
		t.Errorf("after it came back: %v, %q", err, l.WatchDirs)
	}
	if len(l.Notices) != 1 || !strings.Contains(l.Notices[0].String(), `"none/deep/*.toml" matches no file`) {
		t.Errorf("notices: %v", l.Notices)
	}
}

// TestNamepoolSource checks that a file of names is a source.
func TestNamepoolSource(t *testing.T) {
	dir := configtest.Project(t, "-- coppice.toml --\n[[agent]]\nname = \"w\"\ncommand = \"sleep 1\"\npool = { namepool = \"names/crew\" }\n-- names/crew --\nann\n")
	path := filepath.Join(dir, "coppice.toml")
	l, err := LoadAll(path)
	if err != nil {
		t.Fatal(err)
	}
	crew := filepath.Join(dir, "names", "crew")
	if !slices.Equal(l.Sources, []string{path, crew}) || !slices.Equal(l.WatchDirs, []string{dir, filepath.Dir(crew)}) {
		t.Errorf("sources %q, directories %q", l.Sources, l.WatchDirs)
	}
	first := l.Revision
	configtest.Write(t, crew, "ben\n", 0o644)
	if l, _ = LoadAll(path); l.Revision == first {
		t.Error("the revision does not know of it")
	}
	if err := os.Remove(crew); err != nil {
		t.Fatal(err)
	}
	if l, err = LoadAll(path); err == nil || len(l.Sources) != 2 {
		t.Errorf("without it: %v, sources %q", err, l.Sources)
	}
}

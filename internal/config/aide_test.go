package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestAgentsOfAidefiles(t *testing.T) {
	dir := aideProject(t, map[string]string{
		"coppice.toml": `[project]
name = "p"
[aide]
command = ["true", "{task}"]
usage = "file"
poll_interval = "5s"
backoff_base = "10ms"
vault = "secrets"
[daemon]
[[supervisor]]
name = "s"
children = ["uptime-monitor"]
[[agent]]
aidefile = "agents/uptime"
[[agent]]
name = "other"
aidefile = "agents/other/Aidefile"
env = { A = "b" }
`,
		"agents/uptime/Aidefile": configtest.UptimeMonitor,
		"agents/other/Aidefile":  "",
	})
	tree, err := Load(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	agents := map[string]*spec.Agent{}
	for path, c := range tree.All() {
		if c.Agent != nil {
			agents[path] = c.Agent
		}
	}
	uptime, other := agents["p/s/uptime-monitor"], agents["p/other"]
	if uptime == nil || other == nil {
		t.Fatalf("agents %v", agents)
	}
	if got, want := uptime.Aide.Settings, (aidefile.Settings{
		Command: []string{"true", "{task}"}, Usage: aidefile.FromFile, PollInterval: 5 * time.Second, Base: 10 * time.Millisecond, Vault: filepath.Join(dir, "secrets"),
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("settings %+v, expected %+v", got, want)
	}
	if uptime.Dir != filepath.Join(dir, "agents/uptime") || uptime.Aide.Path != filepath.Join(uptime.Dir, "Aidefile") || !uptime.Notify {
		t.Errorf("%+v", uptime)
	}
	if uptime.Restart != supervisor.Permanent || uptime.Limit != supervisor.GivingUp(100) || uptime.Backoff.Delay(3) != 80*time.Millisecond {
		t.Errorf("policy %v, %v, %v", uptime.Restart, uptime.Limit, uptime.Backoff)
	}
	if other.Restart != supervisor.Temporary || other.Limit != (supervisor.Limit{}) || other.Env["A"] != "b" || other.Dir != filepath.Join(dir, "agents/other") {
		t.Errorf("%+v", other)
	}
}

func TestAnAidefileAlone(t *testing.T) {
	dir := aideProject(t, map[string]string{"Aidefile": configtest.UptimeMonitor, "bin/claude": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Join(dir, "bin/claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	tree, err := Load(filepath.Join(dir, "Aidefile"))
	if err != nil {
		t.Fatal(err)
	}
	for path, c := range tree.All() {
		if path != filepath.Base(dir)+"/uptime-monitor" || c.Agent.Aide == nil || c.Agent.Limit != supervisor.GivingUp(100) {
			t.Errorf("%s: %+v", path, c.Agent)
		}
	}
}

func TestBadAgentsOfAidefiles(t *testing.T) {
	dir := aideProject(t, map[string]string{
		"good/Aidefile": "",
		"bad/Aidefile":  "[daemon]\nrestart = \"no\"\nmax = 1\n",
		"empty/x":       "",
		"coppice.toml": `[aide]
comand = "true"
[[agent]]
aidefile = "good"
restart = "always"
command = "true"
runtime = "tmux"
[[agent]]
aidefile = "bad"
[[agent]]
aidefile = "empty"
[[agent]]
aidefile = "missing"
[[agent]]
env = {}
`,
	})
	_, err := Load(filepath.Join(dir, "coppice.toml"))
	got := strings.ReplaceAll(errorText(err), dir+"/", "")
	want := `coppice.toml:2:1: unknown key "comand" in [aide]; did you mean "command"?
coppice.toml:5:1: restart and aidefile, expected one of the two; set it in the table [daemon] of the Aidefile
coppice.toml:6:1: command and aidefile, expected one of the two; set the command in the table [aide] of this file
coppice.toml:7:11: runtime is "tmux" with aidefile, expected proc; remove it
coppice.toml:11:12: the directory "empty" has no Aidefile, expected one; write one there, it may be empty
coppice.toml:13:12: "missing" does not exist, expected an Aidefile or its directory
coppice.toml:14:3: [[agent]] without command, expected one (string or array of strings)
coppice.toml:14:3: [[agent]] without name, expected one (string)
bad/Aidefile:2:11: restart is "no", expected one of always, on-failure, never
bad/Aidefile:3:1: unknown key "max" in [daemon]`
	for _, line := range strings.Split(want, "\n") {
		if !strings.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// Placeholders never become part of a script.
func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		command string
		argv    []string
		fault   string
	}{
		{`"claude -p {task}"`, []string{"claude", "-p", "{task}"}, ""},
		{`["sh", "-c", "echo \"$1\"", "x", "{task}"]`, []string{"sh", "-c", `echo "$1"`, "x", "{task}"}, ""},
		{`"cat $COPPICE_TASK"`, []string{"/bin/sh", "-c", "exec cat $COPPICE_TASK"}, ""},
		{`["echo", "{json}", "{task} now"]`, []string{"echo", "{json}", "{task} now"}, ""},
		{`"claude -p {task} | tee log"`, nil, `2:11: command has a placeholder and needs a shell, expected plain words or an array`},
		{`"claude -p '{task}'"`, nil, `2:11: command has a placeholder and needs a shell`},
		{`["bash", "-e", "-c", "echo {task}"]`, nil, `2:32: a placeholder in a script of bash, expected it in an argument after that; the same is in variables such as "$COPPICE_TASK" and on standard input`},
		{`["bash", "-lc", "echo {task}"]`, nil, `2:27: a placeholder in a script of bash`},
		{`["env", "A=b", "timeout", "5", "/bin/sh", "-euc", "echo {prompt}"]`, nil, `2:61: a placeholder in a script of sh`},
		{`["python3.12", "-c", "{task}"]`, nil, `2:32: a placeholder in a script of python3.12`},
		{`["perl", "-ne", "{task}"]`, nil, `2:27: a placeholder in a script of perl`},
		{`["node", "--eval={task}"]`, nil, `2:20: a placeholder in a script of node`},
		{`["su", "me", "-c", "{task}"]`, nil, `2:30: a placeholder in a script of su`},
		{`["sh", "-c", "exec agent \"$@\"", "sh", "-c", "{task}"]`, []string{"sh", "-c", `exec agent "$@"`, "sh", "-c", "{task}"}, ``},
		{`["claude", "-c", "{task}"]`, []string{"claude", "-c", "{task}"}, ``},
		{`"sh -c {task}"`, nil, `2:11: a placeholder in a script of sh`},
		{`["codex", "-c", "model=x", "exec", "{prompt}"]`, []string{"codex", "-c", "model=x", "exec", "{prompt}"}, ``},
		{`[]`, nil, `2:11: command is empty`},
	} {
		tree, err := Parse("coppice.toml", []byte("[aide]\ncommand = "+c.command+"\n[[agent]]\naidefile = \"a\"\n"))
		switch {
		case c.fault != "":
			if !strings.HasPrefix(errorText(err), "coppice.toml:"+c.fault) {
				t.Errorf("%s: %v, expected %s", c.command, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", c.command, err)
		default:
			if got := tree.Root.Children[0].Agent.Aide.Command; !reflect.DeepEqual(got, c.argv) {
				t.Errorf("%s: %q, expected %q", c.command, got, c.argv)
			}
		}
	}
}

func TestAidefilesAloneInTheirGroup(t *testing.T) {
	_, err := Parse("coppice.toml", []byte("[[supervisor]]\nname = \"s\"\nstrategy = \"rest_for_one\"\nchildren = [\"a\"]\n[[agent]]\naidefile = \"a\"\n"))
	if want := `coppice.toml:6:12: an agent of an Aidefile in a supervisor with the strategy rest_for_one, expected one_for_one: each run of it would restart the others; put it below another supervisor`; errorText(err) != want {
		t.Errorf("%v, expected %s", err, want)
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// project makes a directory with files.
func aideProject(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

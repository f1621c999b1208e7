package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// uptimeMonitor is the example of the seed.
const uptimeMonitor = `[persona]
name = "uptime-monitor"
[trigger]
on = "cron:*/5 * * * *" # every 5 minutes
[daemon]
restart = "always" # respawn on success and failure
max_restarts = 100
backoff = "exponential"
`

func TestAidefile(t *testing.T) {
	const always, onFailure, never = supervisor.Permanent, supervisor.Transient, supervisor.Temporary
	const exp, lin, fix = supervisor.Exponential, supervisor.Linear, supervisor.Fixed
	for _, c := range []struct {
		name, text string
		expected   func(*aidefile.File)
	}{
		{"nothing", "", func(*aidefile.File) {}},
		{"no [daemon]", "[budget]\n", func(f *aidefile.File) { f.Policy = aidefile.Policy{Restart: never, MaxRestarts: 10, Backoff: exp} }},
		{"an empty [daemon]", "[daemon]\n", func(f *aidefile.File) { f.Policy = aidefile.Policy{Restart: onFailure, MaxRestarts: 10, Backoff: exp} }},
		{"restart alone", "[daemon]\nrestart = \"always\"\n", func(f *aidefile.File) { f.Policy = aidefile.Policy{Restart: always, MaxRestarts: 10, Backoff: exp} }},
		{"max_restarts alone", "[daemon]\nmax_restarts = 0\n", func(f *aidefile.File) { f.Policy = aidefile.Policy{Restart: onFailure, MaxRestarts: 0, Backoff: exp} }},
		{"backoff alone", "[daemon]\nbackoff = \"fixed\"\n", func(f *aidefile.File) { f.Policy = aidefile.Policy{Restart: onFailure, MaxRestarts: 10, Backoff: fix} }},
		{"all of it", "[daemon]\nrestart = \"never\"\nmax_restarts = 1\nbackoff = \"linear\"\n", func(f *aidefile.File) { f.Policy = aidefile.Policy{Restart: never, MaxRestarts: 1, Backoff: lin} }},
		{"inline", "daemon = { restart = \"on-failure\" }\n", func(f *aidefile.File) { f.Policy = aidefile.Kept() }},
		{"budget", "[budget]\ntokens = \"100k\"\ntimeout = \"5m\"\nmax_retries = 0\n", func(f *aidefile.File) { f.Budget = aidefile.Budget{Tokens: 100_000, Timeout: 5 * time.Minute} }},
		{"bare seconds", "[budget]\ntokens = 7\ntimeout = \"120\"\n", func(f *aidefile.File) { f.Budget = aidefile.Budget{Tokens: 7, Timeout: 2 * time.Minute, MaxRetries: 3} }},
		{"days", "[budget]\ntimeout = \"1d\"\n", func(f *aidefile.File) { f.Budget.Timeout = 24 * time.Hour }},
		{"no tokens", "[budget]\ntokens = \"0k\"\n", func(f *aidefile.File) { f.Budget.Tokens = 0 }},
		{"the rest", `[persona]
style = "brief"
[memory]
compact_after = "50k"
[hooks]
on_spawn = ["inject-vault", "fetch.sh"]
on_complete = ["commit-memory"]
[skills]
include = ["a", "skills/b.md"]
[vault]
keys = ["API_KEY"]
[output]
max_summary_tokens = 300
narrative_schema = "WHAT, NEXT"
[workspace]
read = ["~/x", "../y"]
`, func(f *aidefile.File) {
			f.Persona.Style, f.Memory.CompactAfter, f.Skills, f.Vault = "brief", 50_000, []string{"a", "skills/b.md"}, []string{"API_KEY"}
			f.Hooks = aidefile.Hooks{OnSpawn: []string{"inject-vault", "fetch.sh"}, OnComplete: []string{"commit-memory"}}
			f.Output, f.Workspace.Read = aidefile.Output{MaxSummaryTokens: 300, NarrativeSchema: "WHAT, NEXT"}, []string{"~/x", "../y"}
		}},
		{"issues", "[persona]\nname = \"n\"\n[trigger]\non = \"issue\"\n", func(f *aidefile.File) {
			f.Persona.Name, f.Label, f.Triggers = "n", "n", []aidefile.Trigger{{Kind: aidefile.Issue}}
		}},
		{"issues with a label", "[trigger]\non = [\"manual\", \"issue\"]\nlabel = \"l\"\n", func(f *aidefile.File) {
			f.Label, f.Triggers = "l", []aidefile.Trigger{{Kind: aidefile.Manual}, {Kind: aidefile.Issue}}
		}},
	} {
		expected := aidefile.Default()
		expected.Persona.Name, expected.Label = "agent", "agent"
		c.expected(&expected)
		got, err := ParseAidefile("some/agent/Aidefile", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !reflect.DeepEqual(*got, expected) {
			t.Errorf("%s: %+v,\nexpected %+v", c.name, *got, expected)
		}
	}
}

func TestAidefileOfTheSeed(t *testing.T) {
	f, err := ParseAidefile("Aidefile", []byte(uptimeMonitor))
	if err != nil {
		t.Fatal(err)
	}
	if f.Persona.Name != "uptime-monitor" || f.Policy != (aidefile.Policy{Restart: supervisor.Permanent, MaxRestarts: 100, Backoff: supervisor.Exponential}) {
		t.Errorf("%+v", f)
	}
	if aidefile.Describe(f.Triggers) != "cron:*/5 * * * *" {
		t.Errorf("triggers %s", aidefile.Describe(f.Triggers))
	}
	at := time.Date(2026, 3, 1, 12, 4, 59, 0, time.UTC)
	if next := f.Triggers[0].Schedule.Next(at); !next.Equal(at.Add(time.Second)) {
		t.Errorf("next at %v", next)
	}
}

func TestAidefileZone(t *testing.T) {
	for _, text := range []string{
		"[trigger]\non = [\"cron:0 9 * * *\", \"issue\"]\ntimezone = \"Europe/Berlin\"\n",
		"[trigger]\ntimezone = \"Europe/Berlin\"\non = \"cron:0 9 * * *\"\n",
	} {
		f, err := ParseAidefile("Aidefile", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if next := f.Triggers[0].Schedule.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)); next.UTC().Hour() != 7 {
			t.Errorf("9 o'clock in Berlin is %v", next.UTC())
		}
	}
}

// Without a time zone it is that of the machine, as for orders.
func TestAidefileWithoutZone(t *testing.T) {
	defer func(zone *time.Location) { time.Local = zone }(time.Local)
	time.Local = time.FixedZone("here", 5*3600)
	for text, hour := range map[string]int{"": 4, "timezone = \"UTC\"\n": 9, "timezone = \"Local\"\n": 4} {
		f, err := ParseAidefile("Aidefile", []byte("[trigger]\non = \"cron:0 9 * * *\"\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if next := f.Triggers[0].Schedule.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)).UTC(); next.Hour() != hour {
			t.Errorf("%q: 9 o'clock is %v, expected %d", text, next, hour)
		}
	}
}

func TestBadAidefiles(t *testing.T) {
	for _, c := range []struct{ text, expected string }{
		{"[deamon]\n", `Aidefile:1:2: unknown table "deamon" in the file; did you mean "daemon"?`},
		{"name = \"x\"\n", `Aidefile:1:1: unknown key "name" in the file; it belongs in [persona]`},
		{"[persona]\nnmae = \"x\"\n", `Aidefile:2:1: unknown key "nmae" in [persona]; did you mean "name"?`},
		{"[budget]\ntoken = \"1k\"\n", `Aidefile:2:1: unknown key "token" in [budget]; did you mean "tokens"?`},
		{"[memory]\ncompact = 1\n", `Aidefile:2:1: unknown key "compact" in [memory]; did you mean "compact_after"?`},
		{"[hooks]\non_spwan = []\n", `Aidefile:2:1: unknown key "on_spwan" in [hooks]; did you mean "on_spawn"?`},
		{"[skills]\nincludes = []\n", `Aidefile:2:1: unknown key "includes" in [skills]; did you mean "include"?`},
		{"[trigger]\nrestart = \"always\"\n", `Aidefile:2:1: unknown key "restart" in [trigger]; it belongs in [daemon]`},
		{"[vault]\nkey = []\n", `Aidefile:2:1: unknown key "key" in [vault]; did you mean "keys"?`},
		{"[output]\nmax_tokens = 1\n", `Aidefile:2:1: unknown key "max_tokens" in [output]; did you mean "max_summary_tokens"?`},
		{"[workspace]\nreads = []\n", `Aidefile:2:1: unknown key "reads" in [workspace]; did you mean "read"?`},
		{"[daemon]\nmax_restart = 1\n", `Aidefile:2:1: unknown key "max_restart" in [daemon]; did you mean "max_restarts"?`},
		{"[daemon]\nrestart = \"on_failure\"\n", `Aidefile:2:11: restart is "on_failure", expected one of always, on-failure, never; did you mean "on-failure"?`},
		{"[daemon]\nrestart = \"sometimes\"\n", `Aidefile:2:11: restart is "sometimes", expected one of always, on-failure, never`},
		{"[daemon]\nrestart = \"unless-stopped\"\n", `Aidefile:2:11: restart is "unless-stopped", expected one of always, on-failure, never; did you mean "always"? an agent that is stopped by hand stays stopped`},
		{"[daemon]\nrestart = \"no\"\n", `Aidefile:2:11: restart is "no", expected one of always, on-failure, never; did you mean "never"?`},
		{"[daemon]\nmax_restarts = -1\n", `Aidefile:2:16: max_restarts is -1, expected an integer from 0 to 1000000`},
		{"[daemon]\nbackoff = \"Exponential\"\n", `Aidefile:2:11: backoff is "Exponential", expected one of exponential, linear, fixed; did you mean "exponential"?`},
		{"daemon = true\n", `Aidefile:1:10: daemon is a boolean, expected a table`},
		{"[[daemon]]\n", `Aidefile:1:3: daemon is an array, expected a table; write [daemon]`},
		{"[budget]\ntokens = \"abc\"\n", `Aidefile:2:10: tokens is "abc", expected a number of tokens such as "200k", "1m" or "500000"; k stands for thousands, m for millions`},
		{"[budget]\ntokens = -1\n", `Aidefile:2:10: tokens is -1, expected a number of tokens such as "200k", "1m" or "500000"`},
		{"[budget]\ntimeout = \"5x\"\n", `Aidefile:2:11: timeout is "5x", expected a duration such as "10s" or "1h30m"; the units are ns, us, ms, s, m, h, d (24 hours)`},
		{"[budget]\ntimeout = 300\n", `Aidefile:2:11: timeout is a number without a unit, expected a duration such as "10s" or "1h30m"; write "300s" if seconds are meant`},
		{"[budget]\nchain_tokens = 0\n", `Aidefile:2:16: chain_tokens is 0, expected at least 1; without it there is no bound`},
		{"[budget]\nchain_tokens = \"0k\"\n", `Aidefile:2:16: chain_tokens is 0, expected at least 1; without it there is no bound`},
		{"[budget]\nchain_tokens = \"x\"\n", `Aidefile:2:16: chain_tokens is "x", expected a number of tokens such as "200k", "1m" or "500000"; k stands for thousands, m for millions`},
		{"[budget]\nmax_retries = -1\n", `Aidefile:2:15: max_retries is -1, expected an integer from 0 to 1000000`},
		{"[trigger]\non = \"isue\"\n", `Aidefile:2:6: on is "isue", expected "manual", "issue" or "cron:EXPR"; did you mean "issue"?`},
		{"[trigger]\non = \"cron */5 * * * *\"\n", `Aidefile:2:6: on is "cron */5 * * * *", expected "manual", "issue" or "cron:EXPR"; write "cron:*/5 * * * *"`},
		{"[trigger]\non = \"*/5 * * * *\"\n", `Aidefile:2:6: on is "*/5 * * * *", expected "manual", "issue" or "cron:EXPR"; write "cron:*/5 * * * *"`},
		{"[trigger]\non = \"webhook:https://x\"\n", `Aidefile:2:6: on is "webhook:https://x", expected "manual", "issue" or "cron:EXPR"; a web hook can call coppice fire`},
		{"[trigger]\non = []\n", `Aidefile:2:6: on is empty, expected a trigger; write "manual"`},
		{"[trigger]\non = [\"issue\", \"issue\"]\n", `Aidefile:2:16: the trigger "issue" is there twice, expected once; remove one of the two`},
		{"[trigger]\ntimezone = \"Mars\"\n", `Aidefile:2:12: timezone is "Mars", expected a time zone such as "Europe/Berlin", "UTC" or "Local"`},
		{"[persona]\nname = \"a/b\"\n", `Aidefile:2:8: the name "a/b" contains "/", expected one segment of a path`},
		{"[hooks]\non_spawn = [\"../x.sh\"]\n", `Aidefile:2:13: the hook "../x.sh" is no file beside the Aidefile, expected one, inject-vault or commit-memory`},
		{"[vault]\nkeys = [\"a b\"]\n", `Aidefile:2:9: "a b" cannot name a secret, expected a name of a variable such as "API_KEY"`},
		{"[vault]\nkeys = [\"COPPICE_TOKEN\"]\n", `Aidefile:2:9: the variable "COPPICE_TOKEN" is set by Coppice itself, expected another name`},
		{"[skills]\ninclude = [\"\"]\n", `Aidefile:2:12: an element of include is "", expected a name or a path`},
		{"[output]\nmax_summary_tokens = \"500\"\n", `Aidefile:2:22: max_summary_tokens is a string, expected an integer from 0 to 1000000`},
	} {
		_, err := ParseAidefile("Aidefile", []byte(c.text))
		if err == nil || err.Error() != c.expected {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.expected)
		}
	}
	_, err := ParseAidefile("Aidefile", []byte("[trigger]\non = \"cron:61 * * * *\"\n"))
	if err == nil || !strings.HasPrefix(err.Error(), `Aidefile:2:12: on is "cron:61 * * * *": minute "61": 61 is not in 0-59; `) {
		t.Errorf("%v", err)
	}
}

func TestAidefileHooksExist(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "Aidefile")
	if err := os.WriteFile(path, []byte("[hooks]\non_spawn = [\"a.sh\", \"comit-memory\", \"d\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := LoadAidefile(path)
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("%v", err)
	}
	for i, expected := range []string{
		`the hook "a.sh" does not exist, expected a script beside the Aidefile, inject-vault or commit-memory`,
		`the hook "comit-memory" does not exist, expected a script beside the Aidefile, inject-vault or commit-memory; did you mean "commit-memory"?`,
		`the hook "d" is a directory, expected a script`,
	} {
		if got := errs[i].Error(); !strings.HasSuffix(got, expected) {
			t.Errorf("%s, expected %s", got, expected)
		}
	}
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
		"agents/uptime/Aidefile": uptimeMonitor,
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
	dir := aideProject(t, map[string]string{"Aidefile": uptimeMonitor, "bin/claude": "#!/bin/sh\n"})
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
coppice.toml:5:1: restart beside aidefile, expected one of the two; it is said in the table [daemon] of the Aidefile
coppice.toml:6:1: command beside aidefile, expected one of the two; what it calls is said in the table [aide] of this file
coppice.toml:7:11: runtime is "tmux" beside aidefile, expected proc; remove it
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

// What a person has not written never becomes part of a script.
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

func TestAidefileReference(t *testing.T) {
	for _, s := range aidefileSections() {
		if s.header != "" {
			example := s.example
			if _, err := ParseAidefile("Aidefile", []byte(example)); err != nil {
				t.Errorf("%s: %v", s.header, err)
			}
		}
		checkRows(t, s)
	}
}

func FuzzAidefile(f *testing.F) {
	f.Add(uptimeMonitor)
	for _, s := range aidefileSections() {
		f.Add(s.example)
	}
	f.Add("[trigger]\non = [\"manual\", \"cron:@daily\", 1]\ntimezone = \"x\"\n[budget]\ntokens = \"1.5m\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseAidefile("dir/Aidefile", []byte(text))
		if err != nil {
			var errs Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			for _, e := range errs {
				if e.Line < 1 || e.Column < 1 || e.Message == "" || strings.ContainsAny(e.Error(), "\n\r\x1b") {
					t.Fatalf("%+v", e)
				}
			}
			return
		}
		if file.Budget.Tokens < 0 || file.Budget.Timeout < 0 || file.Policy.MaxRestarts < 0 || len(file.Triggers) == 0 || spec.CheckName(file.Persona.Name) != "" {
			t.Fatalf("%+v", file)
		}
		a := &spec.Agent{Name: file.Persona.Name, Dir: "/", Aide: &aidefile.Agent{Path: "/Aidefile", File: *file, Settings: aidefile.DefaultSettings("/")}}
		a.Restart, a.Backoff, a.Limit = file.Policy.Child(0)
		if _, problems := spec.Assemble(spec.Node{Name: "root-of-all"}, []spec.Decl{{Agent: a}}); len(problems) > 0 && file.Persona.Name != "root-of-all" {
			t.Fatalf("%+v", problems)
		}
	})
}

// A path in [aide] belongs to the directory of each Aidefile, which the hint says.
func TestAideHint(t *testing.T) {
	for program, want := range map[string]string{
		"./run.sh":    "relative to the directory of each Aidefile",
		"bin/run":     "relative to the directory of each Aidefile",
		"/opt/run":    "install it, or say in the table [aide]",
		"no-such-llm": "install it, or say in the table [aide]",
	} {
		if got := aideHint(program); !strings.Contains(got, want) {
			t.Errorf("%s: %s", program, got)
		}
	}
}

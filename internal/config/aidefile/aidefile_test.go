package aidefile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestAidefile(t *testing.T) {
	const always, onFailure, never = supervisor.Permanent, supervisor.Transient, supervisor.Temporary
	const exp, lin, fix = supervisor.Exponential, supervisor.Linear, supervisor.Fixed
	for _, c := range []struct {
		name, text string
		expected   func(*aidefile.File)
	}{
		{"nothing", "", func(*aidefile.File) {}},
		{"an empty [budget]", "[budget]\n", func(f *aidefile.File) {
			f.Budget = aidefile.Budget{Tokens: 200_000, Timeout: 6 * time.Hour, MaxRetries: 3}
		}},
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
[acp]
allow = ["edit", "other"]
`, func(f *aidefile.File) {
			f.Allow = []string{"edit", "other"}
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
		got, err := Parse("some/agent/Aidefile", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !reflect.DeepEqual(*got, expected) {
			t.Errorf("%s: %+v,\nexpected %+v", c.name, *got, expected)
		}
	}
}

func TestUptimeMonitor(t *testing.T) {
	f, err := Parse("Aidefile", []byte(configtest.UptimeMonitor))
	if err != nil {
		t.Fatal(err)
	}
	if f.Persona.Name != "uptime-monitor" || f.Policy != (aidefile.Policy{Restart: supervisor.Permanent, MaxRestarts: 100, Backoff: supervisor.Exponential}) {
		t.Errorf("%+v", f)
	}
	if len(f.Triggers) != 1 || f.Triggers[0].String() != "cron:*/5 * * * *" {
		t.Errorf("triggers %v", f.Triggers)
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
		f, err := Parse("Aidefile", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if next := f.Triggers[0].Schedule.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)); next.UTC().Hour() != 7 {
			t.Errorf("9 o'clock in Berlin is %v", next.UTC())
		}
	}
}

// The default time zone is that of the machine, as for orders.
func TestAidefileWithoutZone(t *testing.T) {
	defer func(zone *time.Location) { time.Local = zone }(time.Local)
	time.Local = time.FixedZone("here", 5*3600)
	for text, hour := range map[string]int{"": 4, "timezone = \"UTC\"\n": 9, "timezone = \"Local\"\n": 4} {
		f, err := Parse("Aidefile", []byte("[trigger]\non = \"cron:0 9 * * *\"\n"+text))
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
		{"[daemon]\ncli = \"codex\"\n", `Aidefile:2:1: unknown key "cli" in [daemon]; it belongs before the first table`},
		{"cli = \"codx\"\n", `Aidefile:1:7: cli: unknown command line "codx", expected one of claude, codex, gemini, opencode, copilot, plain, acp; did you mean "codex"?`},
		{"[daemon]\nmax_restart = 1\n", `Aidefile:2:1: unknown key "max_restart" in [daemon]; did you mean "max_restarts"?`},
		{"[daemon]\nrestart = \"on_failure\"\n", `Aidefile:2:11: restart is "on_failure", expected one of always, on-failure, never; did you mean "on-failure"?`},
		{"[daemon]\nrestart = \"sometimes\"\n", `Aidefile:2:11: restart is "sometimes", expected one of always, on-failure, never`},
		{"[daemon]\nrestart = \"unless-stopped\"\n", `Aidefile:2:11: restart is "unless-stopped", expected one of always, on-failure, never; did you mean "always"? it does not restart an agent that was stopped manually`},
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
		{"[hooks]\non_spawn = [\"../x.sh\"]\n", `Aidefile:2:13: the hook "../x.sh" is not a file next to the Aidefile, expected one, inject-vault or commit-memory`},
		{"[vault]\nkeys = [\"a b\"]\n", `Aidefile:2:9: "a b" cannot name a secret, expected a name of a variable such as "API_KEY"`},
		{"[vault]\nkeys = [\"COPPICE_TOKEN\"]\n", `Aidefile:2:9: the variable "COPPICE_TOKEN" is set by Coppice itself, expected another name`},
		{"[skills]\ninclude = [\"\"]\n", `Aidefile:2:12: an element of include is "", expected a name or a path`},
		{"[acp]\nallow = [\"excute\"]\n", `Aidefile:2:10: an element of allow is "excute", expected one of read, search, think, fetch, edit, move, delete, execute, switch_mode, other; did you mean "execute"?`},
		{"[acp]\nallow = \"read\"\n", `Aidefile:2:9: allow is a string, expected an array of kinds of tools`},
		{"[permissions]\nallow = []\n", `Aidefile:1:2: unknown table "permissions" in the file; did you mean "acp"?`},
		{"[output]\nmax_summary_tokens = \"500\"\n", `Aidefile:2:22: max_summary_tokens is a string, expected an integer from 0 to 1000000`},
	} {
		_, err := Parse("Aidefile", []byte(c.text))
		if err == nil || err.Error() != c.expected {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.expected)
		}
	}
	_, err := Parse("Aidefile", []byte("[trigger]\non = \"cron:61 * * * *\"\n"))
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
	_, err := Load(path)
	var errs toml.Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("%v", err)
	}
	for i, expected := range []string{
		`the hook "a.sh" does not exist, expected a script next to the Aidefile, inject-vault or commit-memory`,
		`the hook "comit-memory" does not exist, expected a script next to the Aidefile, inject-vault or commit-memory; did you mean "commit-memory"?`,
		`the hook "d" is a directory, expected a script`,
	} {
		if got := errs[i].Error(); !strings.HasSuffix(got, expected) {
			t.Errorf("%s, expected %s", got, expected)
		}
	}
}

func TestAidefileReference(t *testing.T) {
	for _, s := range Sections() {
		if s.Header != "" {
			example := s.Example
			if _, err := Parse("Aidefile", []byte(example)); err != nil {
				t.Errorf("%s: %v", s.Header, err)
			}
		}
		configtest.CheckRows(t, s)
	}
}

func FuzzAidefile(f *testing.F) {
	f.Add(configtest.UptimeMonitor)
	for _, s := range Sections() {
		f.Add(s.Example)
	}
	f.Add("[trigger]\non = [\"manual\", \"cron:@daily\", 1]\ntimezone = \"x\"\n[budget]\ntokens = \"1.5m\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("dir/Aidefile", []byte(text))
		if err != nil {
			var errs toml.Errors
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

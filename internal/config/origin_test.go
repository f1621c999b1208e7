package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/toml"
)

// TestWriteTOML checks that the output combines all files and names the origins.
func TestWriteTOML(t *testing.T) {
	t.Chdir(configtest.Project(t, split))
	l, err := LoadUnchecked("coppice.toml")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := l.WriteTOML(&b); err != nil {
		t.Fatal(err)
	}
	want := `[daemon]                 # coppice.toml:3
max_restarts = 3         # coppice.toml:4
restart_window = "3h"    # daemon.toml:3; was "2h" in coppice.toml:5
patrol_interval = "10s"  # daemon.toml:2

[[supervisor]]              # coppice.toml:7
name = "front"              # coppice.toml:8
children = ["web", "cron"]  # agents/zz.toml:20, coppice.toml:9; was ["web"] in coppice.toml:9
max_restarts = 9            # agents/zz.toml:21

[[agent]]            # coppice.toml:11
name = "db"          # coppice.toml:12
command = "sleep 1"  # coppice.toml:13

[[agent]]                        # agents/web.toml:1
name = "web"                     # agents/web.toml:2
command = ["./serve", "--now"]   # agents/zz.toml:8; was ["./serve"] in agents/zz.toml:9
dir = "services"                 # agents/web.toml:4
env.MODEL = "haiku"              # agents/zz.toml:15; was "opus" in agents/web.toml:5
env.PORT = "81"                  # agents/zz.toml:16; was "80" in agents/web.toml:5
# env.OLD                        # removed by agents/zz.toml:10, was "1" in agents/web.toml:5
backoff.kind = "linear"          # agents/web.toml:6
backoff.cap = "1m"               # agents/zz.toml:11
on_start.command = "false"       # agents/zz.toml:12; was "true" in agents/web.toml:7
on_start.timeout = "7s"          # agents/web.toml:7
beliefs.count.type = "int"       # agents/web.toml:9
beliefs.count.persistent = true  # agents/web.toml:9
beliefs.count.initial = 7        # agents/zz.toml:13
suspended = true                 # agents/zz.toml:7

[[agent]]            # agents/zz.toml:1
name = "cron"        # agents/zz.toml:2
command = "sleep 2"  # agents/zz.toml:3
`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	path, err := filepath.Abs("coppice.toml")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(path, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.Tree, again); diff != "" {
		t.Errorf("what is shown means something else (-want +got)\n%s", diff)
	}
}

// TestWriteTOMLAll checks random trees: what WriteTOML writes is equivalent.
func TestWriteTOMLAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := print(someTree(t))
		l, err := load("/x/coppice.toml", "/x", []byte(text), nil, false)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var b bytes.Buffer
		if err := l.WriteTOML(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Parse("/x/coppice.toml", b.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(l.Tree, again); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, b.String())
		}
		if _, err := json.Marshal(l.Values()); err != nil {
			t.Fatal(err)
		}
		for _, o := range l.Values() {
			found, err := l.Find(o.Key)
			if err != nil || len(found) != 1 || found[0].Place() != o.Place() {
				t.Fatalf("%s is not found: %v, %v", o.Key, found, err)
			}
		}
	})
}

func TestFindKey(t *testing.T) {
	t.Chdir(configtest.Project(t, split+"-- agents/odd.toml --\n[[agent]]\nname = \"a.b c\"\ncommand = \"x\"\nenv.\"x.y\" = \"\"\nlimits.cpu = inf\n[[agent]]\ncommand = \"x\"\n"))
	l, err := LoadUnchecked("coppice.toml")
	if err == nil {
		t.Fatal("no error")
	}
	show := func(found []toml.Origin) string {
		var b strings.Builder
		for _, o := range found {
			b.WriteString(o.Key + " = " + o.TOML() + " " + o.Place())
			for _, before := range o.Overrode {
				b.WriteString(" < " + before.TOML() + " " + before.Place())
			}
			if o.Removed {
				b.WriteString(" removed")
			}
			b.WriteByte('\n')
		}
		return strings.TrimSpace(b.String())
	}
	for key, want := range map[string]string{
		"agent.web.env.MODEL":     `agent.web.env.MODEL = "haiku" agents/zz.toml:15:1 < "opus" agents/web.toml:5:9`,
		"agent.web.env.OLD":       `agent.web.env.OLD = "1" agents/zz.toml:10:15 < "1" agents/web.toml:5:38 removed`,
		"agent[3].env.MODEL":      `agent.web.env.MODEL = "haiku" agents/zz.toml:15:1 < "opus" agents/web.toml:5:9`,
		"agent.web.command":       `agent.web.command = ["./serve", "--now"] agents/zz.toml:8:1 < ["./serve"] agents/zz.toml:9:1 < ["./serve", "-v"] agents/web.toml:3:1`,
		"agent.web.command[1]":    `agent.web.command[1] = "--now" agents/zz.toml:8:19`,
		`agent."a.b c".env."x.y"`: `agent."a.b c".env."x.y" = "" agents/odd.toml:4:5`,
		`agent."a.b c".limits`:    `agent."a.b c".limits.cpu = inf agents/odd.toml:5:8`,
		"daemon":                  "daemon.max_restarts = 3 coppice.toml:4:1\ndaemon.restart_window = \"3h\" daemon.toml:3:1 < \"2h\" coppice.toml:5:1\ndaemon.patrol_interval = \"10s\" daemon.toml:2:1",
		"agent[2]":                `agent[2].command = "x" agents/odd.toml:7:1`,
		"supervisor":              "supervisor.front.name = \"front\" coppice.toml:8:1\nsupervisor.front.children = [\"web\", \"cron\"] agents/zz.toml:20:1 < [\"web\"] coppice.toml:9:1\nsupervisor.front.max_restarts = 9 agents/zz.toml:21:1",
	} {
		found, err := l.Find(key)
		if got := show(found); err != nil || got != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", key, err, got, want)
		}
	}
	for key, want := range map[string]string{
		"agent.web.restart":             "agent.web.restart is not set; the default is always",
		"agent.db.env":                  "agent.db.env is not set",
		"agent.db.on_error":             "agent.db.on_error is not set",
		"agent.db.pool.min":             "agent.db.pool.min is not set; the default is 0",
		"agent.web.on_start.timeut":     `there is no agent.web.on_start.timeut: agent.web.on_start has no "timeut"; did you mean agent.web.on_start.timeout?`,
		"agent.db.on_resting.timeout":   "agent.db.on_resting.timeout is not set; the default is 30s",
		"agent.db.pool.on_boot.timeout": "agent.db.pool.on_boot.timeout is not set; the default is 30s",
		"agent.db.shutdown.grace":       "agent.db.shutdown.grace is not set; the default is 5s",
		"agent.db.shutdown.gracee":      `there is no agent.db.shutdown.gracee: agent.db has no "shutdown"; there are name, command`,
		"agent.web.env.MODLE":           `there is no agent.web.env.MODLE: agent.web.env has no "MODLE"; did you mean agent.web.env.MODEL?`,
		"agent.wbe.restart":             `there is no agent.wbe.restart: agent has no "wbe"; did you mean agent.web?`,
		"agnet":                         `there is no agnet: the file has no "agnet"; did you mean agent?`,
		"persistence.path":              "persistence.path is not set; the default is `.coppice/state.db`",
		"agent.web.command.x":           `there is no agent.web.command.x: agent.web.command has no "x"`,
		"agent.web.name.x":              `there is no agent.web.name.x: agent.web.name has no "x"`,
		"":                              `"" is not a key; write it as agent.web.env.MODEL, with quotes around segments that contain dots`,
		"a..b":                          `"a..b" is not a key; write it as agent.web.env.MODEL, with quotes around segments that contain dots`,
		`a."b`:                          `"a.\"b" is not a key; write it as agent.web.env.MODEL, with quotes around segments that contain dots`,
		"agent[x]":                      `"agent[x]" is not a key; write it as agent.web.env.MODEL, with quotes around segments that contain dots`,
		"agent[1]x":                     `"agent[1]x" is not a key; write it as agent.web.env.MODEL, with quotes around segments that contain dots`,
		"agent[99999999999999999]":      `there is no agent[99999999999999999]: agent has no "99999999999999999"; there are db, a.b c, web, cron`,
		"agent.web.env.\x1b[31mred":     `"agent.web.env.\x1b[31mred" is not a key; write it as agent.web.env.MODEL, with quotes around segments that contain dots`,
	} {
		if found, err := l.Find(key); err == nil || err.Error() != want {
			t.Errorf("%s: %s\ngot  %v\nwant %s", key, show(found), err, want)
		}
	}
	if err := os.WriteFile("daemon.toml", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, _ = LoadUnchecked("coppice.toml"); len(l.Values()) != 0 || l.Values() == nil {
		t.Error("there are values of what cannot be parsed")
	}
	if _, err := l.Find("agent"); !errors.Is(err, ErrUnread) {
		t.Errorf("got %v", err)
	}
}

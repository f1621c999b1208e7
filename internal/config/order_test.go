package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/config/configtest"
	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// projectOf writes files into a new directory and returns the path of its coppice.toml.
func projectOf(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "coppice.toml")
}

const one = "[[agent]]\nname = \"a\"\ncommand = \"sleep 1\"\n"

func ordersOf(t testing.TB, files map[string]string) map[string]*spec.Order {
	t.Helper()
	tree, err := Load(projectOf(t, files))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*spec.Order)
	for _, o := range tree.Orders {
		all[o.Name] = o
	}
	return all
}

func TestOrders(t *testing.T) {
	all := ordersOf(t, map[string]string{
		"coppice.toml": one + `
[orders]
skip = ["plain"]
max_timeout = "2m"
[[orders.overrides]]
name = "legacy"
interval = "2h"
timeout = "30s"
enabled = false

[[order]]
name = "everything"
description = "all keys"
exec = ["sh", "-c", "true"]
gate = ["cron", "cooldown", "condition", "event"]
match = "all"
schedule = "30 2 * * MON-FRI"
timezone = "Europe/Berlin"
interval = "1d"
check = "test -e x"
check_timeout = "5s"
check_interval = "1m"
on = ["agent.*", "task.closed"]
path = "shop/db"
timeout = "90s"
overlap = "queue"
catch_up = true
retries = 3
backoff = "linear"
retry_delay = "5s"
env = { A = "b" }
dir = "orders"

[[order]]
name = "work"
pool = "workers"
task = { title = "look", text = "closely", labels = ["x"], priority = 1 }
schedule = ["0 9 * * *", "0 18 * * *"]
`,
		"orders/legacy.toml":      "[order]\ndescription = \"old\"\nformula = \"mol-digest\"\ngate = \"cooldown\"\ninterval = \"24h\"\npool = \"dog\"\n",
		"orders/plain.toml":       "exec = \"./run.sh --now\"\n",
		"run.sh":                  "#!/bin/sh\n",
		"orders/dir/order.toml":   "[order]\nexec = \"true; true\"\ngate = \"manual\"\n",
		"orders/other.order.toml": "exec = \"true\"\non = \"*\"\n",
	})
	if len(all) != 6 {
		t.Errorf("%d orders: %v", len(all), all)
	}
	o := all["everything"]
	if fmt.Sprint(o.Gates) != "[cron 30 2 * * MON-FRI (Europe/Berlin) cooldown 24h0m0s condition test -e x event agent.*, task.closed of shop/db]" &&
		len(o.Gates) != 4 || !o.All || o.Timeout != 90*time.Second || o.Overlap != spec.OverlapQueue || !o.CatchUp || o.Retries != 3 ||
		o.Backoff != (supervisor.Backoff{Kind: supervisor.Linear, Base: 5 * time.Second}) || o.Env["A"] != "b" || filepath.Base(o.Dir) != "orders" || o.Disabled {
		t.Errorf("%+v", o)
	}
	if g := o.Gate(spec.Condition); g.Limit != 5*time.Second || g.Every != time.Minute {
		t.Errorf("%+v", g)
	}
	if o := all["work"]; o.Task == nil || o.Task.Pool != "workers" || *o.Task.Priority != 1 || len(o.Gates) != 2 || o.Timeout != 2*time.Minute {
		t.Errorf("%+v", o)
	}
	if o := all["legacy"]; o.Task.Title != "mol-digest" || o.Task.Pool != "dog" || o.Gates[0].Interval != 2*time.Hour || o.Timeout != 30*time.Second || !o.Disabled || o.Why != "enabled is false" {
		t.Errorf("%+v", o)
	}
	if o := all["plain"]; !o.Disabled || !strings.Contains(o.Why, "skip") || len(o.Gates) != 0 || strings.Join(o.Command, "|") != "./run.sh|--now" ||
		o.Backoff != (supervisor.Backoff{Kind: supervisor.Exponential, Base: 10 * time.Second}) {
		t.Errorf("%+v", o)
	}
	if o := all["dir"]; o.Command[0] != "/bin/sh" || o.Gates[0].Kind != spec.Manual {
		t.Errorf("%+v", o)
	}
	if o := all["other"]; o == nil || !strings.HasSuffix(o.Source, "orders/other.order.toml:1:1") {
		t.Errorf("%+v", o)
	}
}

func TestBadOrders(t *testing.T) {
	const head = "[[order]]\nname = \"o\"\n"
	for text, want := range map[string]string{
		head + "exec = \"true\"\ngate = \"cooldwn\"\ninterval = \"1h\"\n":                     `:4:8: gate is "cooldwn", expected one of manual, cooldown, cron, condition, event; did you mean "cooldown"?`,
		head + "exec = \"true\"\nintervall = \"1h\"\n":                                        `:4:1: unknown key "intervall" in [[order]]; did you mean "interval"?`,
		head + "exec = \"true\"\ngate = \"cron\"\n":                                           `:4:8: the gate cron without schedule, expected it; write schedule, or another gate`,
		head + "exec = \"true\"\ninterval = \"0s\"\n":                                         `:4:12: interval is "0s", expected a duration above zero`,
		head + "exec = \"true\"\ninterval = \"-5m\"\n":                                        `negative`,
		head + "exec = \"true\"\ngate = \"cron\"\nschedule = \"@daily\"\ninterval = \"5m\"\n": `:6:1: interval without the gate cooldown`,
		head + "exec = \"true\"\nschedule = \"99 * * * *\"\n":                                 `:4:13: schedule is "99 * * * *": minute "99": 99 is not in 0-59`,
		head + "exec = \"true\"\nschedule = \"0 25 * * *\"\n":                                 `:4:15: schedule is "0 25 * * *": hour "25": 25 is not in 0-23`,
		head + "exec = \"true\"\nschedule = \"foo\"\n":                                        `:4:12: schedule is "foo": it has 1 fields, expected five`,
		head + "exec = \"true\"\nschedule = [\"@daily\", \"0 0 30 2 *\"]\n":                   `day of month "30": no month of "2" has such a day, it would never be due`,
		head + "exec = \"true\"\nschedule = \"@daily\"\ntimezone = \"CEST\"\n":                `:5:12: time zone "CEST" is not known: expected an IANA name`,
		head + "exec = \"true\"\ntimezone = \"UTC\"\n":                                        `:4:1: timezone without the gate cron`,
		head + "exec = \"true\"\non = \"[\"\n":                                                `:4:6: "[" is not a pattern of event types; write a type`,
		head + "exec = \"true\"\non = [\"order.*\", \"agent.crashd\"]\n":                      `:4:18: there is no event type "agent.crashd"; did you mean "agent.crashed"?`,
		head + "exec = \"true\"\non = \"agnet.*\"\n":                                          `:4:6: no event type matches "agnet.*"; did you mean "agent.*"?`,
		head + "exec = \"true\"\non = \"convoy.closed\"\n":                                    `:4:6: there is no event type "convoy.closed"; write a type such as`,
		head + "exec = \"true\"\ngate = \"manual\"\nretry_delay = \"1h\"\n":                   `:5:15: retry_delay is "1h", expected at most 5m0s`,
		head + "exec = \"true\"\non = []\n":                                                   `on is empty`,
		head + "exec = \"true\"\ncheck = \"\"\n":                                              `check is empty`,
		head + "exec = \"true\"\ncheck = \"/no/such\"\n":                                      `:4:9: the command "/no/such" of the order "o" cannot be run`,
		head + "exec = \"/no/such/program\"\n":                                                `cannot be run`,
		head + "exec = []\n":                                                                  `exec is empty`,
		head + "exec = \"true\"\ndir = \"nowhere\"\n":                                         `:4:7: the directory`,
		head:                                       `:1:3: the order "o" does nothing, expected one of exec and task; write exec or task`,
		head + "exec = \"true\"\ntask = \"x\"\n":   `has exec and a task, expected one of them`,
		head + "formula = \"y\"\ntask = \"x\"\n":   `:3:11: formula and task`,
		head + "exec = \"true\"\npool = \"x\"\n":   `:4:8: pool without a task`,
		head + "exec = \"true\"\nmatch = \"al\"\n": `:4:9: match is "al", expected one of any, all; did you mean "all"?`,
		head + "exec = \"true\"\nmatch = \"all\"\ngate = [\"manual\", \"cron\"]\nschedule = \"@daily\"\n": `manual is never open`,
		head + "exec = \"true\"\nmatch = \"all\"\nschedule = [\"@daily\", \"@weekly\"]\n":                 `two schedules and match is all`,
		head + "exec = \"true\"\noverlap = \"skp\"\n":                                                     `did you mean "skip"?`,
		head + "exec = \"true\"\nretries = 101\n":                                                         `from 0 to 100`,
		head + "exec = \"true\"\nretries = -1\n":                                                          `from 0 to 100`,
		head + "exec = \"true\"\ntimeout = 5\n":                                                           `number without a unit`,
		head + "exec = \"true\"\nenabled = \"no\"\n":                                                      `enabled is a string`,
		head + "exec = \"true\"\n" + head + "exec = \"true\"\n":                                           `there are two orders called "o", the other one in line 1 of`,
		"[[order]]\nexec = \"true\"\n":                                                                    `[[order]] without name`,
		"[[order]]\nname = \"a/b\"\nexec = \"true\"\n":                                                    `the name of an order is "a/b", expected letters`,
		head + "exec = \"true\"\n[orders]\nskip = [\"oo\", \"p\"]\n":                                      `there is no order "oo" to skip`,
		head + "exec = \"true\"\n[[orders.overrides]]\nname = \"p\"\n":                                    `there is no order "p" to override`,
		head + "exec = \"true\"\n[[orders.overrides]]\nenabled = true\n":                                  `[[orders.overrides]] without name`,
		head + "exec = \"true\"\n[[orders.overrides]]\nname = \"o\"\nschedule = \"61 * * * *\"\n":         `:6:13: schedule is "61 * * * *": minute "61"`,
		head + "exec = \"true\"\n[orders]\nmax_timout = \"5s\"\n":                                         `did you mean "max_timeout"?`,
		"[order]\nname = \"o\"\n":                                                                         `write [[order]]`,
	} {
		_, err := Load(projectOf(t, map[string]string{"coppice.toml": text + one}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}

func TestBadOrderFiles(t *testing.T) {
	for text, want := range map[string]string{
		"exec = \"true\"\nshedule = \"@daily\"\n":       `orders/o.toml:2:1: unknown key "shedule" in [[order]]; did you mean "schedule"?`,
		"[order]\nexec = \"true\"\n[other]\n":           `orders/o.toml:3:2: other next to [order], expected no other key`,
		"order = 5\n":                                   `expected a table`,
		"exec = \"true\"\nname = \"p\"\n":               `orders/o.toml:2:8: name is "p" in a file called "o", expected the same`,
		"exec = \"true\"\nschedule = \"0 0 * * FOO\"\n": `orders/o.toml:2:21: schedule is "0 0 * * FOO": day of week "FOO"`,
		"exec = ":         `orders/o.toml:1:`,
		"exec = \"\xff\"": `is not UTF-8`,
		"[order]\nformula = \"x\"\ngate = \"event\"\n": `the gate event without on`,
	} {
		_, err := Load(projectOf(t, map[string]string{"coppice.toml": one, "orders/o.toml": text}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
	_, err := Load(projectOf(t, map[string]string{"coppice.toml": one + "[[order]]\nname = \"o\"\nexec = \"true\"\n", "orders/o.toml": "exec = \"true\"\n"}))
	if err == nil || !strings.Contains(err.Error(), `there are two orders called "o"`) {
		t.Error(err)
	}
}

// A project may have only orders.
func TestOnlyOrders(t *testing.T) {
	all := ordersOf(t, map[string]string{"coppice.toml": "[[order]]\nname = \"o\"\nexec = \"true\"\n"})
	if len(all) != 1 {
		t.Error(all)
	}
}

// Files of orders are part of the revision. Their number is limited.
func TestManyOrderFiles(t *testing.T) {
	dir := configtest.Project(t, "-- coppice.toml --\n[project]\nname = \"t\"\n")
	t.Chdir(dir)
	for i := range fileset.MaxIncludes + 1 {
		configtest.Write(t, fmt.Sprintf("orders/o%d.toml", i), "exec = \"true\"\ngate = \"manual\"\n", 0o644)
	}
	loaded, err := LoadUnchecked("coppice.toml")
	if err != nil || len(loaded.Tree.Orders) != fileset.MaxIncludes+1 {
		t.Error(err)
	}
}

func TestOrderFilesAreWatched(t *testing.T) {
	path := projectOf(t, map[string]string{"coppice.toml": one, "orders/o.toml": "exec = \"true\"\n"})
	before, err := LoadAll(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(path), "orders")
	found := false
	for _, d := range before.WatchDirs {
		found = found || d == dir
	}
	if err := os.WriteFile(filepath.Join(dir, "o.toml"), []byte("exec = \"false\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	after, err := LoadAll(path)
	if err != nil || !found || after.Revision == before.Revision {
		t.Error(err, before.WatchDirs, after.Revision)
	}
}

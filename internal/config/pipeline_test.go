package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestPipeline(t *testing.T) {
	tree, err := Parse("/home/shop/coppice.toml", []byte(`
[[agent]]
name = "fixer"
command = "claude -p"
read_write_paths = ["cache"]

[agent.pipeline]
repository = "src"
branch = "main"
tasks = "coder"
protected = [".github"]
set_up = ["npm", "ci"]
ports = 2
plan = { command = "codex exec", tokens = "100k", skip_if = { labels = ["trivial"] } }
implement = { apply_edits = true }
test = { command = "make test", timeout = "10m", retries = 0 }
security = false

[[agent.pipeline.modes]]
mode = "evolution"
priorities = [0, 1]
`))
	if err != nil {
		t.Fatal(err)
	}
	a := tree.Root.Children[0].Agent
	none := pipeline.Stage{Timeout: pipeline.DefaultTimeout, Retries: pipeline.DefaultRetries}
	with := func(command ...string) pipeline.Stage {
		s := none
		s.Command = command
		return s
	}
	plan, test := with("codex", "exec"), with("make", "test")
	plan.Tokens, plan.SkipIf = 100_000, &pipeline.Rule{Labels: []string{"trivial"}}
	test.Timeout, test.Retries = 10*time.Minute, 0
	implement := with("claude", "-p")
	implement.ApplyEdits = true
	want := &pipeline.Settings{
		Repository: "/home/shop/src", Branch: "main", Tasks: "coder", Mode: "maintenance",
		Modes:     []pipeline.Rule{{Mode: "evolution", Priorities: []int{0, 1}}},
		Protected: []string{".github"}, SetUp: []string{"npm", "ci"}, Ports: 2, FixAttempts: pipeline.DefaultFixAttempts,
		Writable: []string{"/home/shop/cache"},
		Stages:   []pipeline.Stage{plan, implement, test, none, none, none},
	}
	unexported := cmpopts.IgnoreUnexported(pipeline.Settings{}, pipeline.Stage{}, pipeline.Rule{})
	if d := cmp.Diff(want, a.Pipeline, unexported); d != "" {
		t.Errorf("%s", d)
	}
	// The limits are those of its stages. It ends after each attempt, which is no failure.
	if a.ReadWritePaths != nil || a.Limit.Count != supervisor.CountFailures || !a.Notify ||
		a.CommandLine() != agentcli.Claude {
		t.Errorf("%+v", a)
	}
}

// An empty list of paths is a limit, also when a worker has got it from its daemon. Without a list there is none.
func TestPipelineWritesNowhereElse(t *testing.T) {
	for text, limited := range map[string]bool{"read_write_paths = []": true, "": false} {
		tree, err := Parse("/p/coppice.toml", []byte("[[agent]]\nname = \"a\"\ncommand = \"x\"\n"+text+
			"\n[agent.pipeline]\ntest = \"t\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		sent, err := json.Marshal(tree.Root.Children[0].Agent.Pipeline)
		var got pipeline.Settings
		if err = errors.Join(err, json.Unmarshal(sent, &got)); err != nil || (got.Writable != nil) != limited {
			t.Errorf("%q: %s, %v", text, sent, err)
		}
	}
}

func TestPipelinePullRequest(t *testing.T) {
	for text, want := range map[string]*pipeline.PullRequest{
		"":                     nil,
		"pull_request = false": nil,
		"pull_request = true":  {Remote: "origin"},
		"pull_request = { remote = \"up\", draft = true }": {Remote: "up", Draft: true},
		"[agent.pipeline.pull_request]\ndraft = true\n":    {Remote: "origin", Draft: true},
	} {
		tree, err := Parse("/p/coppice.toml", []byte("[[agent]]\nname = \"a\"\ncommand = \"x\"\n[agent.pipeline]\n"+
			"test = \"t\"\n"+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := tree.Root.Children[0].Agent.Pipeline.PullRequest
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(pipeline.PullRequest{})); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

func TestPipelineErrors(t *testing.T) {
	const base = "[[agent]]\nname = \"a\"\ncommand = \"x\"\n"
	for text, want := range map[string]string{
		"[agent.pipeline]\n":                                                                   "[agent.pipeline] without test, expected one (string,",
		"[agent.pipeline]\ntest = \"t\"\nports = 101\n":                                        "ports is 101",
		"[agent.pipeline]\ntest = true\n":                                                      "test is a boolean",
		"[agent.pipeline]\ntest = \"t\"\nimplement = false\n":                                  "implement is a boolean",
		"[agent.pipeline]\ntest = \"t\"\nprotected = [\"!x\"]\n":                               "protected: ",
		"[agent.pipeline]\ntest = \"t\"\ntasks = \"\"\n":                                       "tasks is empty, expected the name of a pool",
		"[agent.pipeline]\ntest = \"t\"\ntasks = \"a/b\"\n":                                    "tasks: the name \"a/b\" contains \"/\"",
		"[agent.pipeline]\ntest = \"t\"\npull_request = \"yes\"\n":                             "pull_request is a string, expected true or false",
		"[agent.pipeline]\ntest = \"t\"\npull_request = {}\nrelease = \"r\"\n":                 "release with pull_request",
		"[agent.pipeline]\ntest = \"t\"\npull_request = true\narchive = \"r\"\n":               "archive with pull_request",
		"[agent.pipeline]\ntest = \"t\"\nmode = \"wild\"\n":                                    "mode is \"wild\"",
		"[agent.pipeline]\ntest = \"t\"\nrelease = { command = \"r\", skip_if = {} }":          "skip_if of release, which is never skipped",
		"[agent.pipeline]\ntest = { command = \"t\", apply_edits = true }":                     "apply_edits of test, expected it for implement only",
		"[agent.pipeline]\ntest = \"t\"\n[[agent.pipeline.modes]]\nlabels = [\"x\"]":           "a rule without mode",
		"[agent.pipeline]\ntest = \"t\"\nmodes = [{ mode = \"evolution\", priorities = [9] }]": "expected a priority from 0 to 4",
		"terminal = true\n[agent.pipeline]\ntest = \"t\"\n":                                    "terminal with [agent.pipeline]",
		"[agent.pipeline]\ntest = { command = \"t\", skip_if = { paths = [\"!x\"] } }\n":       "paths: ",
	} {
		_, err := Parse("/p/coppice.toml", []byte(base+text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "coppice.toml:") {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	text := "[supervision]\nstrategy = \"one_for_all\"\n" + base + "[agent.pipeline]\ntest = \"t\"\n"
	if _, err := Parse("/p/coppice.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), "an agent with a pipeline in a supervisor") {
		t.Errorf("%v", err)
	}
}

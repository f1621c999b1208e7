package clitest

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cli"
	"github.com/coppice-dev/coppice/internal/fakemodel"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

var long = flag.Bool("clis.long", false, "run every scenario, also those that take minutes")

// TestMain makes the test binary coppice when it is called with a command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(server.Main(os.Args[2:]))
		case runner.Arg:
			os.Exit(runner.Main(os.Args[2:]))
		case pane.Arg:
			os.Exit(pane.Main(os.Args[2:]))
		}
		if !strings.HasPrefix(os.Args[1], "-") {
			os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		}
	}
	goleak.VerifyTestMain(m)
}

// quotaLasts is how long the limit of the scenario quota lasts.
const quotaLasts = 2 * time.Hour

// A check holds a run against what is expected of it.
type check struct {
	scenario
	kind  Kind
	model *model
	home  *Home
	since int // the requests before the last run
	last  *Run
}

// Real command lines end as the server has them end, and their tokens are those of its ledger.
func TestCommandLines(t *testing.T) {
	set := Installed(t, "../../../.cache/clis")
	var all []*check
	for _, s := range scenarios() {
		for _, k := range Kinds() {
			if possible(k, s.name) && (*long || short(k, s.name)) {
				all = append(all, &check{scenario: s, kind: k})
			}
		}
	}
	// Those that take longest begin first.
	slices.SortStableFunc(all, func(a, b *check) int { return minutes(b.kind, b.name) - minutes(a.kind, a.name) })
	for _, c := range all {
		t.Run(c.title(), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c.model = newModel(t)
			c.home = NewHome(t, set, c.kind, c.model.listener.URL("@", tag))
			c.model.answers(t, cmp.Or(c.answers, c.name))
			if c.run == nil {
				c.run = completed
			}
			end := c.run(t, c)
			c.model.listener.Close() // waits for the requests in progress
			c.holds(t, end)
			if t.Failed() {
				t.Log(c.last)
			}
			t.Logf("took %v", time.Since(began).Round(100*time.Millisecond))
		})
	}
}

func (c *check) title() string { return string(c.kind) + "/" + c.name }

// holds checks how a run has ended.
func (c *check) holds(t *testing.T, end agentcli.End) {
	t.Helper()
	r := end.Record()
	is, other := endings()[c.title()]
	if !other {
		is = c.is
	}
	if r.Obstacle != is || r.Kind != kindOf(is) || (is != "") != (r.Reason != "") || r.Rule == "" {
		t.Errorf("%s, %s: %q (%s); expected %s, %s", r.Kind, r.Obstacle, r.Reason, r.Rule, kindOf(is), is)
	}
	if is == outcome.UsageLimit {
		c.holdsReset(t, r)
	}
	c.holdsTokens(t, r, differences()[c.title()])
	if c.kind == Opencode { // its database has what its output has, and subagents
		alone := agentcli.End{CLI: end.CLI, Session: end.Session}.Counts()
		c.holdsTokens(t, alone, differences()[c.title()])
		if len(end.Session.Unknown) > 0 {
			t.Errorf("rows of unknown kinds: %v", end.Session.Unknown)
		}
	}
	if len(r.Unknown) > 0 {
		t.Errorf("objects of unknown kinds: %v", r.Unknown)
	}
	if a := c.kind.Account(); r.Account != "" && r.Account != a {
		t.Errorf("account %q, expected %q", r.Account, a)
	}
}

// holdsTokens checks that the tokens are those which the server has served.
func (c *check) holdsTokens(t *testing.T, r agentcli.Record, d uncounted) {
	t.Helper()
	if err := c.model.compare(c.kind, c.since, r.Tokens, d); err != nil {
		t.Errorf("from %q: %v", r.UsageFrom, err)
	}
}

// holdsReset checks when a limit ends, and where that is reported.
func (c *check) holdsReset(t *testing.T, r agentcli.Record) {
	t.Helper()
	from := resetFrom(c.kind, c.name)
	if r.ResetFrom != from || r.Reset.IsZero() != (from == "") {
		t.Errorf("the limit ends at %v (%s), expected it from %q", r.Reset, r.ResetFrom, from)
	}
	early, late := c.last.began.Add(quotaLasts-time.Second), time.Now().Add(quotaLasts)
	if from == agentcli.FromMessage {
		late = late.Add(time.Minute) // messages have no seconds
	}
	if !r.Reset.IsZero() && (r.Reset.Before(early) || r.Reset.After(late)) {
		t.Errorf("the limit ends at %v, expected it between %v and %v", r.Reset, early, late)
	}
}

// holdsAnswer checks what only a run reports that goes well.
func (c *check) holdsAnswer(t *testing.T, end agentcli.End) {
	t.Helper()
	r := end.Record()
	if r.Account != c.kind.Account() || r.Session == "" || !end.Output.Ended || end.Output.Text != fakemodel.Answer {
		t.Errorf("account %q, session %q, ended: %v, answer %q", r.Account, r.Session, end.Output.Ended, end.Output.Text)
	}
	if cli := c.kind.CLI(); r.Version != "" && agentcli.Age(cli, r.Version) != 0 {
		t.Errorf("version %s of %s was not measured", r.Version, cli)
	}
}

// What tools/clis installs is what was measured.
func TestVersions(t *testing.T) {
	text, err := os.ReadFile("../../../tools/clis/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var asked struct {
		Needed   map[string]string `json:"dependencies"`
		Platform map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		t.Fatal(err)
	}
	for cli, version := range map[agentcli.CLI]string{
		agentcli.Claude: asked.Platform["@anthropic-ai/claude-code-linux-x64"], agentcli.Codex: asked.Needed["@openai/codex"],
		agentcli.Gemini:   asked.Needed["@google/gemini-cli"],
		agentcli.Opencode: asked.Platform["opencode-linux-x64-baseline"], agentcli.Copilot: asked.Needed["@github/copilot"],
	} {
		if measured := agentcli.Measured(cli); measured[len(measured)-1] != version {
			t.Errorf("%s %s is installed, the newest that was measured is %v", cli, version, measured)
		}
	}
}

// kindOf returns the outcome that follows from an obstacle.
func kindOf(o outcome.ObstacleKind) outcome.Kind {
	switch o {
	case "":
		return outcome.Completed
	case outcome.UsageLimit, outcome.OtherObstacle:
		return outcome.Deferred
	case outcome.Authentication, outcome.PermissionDenied:
		return outcome.Blocked
	case outcome.Billing, outcome.Refused:
		return outcome.Escalated
	}
	return outcome.Retryable
}

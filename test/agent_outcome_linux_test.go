package test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/status"
)

// environ returns the environment of an incarnation of an agent that saves its token.
func (f *fleet) environ(name string, incarnation int) []string {
	f.t.Helper()
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return append(os.Environ(), "COPPICE_SOCKET="+socket, "COPPICE_TOKEN="+f.token(name, incarnation))
}

// runAs runs a command in the environment of an incarnation.
func (f *fleet) runAs(environ []string, stdin string, args ...string) (string, int) {
	f.t.Helper()
	cmd := exec.Command("coppice", append([]string{"agent"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = f.dir, environ, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The outcome that an agent claims is stored and shown, and has no other effect.
func TestAgentOutcome(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	env := f.environ("a", 1)
	before := f.node("t/a")
	claim := func(args ...string) {
		t.Helper()
		if out, code := f.runAs(env, "", append([]string{"outcome"}, args...)...); code != 0 || out != "" {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
	claim("completed", "--summary", "all done")
	claim("blocked", "--approach", "regenerated the client", "--obstacle", `{"kind":"missing_prerequisite","task_id":"T12","reason":"the schema"}`,
		"--until", "task=T12", "--discovery", "client.go is generated", "--discovery", "nothing \x1b[2J tests it", "--recommendation", "wait", "--explored", "client.go", "--dependency", "protoc", "--notes", "n")
	f.crash()
	f.do("up", "-d")
	var x status.Explanation
	if err := json.Unmarshal([]byte(f.do("explain", "a", "--json")), &x); err != nil {
		t.Fatal(err)
	}
	if len(x.Claims) != 1 || x.Claims[0].Incarnation != 1 || x.Claims[0].Revisions != 1 {
		t.Fatalf("claims %+v", x.Claims)
	}
	o, err := outcome.New(x.Claims[0].Report)
	if err != nil || o.Kind() != outcome.Blocked || o.Report().Context.Discoveries[0] != "client.go is generated" || o.Report().Context.Explored.Dependencies[0] != "protoc" {
		t.Errorf("%+v, %v", o.Report(), err)
	}
	f.do("restart", "a")
	next := f.environ("a", 2)
	if out, code := f.runAs(env, "", "outcome", "completed"); code != exitAuth || !strings.Contains(out, "incarnation 1 of t/a") {
		t.Errorf("a stale token: %d, %s", code, out)
	}
	if out, code := f.runAs(next, `{"kind":"completed","summary":"at \u001b[31mlast"}`, "outcome", "--json", "-"); code != 0 {
		t.Errorf("--json: %d, %s", code, out)
	}
	shown := f.do("explain", "a")
	if !strings.Contains(shown, "claims completed: at last (incarnation 2, ") || !strings.Contains(shown, "       blocked: missing prerequisite: needs T12 first: the schema (incarnation 1, ") || !strings.Contains(shown, ", revised)") {
		t.Errorf("explain:\n%s", shown)
	}
	if n := f.node("t/a"); n.Incarnation != 2 || n.State != "running" || before.Restarts != 0 || n.Restarts != 0 {
		t.Errorf("before: %+v, after: %+v", before, n)
	}
	if events := f.do("events", "--type", "agent.claimed"); strings.Count(events, "agent.claimed") != 3 || strings.Contains(events, "\x1b") {
		t.Errorf("events:\n%s", events)
	}
}

func TestAgentOutcomeRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, args, stdin, want string }{
		{"no kind", "outcome", "", "which outcome? One of [completed deferred"},
		{"unknown", "outcome blocekd", "", `did you mean "blocked"?`},
		{"missing", "outcome blocked --obstacle x", "", "missing --approach, --until"},
		{"missing of the obstacle", `outcome retryable --approach a --obstacle {"kind":"external_dependency"}`, "", "missing context.obstacle.service"},
		{"obstacle is no JSON", `outcome retryable --approach a --obstacle {x`, "", "--obstacle: 1:2: invalid character 'x'"},
		{"until", "outcome blocked --approach a --obstacle b --until tomorrow", "",
			`--until is "tomorrow", expected task=ID, time=WHEN, service=NAME, event=TYPE or person=`},
		{"not-before", "outcome deferred --approach a --obstacle b --not-before tomorrow", "", `--not-before: not_before is "tomorrow", expected a duration such as 30m`},
		{"subtask", "outcome decomposed --approach a --obstacle b --subtask everything", "", `--subtask is "everything", expected "ID: OBJECTIVE"`},
		{"json and more", "outcome completed --json -", "{}", "--json cannot be combined"},
		{"json is none", "outcome --json -", "{\n 'kind'", "outcome: 2:2: invalid character"},
		{"json without end", "outcome --json -", strings.Repeat("[", outcome.MaxBytes+1), "- has more than 65536 bytes"},
		{"no such file", "outcome --json nowhere.json", "", "nowhere.json: no such file"},
		{"outside of an agent", "outcome completed", "", "not in an agent of coppice: COPPICE_SOCKET and COPPICE_TOKEN are not set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fleet{t: t, dir: t.TempDir()}
			env := []string{"PATH=" + os.Getenv("PATH")}
			out, code := f.runAs(env, test.stdin, strings.Fields(test.args)...)
			if code != exitUsage || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d: %s\nwant %s", code, out, test.want)
			}
		})
	}
}

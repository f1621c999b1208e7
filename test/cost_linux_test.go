package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/exectest"
)

// costs returns what the ledger has.
func (f *fleet) costs(args ...string) (r cost.Report) {
	f.t.Helper()
	out := f.do(append([]string{"cost", "--json"}, args...)...)
	if i := strings.Index(out, "{"); i > 0 {
		out = out[i:] // after the note that no daemon runs
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	return r
}

// wantCosts checks calls, those whose tokens are not known, and tokens.
func (f *fleet) wantCosts(calls, unknown, tokens int64) {
	f.t.Helper()
	r := f.costs()
	got := int64(0)
	if r.Total.Tokens != nil {
		got = *r.Total.Tokens
	}
	if r.Total.Calls != calls || r.Total.UnknownTokens != unknown || got != tokens {
		f.t.Fatalf("%d calls, %d unknown, %d tokens; expected %d, %d, %d (%+v)", r.Total.Calls, r.Total.UnknownTokens,
			got, calls, unknown, tokens, r)
	}
}

// claudeUses prints what claude reports of a session that has used so much input, and 10 tokens of another model.
func claudeUses(session, input string) string {
	result := claudeResult("%s", `"opus":{"inputTokens":%s,"cacheReadInputTokens":7,"costUSD":0.25},`+
		`"haiku":{"outputTokens":10,"costUSD":0.25}`)
	return "printf '" + result + `\n' ` + session + " " + input
}

// always has an agent be started again at once.
const always = "restart = \"always\"\nbackoff = \"none\"\n"

// claudeResult is the result that claude reports, with what it has used of each model.
func claudeResult(session, models string) string {
	return `{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"` + session +
		`","modelUsage":{` + models + `}}`
}

// newClaudeAidefile is a project with an agent a whose Aidefile calls a program named claude.
func newClaudeAidefile(t *testing.T, aidefile, script string) *aidefileFleet {
	t.Helper()
	a := newAidefileFleet(t, aidefile, "")
	exectest.Write(t, filepath.Join(a.dir, "claude"), "#!/bin/sh\n"+recordRun+script)
	toml, err := os.ReadFile(filepath.Join(a.dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(toml), "''']")
	write(t, filepath.Join(a.dir, "coppice.toml"),
		fmt.Sprintf("[project]\nname = \"t\"\n[aide]\ncommand = [%q]\n%s", filepath.Join(a.dir, "claude"), rest))
	return a
}

// The calls of runs are counted once each, however the daemon is killed while one ends. A session that is resumed
// reports the sum of its runs, and counts what is beyond the last one.
func TestCostSurvivesKills(t *testing.T) {
	t.Parallel()
	a := newClaudeAidefile(t, noRetry, `n=$(wc -l <runs)
until test -e go$n; do sleep 0.01; done
`+claudeUses("$((n / 2))", "$((n % 2 * 100 + 100))"))
	a.up()
	tokens := int64(0)
	for n := 1; n <= 10; n++ {
		a.do("fire", "a", "do this")
		eventually(t, "a run", func() bool { return len(a.runs()) == n })
		a.touch(fmt.Sprint("go", n))
		// 4 runs of 10 use 100 in a session that has used 0, and as many 100 more in it.
		if tokens += 100; n%2 == 0 || n == 1 {
			tokens += 10
		}
		if n == 1 {
			tokens += 100
		}
		time.Sleep(time.Duration(n-1) * 4 * time.Millisecond) // the kill comes before, while and after the run ends
		a.crash()
		if n%3 == 0 { // without a daemon it is what was counted before
			if r := a.costs(); r.Total.Calls < int64(n-1) || r.Total.Calls > int64(n) {
				t.Errorf("without a daemon: %+v", r)
			}
		}
		a.up()
		a.awaitState("t/a", "stopped")
		a.wantCosts(int64(n), 0, tokens)
	}
	a.do("down")
	a.wantCosts(10, 0, tokens)
	for by, expected := range map[string]string{
		"agent": "t/a", "account": "claude", "model": "opus haiku", "task": "", "pool": "",
	} {
		var names []string
		for _, row := range a.costs("--by", by).Rows {
			names = append(names, row.Name)
		}
		if got := strings.Join(names, " "); got != expected {
			t.Errorf("by %s: %q, expected %q", by, got, expected)
		}
	}
	r := a.costs("--by", "model")
	if haiku := r.Rows[1]; haiku.Calls != 6 || *haiku.Output != 60 || *haiku.Dollars == 0 || r.Total.Calls != 10 {
		t.Errorf("%+v", r)
	}
	if r := a.costs("--since", "2000-01-01", "--until", "2000-12-31"); len(r.Rows) != 0 || r.Rows == nil {
		t.Errorf("%+v", r)
	}
	for args, expected := range map[string]string{
		"cost --by models":           "by is \"models\", expected agent, account, task, pool, model or day",
		"cost --since yesterday":     "since is \"yesterday\", expected how long ago, such as 24h",
		"cost --since 1d --until 2d": "after until, which is",
	} {
		if out, err := a.try(strings.Fields(args)...); err == nil || !strings.Contains(out, expected) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}

// A run that is killed counts what is known of it, and the request of the next one has what its chain has used.
func TestCostOfChain(t *testing.T) {
	t.Parallel()
	a := newClaudeAidefile(t, onceMore, `n=$(wc -l <runs)
`+claudeUses("s", "$((n * 100))")+`
test -e ok
`)
	a.up()
	request := func() (q struct {
		Spent    int64
		Sessions map[string]map[string]struct{ Input int64 }
	}) {
		files, err := filepath.Glob(filepath.Join(a.dir, ".coppice", "aide", "*", "order.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		data, err := os.ReadFile(files[0])
		if err == nil {
			err = json.Unmarshal(data, &q)
		}
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	a.do("fire", "a", "do this")
	a.awaitState("t/a", "given_up")
	a.wantRuns(3)
	a.wantCosts(3, 0, 310)
	q := request()
	if q.Spent != 210 || len(q.Sessions) != 1 {
		t.Fatalf("the third run: %+v", q)
	}
	if q.Sessions["s"]["opus"].Input != 200 {
		t.Errorf("the third run: %+v", q)
	}
	a.touch("ok")
	a.do("start", "a") // a chain of its own
	a.awaitState("t/a", "stopped")
	if q := request(); q.Spent != 0 || q.Sessions["s"]["opus"].Input != 300 {
		t.Errorf("the run of another chain: %+v", q)
	}
	a.wantCosts(4, 0, 410)
}

// An agent that runs a command line counts once for each incarnation, also when it was stopped or killed, and what it
// does not report is unknown.
func TestCostOfCommandLine(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 0)
	program := filepath.Join(c.dir, "claude")
	exectest.Write(t, program, `#!/bin/sh
if test "$1" = silent; then exec sleep 1000; fi
usage='"usage":{"input_tokens":5,"output_tokens":2}'
echo '{"type":"assistant","session_id":"s","message":{"id":"m'$COPPICE_INCARNATION'","model":"opus",'$usage'}}'
exec sleep 1000
`)
	var toml strings.Builder
	for _, name := range []string{"loud", "silent"} {
		fmt.Fprintf(&toml, "[[agent]]\nname = %[2]q\ncommand = [%[1]q, %[2]q]\n%[3]s", program, name, always)
	}
	projectIn(t, c.dir, toml.String())
	c.up()
	eventually(t, "what they have used so far", func() bool {
		r := c.costs().Total
		return r.Calls == 2 && r.UnknownTokens == 1 && *r.Tokens == 7
	})
	if out := c.do("cost"); !strings.HasSuffix(out, "\n2 calls in progress; the sums have what is used so far\n") {
		t.Error(out)
	}
	c.do("stop", "loud")
	c.wantCosts(2, 1, 7)
	c.do("stop", "silent")
	c.wantCosts(2, 1, 7)
	if r := c.costs().Total; r.Running != 0 {
		t.Errorf("%+v", r)
	}
	c.crash()
	c.up()
	c.wantCosts(2, 1, 7)
	c.do("start", "loud")
	eventually(t, "output", func() bool { return strings.Count(c.do("logs", "loud", "-n", "5"), "assistant") == 2 })
	pid := c.node("t/loud").PID
	c.crash()
	for _, p := range processesIn(t, c.dir) {
		if p.pid == pid {
			p.kill()
			p.awaitEnd(t)
		}
	}
	c.up()
	eventually(t, "another call, and one in progress", func() bool {
		r := c.costs().Total
		return r.Calls == 4 && r.Running == 1 && *r.Tokens == 21
	})
	out := c.do("cost")
	for _, part := range []string{"AGENT", "t/loud", "t/silent", "unknown", ">= 21 (1 of 4 unknown)", "total since "} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	c.do("up", "-d") // it runs
	c.do("down")
	if r := c.costs(); r.Total.Calls != 4 {
		t.Errorf("after down: %+v", r)
	}
}

// A call is for the task that its incarnation has claimed, also if it has closed it, and for the pool of its agent.
func TestCostOfTask(t *testing.T) {
	t.Parallel()
	c := newClaudeFleet(t, 0)
	program := filepath.Join(c.dir, "claude")
	exectest.Write(t, program, `#!/bin/sh
id=$(coppice agent task claim -q) || { echo x >>idle; exec sleep 1000; }
test -z "$id" || coppice agent task close "$id"
`+claudeUses("$id", "1")+`
`)
	projectIn(t, c.dir,
		fmt.Sprintf("[[agent]]\nname = \"w\"\ncommand = [%q]\n%s[agent.pool]\nmin = 1\nmax = 1\n", program, always))
	c.up()
	var ids []string
	for n, title := range []string{"one", "two"} {
		eventually(t, "that no other incarnation can claim it", func() bool {
			data, _ := os.ReadFile(filepath.Join(c.dir, "idle"))
			return strings.Count(string(data), "x") == n+1
		})
		ids = append(ids, strings.TrimSpace(c.do("task", "add", title, "--pool", "w")))
		c.do("restart", "t/w/w-1")
		eventually(t, "the call", func() bool {
			r := c.costs("--by", "task")
			return len(r.Rows) > 0 && r.Total.Calls-r.Total.UnknownTokens == int64(len(ids))
		})
	}
	c.do("down")
	known := map[string]bool{}
	for _, row := range c.costs("--by", "task").Rows {
		if row.Tokens != nil {
			known[row.Name] = row.Calls == 1 && *row.Tokens == 11
		}
	}
	if len(known) != 2 || !known[ids[0]] || !known[ids[1]] {
		t.Errorf("%v, tasks %q", known, ids)
	}
	if rows := c.costs("--by", "pool").Rows; len(rows) != 1 || rows[0].Name != "w" {
		t.Errorf("%+v", rows)
	}
}

// The examples in docs/cost.md work.
func TestCostDoc(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "cost.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	dir := project(t)
	write(t, filepath.Join(dir, "coppice.toml"), block(t, text, "toml"))
	exectest.Write(t, filepath.Join(dir, "claude"), `#!/bin/sh
echo '`+claudeResult("s", `"opus":{"inputTokens":310,"outputTokens":892,"cacheReadInputTokens":41200,`+
		`"cacheCreationInputTokens":6100,"costUSD":0.21}`)+"'\n")
	exectest.Write(t, filepath.Join(dir, "copilot"), "#!/bin/sh\necho '{\"type\":\"result\",\"exitCode\":0}'\n")
	f := fleetOf(t, dir)
	f.up()
	eventually(t, "two calls", func() bool { return f.costs().Total.Calls == 2 })
	_, shown, _ := strings.Cut(text, "$ coppice cost\n")
	shown, _, _ = strings.Cut(shown, "```")
	if out := f.do("cost"); out != strings.ReplaceAll(shown, "2026-11-28", time.Now().Format(time.DateOnly)) {
		t.Errorf("it is\n%s\nthe page shows\n%s", out, shown)
	}
	calls := 0
	for line := range strings.Lines(block(t, text, "sh")) {
		calls++
		f.do(strings.Fields(line)[1:]...)
	}
	if calls != 3 {
		t.Errorf("%d commands", calls)
	}
	for _, by := range cost.Groups() {
		if !strings.Contains(text, fmt.Sprintf("| `%s` |", by)) {
			t.Errorf("--by %s is not in the page", by)
		}
	}
}

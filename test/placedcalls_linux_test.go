package test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// Command lines of language models run on another node than the controller.
func TestPlacedCalls(t *testing.T) {
	inFleets(t, etcdtest.Options{Members: 1}, map[string]func(*testing.T, *etcdtest.Cluster){
		"session files": testPlacedSession,
		"lost":          testPlacedSessionLost,
		"exports":       testPlacedExports,
	})
}

// placedCodex is a codex that keeps a file of its session in the directory of the project. It calls the model for each
// file use.N, meets a limit when there is a file limit, and ends with a file end.
const placedCodex = `#!/bin/sh
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
line() { echo '{"timestamp":"'$(now)'","type":"'$1'","payload":'"$2"'}' >>$file; }
dir=$CODEX_HOME/sessions/$(date -u +%Y/%m/%d); mkdir -p $dir
id=01a2200f-2b0d-7290-a8af-$(printf %012d $$); file=$dir/rollout-2026-11-28T00-00-00-$id.jsonl
line session_meta '{"id":"'$id'","session_id":"'$id'","timestamp":"'$(now)'","cwd":"'$PWD'"}'
i=0
while ! test -e end; do
	if test -e use.$i; then
		line token_usage_record '{"response_id":"r'$i'","usage":{"output_tokens":7}}'
		i=$((i + 1))
	fi
	if test -e limit; then
		rm limit
		line event_msg '{"type":"token_count","rate_limits":{"limit_id":"codex","primary":{"used_percent":100.0,"window_minutes":300,"resets_at":'$(($(date +%s) + 3600))'}}}'
		line event_msg '{"type":"task_complete","error":{"message":"no more","codex_error_info":"usage_limit_exceeded"}}'
	fi
	sleep 0.02
done
rm end
exit 1
`

// placedAgent returns an agent that runs a program of the project on the second node.
func placedAgent(name, program string, keys ...string) string {
	return fmt.Sprintf("[[agent]]\nname = %q\ncommand = [%q]\nnode = \"n2\"\n%s\n", name, "./"+program,
		strings.Join(keys, "\n"))
}

// startPlaced starts a fleet with programs on all machines. toml returns what else a machine has in its file.
func startPlaced(
	t *testing.T, c *etcdtest.Cluster, n int, programs map[string]string, toml func(*machine) string,
) *machines {
	t.Helper()
	m := newMachines(t, c, n)
	for _, one := range m.all {
		one.rewrite(m.toml, toml(one))
		for name, text := range programs {
			exectest.Write(t, filepath.Join(one.dir, name), text)
		}
	}
	m.startWith("zone=eu")
	return m
}

// awaitTokens waits until the ledger has calls, of which some go on, and tokens.
func (n *machine) awaitTokens(calls, running, tokens int64) {
	n.t.Helper()
	await(n.t, moved, func() string {
		out, err := n.answers("cost", "--json")
		if err != nil {
			return fmt.Sprintf("%v: %s", err, out)
		}
		r := n.costs().Total
		if r.Calls == calls && r.Running == running && r.Tokens != nil && *r.Tokens == tokens {
			return ""
		}
		return fmt.Sprintf("the ledger has %s; want %d calls, %d of them running, %d tokens", out, calls, running,
			tokens)
	})
}

// What a command line on another node has used is known while it runs, from the file of its session there, under
// whichever controller, and is counted once. A limit that it meets closes its quota, and it waits.
func testPlacedSession(t *testing.T, c *etcdtest.Cluster) {
	m := startPlaced(t, c, 3, map[string]string{"codex": placedCodex}, func(*machine) string {
		return placedAgent("spender", "codex", "terminal = true", `restart = "on-failure"`,
			`env = { CODEX_HOME = "sessions" }`)
	})
	first, second := m.all[0], m.all[1]
	began := first.awaitState("t/spender", "running")
	use := func(n int) { write(t, filepath.Join(second.dir, fmt.Sprint("use.", n)), "") }
	use(0)
	for _, n := range m.all {
		n.awaitTokens(1, 1, 7)
	}
	if n := first.node("t/spender"); n.Host != "n2" {
		t.Errorf("it is not on node n2: %+v", n)
	}
	use(1)
	first.awaitTokens(1, 1, 14)

	first.daemon().kill() // and a new one resumes its leases
	first.do("up", "-d")
	m.awaitReady(first)
	use(2)
	first.awaitTokens(1, 1, 21)

	first.signal(first.daemon(), unix.SIGTERM)
	on := m.awaitOn(m.except(first)...)
	first.do("up", "-d")
	m.awaitReady(on)
	if n := on.node("t/spender"); n.Incarnation != began.Incarnation || n.State != "running" {
		t.Errorf("it was started again: %+v", n)
	}
	use(3)
	on.awaitTokens(1, 1, 28)
	on.do("stop", "spender")
	on.awaitTokens(1, 0, 28)

	on.do("start", "spender")
	on.awaitTokens(2, 1, 56) // all of its calls again
	write(t, filepath.Join(second.dir, "limit"), "")
	quotas := func() (all []quota.Info) {
		if err := json.Unmarshal([]byte(on.do("quota", "ls", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	await(t, moved, func() string {
		if all := quotas(); len(all) != 1 || all[0].State != quota.Parked || all[0].Agent != "t/spender" {
			return fmt.Sprintf("%+v", all)
		}
		return ""
	})
	write(t, filepath.Join(second.dir, "end"), "")
	if n := on.awaitState("t/spender", "waiting"); n.Restarts != 0 {
		t.Errorf("%+v", n)
	}
	on.awaitTokens(2, 0, 56)
	on.do("down")
	m.checkDown()
}

// What a command line has used whose node is lost is counted as far as it was known.
func testPlacedSessionLost(t *testing.T, c *etcdtest.Cluster) {
	m := startPlaced(t, c, 2, map[string]string{"codex": placedCodex}, func(*machine) string {
		return placedAgent("screen", "codex", "terminal = true", `restart = "temporary"`, `env = { CODEX_HOME = "screen" }`) +
			placedAgent("pipes", "codex", `restart = "temporary"`, `env = { CODEX_HOME = "pipes" }`)
	})
	first, second := m.all[0], m.all[1]
	first.awaitState("t/screen", "running")
	first.awaitState("t/pipes", "running")
	write(t, filepath.Join(second.dir, "use.0"), "")
	first.awaitTokens(2, 2, 14)
	second.kill()
	first.awaitTokens(2, 0, 14)
	first.do("down")
	m.checkDown()
}

// A command line on another node exports to that node, which passes it on to the controller, whichever that is.
func testPlacedExports(t *testing.T, c *etcdtest.Cluster) {
	addresses := map[string]string{}
	m := startPlaced(t, c, 2, map[string]string{"claude": `#!/bin/sh
env >new.env && mv new.env env
exec sleep 100000
`}, func(n *machine) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses[n.name] = l.Addr().String()
		return fmt.Sprintf("[otlp]\nlisten = %q\n", addresses[n.name]) +
			placedAgent("exporter", "claude", "terminal = true", `restart = "never"`)
	})
	first, second := m.all[0], m.all[1]
	first.awaitState("t/exporter", "running")
	vars := map[string]string{}
	for line := range strings.Lines(second.awaitFile("env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[name] = value
	}
	if got, want := vars["OTEL_EXPORTER_OTLP_ENDPOINT"], "http://"+addresses["n2"]; got != want {
		t.Fatalf("it exports to %q, want %q", got, want)
	}
	_, header, _ := strings.Cut(vars["OTEL_EXPORTER_OTLP_HEADERS"], "=")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	export := func(address, header, id string) int {
		t.Helper()
		body := strings.NewReader(fmt.Sprintf(exportedCall, id))
		q, err := http.NewRequest(http.MethodPost, "http://"+address+"/v1/logs", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", header)
		q.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for id, address := range addresses { // also to the controller itself
		if status := export(address, header, id); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if status := export(addresses["n2"], "Bearer nonsense", "x"); status != http.StatusUnauthorized {
		t.Errorf("status %d without a token", status)
	}
	first.awaitTokens(1, 1, 200)

	first.signal(first.daemon(), unix.SIGTERM)
	m.awaitOn(second) // which is the controller now
	await(t, moved, func() string {
		if status := export(addresses["n2"], header, "later"); status != http.StatusOK {
			return fmt.Sprint("status ", status)
		}
		return ""
	})
	second.do("stop", "exporter")
	second.awaitTokens(1, 0, 100) // of the new controller: what is exported is told once
	second.do("down")
	m.checkDown()
}

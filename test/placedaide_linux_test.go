package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// Agents with an Aidefile run on another node than the controller.
func TestPlacedAidefile(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	for name, test := range map[string]func(*testing.T, *etcdtest.Cluster){
		"runs":    testPlacedRuns,
		"lost":    testPlacedRunLost,
		"both":    testPlacedRunAndControllerLost,
		"removed": testPlacedRunRemoved,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// aideClaude is a claude that writes into the directory of its Aidefile what it was asked, and reports what it uses: for
// each file use.N of the machine, and at its end, for which it waits until there is a file end, or fail.
const aideClaude = `#!/bin/sh
cat >asked.$$; if grep -q control_request asked.$$; then rm asked.$$; exit 1; fi # it is asked for what is left
mv asked.$$ prompt; echo "$COPPICE_INCARNATION $PWD $COPPICE_AIDEFILE $COPPICE_TOKENS $A_KEY $FROM_FILE $COPPICE_FILES$COPPICE_VAULT" >>runs
id=s-$COPPICE_INCARNATION
for word; do test "$last" = --resume && id=$word; last=$word; done
echo '{"type":"system","subtype":"init","session_id":"'$id'"}'
i=0
until test -e end -o -e fail; do
	if test -e use.$i; then
		echo '{"type":"assistant","session_id":"'$id'","message":{"id":"m'$i'","model":"opus","usage":{"output_tokens":30}}}'
		i=$((i + 1))
	fi
	sleep 0.02
done
if test -e fail; then
	mv fail failed
	echo '{"type":"result","subtype":"success","is_error":true,"result":"no luck","session_id":"'$id'","modelUsage":{"opus":{"outputTokens":'$((i * 30))'}}}'
	exit 1
fi
mv end ended
echo '{"type":"result","subtype":"success","is_error":false,"result":"<aide-summary>all is up</aide-summary>","session_id":"'$id'","modelUsage":{"opus":{"outputTokens":'$((i * 30 + 10))'}}}'
`

// placedAide makes a fleet with an agent a with an Aidefile, which runs where the keys let it.
func placedAide(t *testing.T, c *etcdtest.Cluster, n int, aidefile string, keys ...string) *machines {
	t.Helper()
	m := newMachines(t, c, n)
	m.toml += fmt.Sprintf("[aide]\ncommand = [\"../claude\", \"-p\", \"--output-format\", \"stream-json\", \"--verbose\"]\n"+
		"backoff_base = \"10ms\"\nvault = \"secrets\"\n\n[[agent]]\naidefile = \"a\"\n%s\n", strings.Join(keys, "\n"))
	for _, one := range m.all {
		one.rewrite(m.toml)
		exectest.Write(t, filepath.Join(one.dir, "claude"), aideClaude)
		for _, dir := range []string{"a", "secrets"} {
			if err := os.Mkdir(filepath.Join(one.dir, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(one.dir, "a", "Aidefile"), "[persona]\nname = \"a\"\n"+aidefile)
		one.env = append(one.env, "A_KEY=key-of-"+one.name)
		if err := os.WriteFile(filepath.Join(one.dir, "secrets", "FROM_FILE"), []byte("file-of-"+one.name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// in returns the name of a file next to the Aidefile.
func (n *machine) in(name string) string { return filepath.Join(n.dir, "a", name) }

// aideRuns returns what the runs on a machine have written.
func (n *machine) aideRuns() []string {
	text, _ := os.ReadFile(n.in("runs"))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// awaitRuns waits until so many runs have begun on a machine, and returns the last one.
func (n *machine) awaitRuns(count int) []string {
	n.t.Helper()
	await(n.t, moved, func() string {
		if all := n.aideRuns(); len(all) != count {
			return fmt.Sprintf("%d runs on node %s, want %d: %q", len(all), n.name, count, all)
		}
		return ""
	})
	return strings.Split(n.aideRuns()[count-1], " ")
}

// noRuns fails the test if a run has begun on one of the machines.
func noRuns(t *testing.T, all ...*machine) {
	t.Helper()
	for _, n := range all {
		if runs := n.aideRuns(); len(runs) > 0 {
			t.Errorf("runs on node %s: %q", n.name, runs)
		}
	}
}

// A run on another node gets its task and its secrets, and what it uses is known there and under each controller,
// and counted once. The next run of its chain knows what the chain has used.
func testPlacedRuns(t *testing.T, c *etcdtest.Cluster) {
	m := placedAide(t, c, 3, "[vault]\nkeys = [\"A_KEY\", \"FROM_FILE\"]\n"+
		"[budget]\nmax_retries = 0\ntokens = 1000\nchain_tokens = 100\n"+
		"[daemon]\nrestart = \"on-failure\"\nmax_restarts = 5\nbackoff = \"fixed\"\n", `node = "n2"`)
	m.startWith("zone=eu")
	first, second := m.all[0], m.all[1]
	if n := first.node("t/a"); n.Aide == nil || n.Aide.State != "idle" {
		t.Fatalf("%+v, %+v", n, n.Aide)
	}
	use := func(i int) { write(t, second.in(fmt.Sprint("use.", i)), "") }
	m.all[2].do("fire", "a", "mend the fence")
	run := second.awaitRuns(1)
	want := fmt.Sprintf("1 %s %s 100 key-of-n1 file-of-n2 ", filepath.Join(second.dir, "a"), second.in("Aidefile"))
	if got := strings.Join(run, " "); got != want {
		t.Errorf("the run has %q, want %q", got, want)
	}
	if prompt := second.awaitFile(filepath.Join("a", "prompt")); !strings.Contains(prompt, "# Task\n\nmend the fence\n") {
		t.Errorf("it was asked %q", prompt)
	}
	for _, n := range m.all {
		if at := n.awaitState("t/a", "running"); at.Host != "n2" || at.Aide.Task != "mend the fence" {
			t.Errorf("%+v, %+v", at, at.Aide)
		}
	}
	use(0)
	first.awaitTokens(1, 1, 30)

	first.daemon().kill() // and a new one resumes its leases
	first.do("up", "-d")
	m.awaitReady(first)
	first.awaitTokens(1, 1, 30)

	first.signal(first.daemon(), unix.SIGTERM)
	on := m.awaitOn(m.except(first)...)
	first.do("up", "-d")
	m.awaitReady(on)
	use(1)
	on.awaitTokens(1, 1, 60)
	if n := on.node("t/a"); n.Incarnation != 1 || n.Aide.Task != "mend the fence" || n.Aide.FiredBy != "hand" {
		t.Errorf("after a change of the controller: %+v, %+v", n, n.Aide)
	}

	// It fails. The next run of the chain has the same task and 40 tokens left, and uses more: it has both files again.
	write(t, second.in("fail"), "")
	run = second.awaitRuns(2)
	if run[0] != "2" || run[3] != "40" {
		t.Errorf("the next run of the chain: %q", run)
	}
	if prompt := second.awaitFile(filepath.Join("a", "prompt")); !strings.Contains(prompt, "# Task\n\nmend the fence\n") {
		t.Errorf("it was asked %q", prompt)
	}
	n := on.awaitState("t/a", "given_up")
	if !n.Aide.Spent || !strings.Contains(n.LastExit, "its chain of runs has used 120 tokens, of 100") {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	on.awaitTokens(2, 0, 120)

	// Another trigger begins another chain, which ends well.
	for i := range 2 {
		if err := os.Remove(second.in(fmt.Sprint("use.", i))); err != nil {
			t.Fatal(err)
		}
	}
	first.do("fire", "a", "paint it")
	if run := second.awaitRuns(3); run[3] != "100" {
		t.Errorf("a new chain: %q", run)
	}
	write(t, second.in("end"), "")
	on.awaitEvent(event.AgentExited, "t/a", 0)
	on.awaitState("t/a", "stopped")
	on.awaitTokens(3, 0, 130)
	on.says([]string{"logs", "a"}, "all is up")
	noRuns(t, first, m.all[2])
	on.do("down")
	m.checkDown()
}

// A run whose node is lost is made again on another one, with the same task, and what was known of it is counted. The
// budget of the chain holds over nodes.
func testPlacedRunLost(t *testing.T, c *etcdtest.Cluster) {
	m := placedAide(t, c, 3, "[budget]\nmax_retries = 0\nchain_tokens = 100\n"+
		"[daemon]\nrestart = \"on-failure\"\nmax_restarts = 5\nbackoff = \"fixed\"\n", `labels = { zone = "eu" }`)
	m.startWith("zone=eu")
	first := m.all[0]
	first.do("fire", "a", "mend the fence")
	from, to := m.all[1], m.all[2]
	await(t, moved, func() string {
		switch {
		case len(from.aideRuns()) > 0:
			return ""
		case len(to.aideRuns()) > 0:
			from, to = to, from
			return ""
		}
		return "no run has begun"
	})
	write(t, from.in("use.0"), "")
	first.awaitTokens(1, 1, 30)
	from.kill()
	if run := to.awaitRuns(1); run[0] == "1" || run[3] != "70" {
		t.Errorf("the run on the other node: %q", run)
	}
	if prompt := to.awaitFile(filepath.Join("a", "prompt")); !strings.Contains(prompt, "# Task\n\nmend the fence\n") {
		t.Errorf("it was asked %q", prompt)
	}
	write(t, to.in("end"), "")
	first.awaitState("t/a", "stopped")
	first.awaitTokens(2, 0, 40)
	if n := first.node("t/a"); n.Aide.Restarts != 0 {
		t.Errorf("the loss of a node counts as a failure: %+v", n.Aide)
	}

	// The first node is there again, with the files of the first run, which are not counted again.
	from.do("up", "-d")
	m.awaitReady(first)
	first.do("node", "drain", to.name)
	first.do("fire", "a", "paint it")
	from.awaitRuns(2)
	write(t, from.in("end"), "")
	first.awaitState("t/a", "stopped")
	first.awaitTokens(3, 0, 80)
	noRuns(t, first)
	first.do("down")
	m.checkDown()
}

// A run and the controller are lost together: the next controller knows the task.
func testPlacedRunAndControllerLost(t *testing.T, c *etcdtest.Cluster) {
	m := placedAide(t, c, 2, noRetry+"[daemon]\nrestart = \"on-failure\"\nmax_restarts = 5\n")
	m.start()
	first, second := m.all[0], m.all[1]
	first.do("node", "drain", second.name)
	first.do("fire", "a", "mend the fence")
	first.awaitRuns(1)
	first.do("node", "drain", "--undo", second.name)
	first.kill()
	second.awaitRuns(1)
	if prompt := second.awaitFile(filepath.Join("a", "prompt")); !strings.Contains(prompt, "# Task\n\nmend the fence\n") {
		t.Errorf("it was asked %q", prompt)
	}
	write(t, second.in("end"), "")
	if n := second.awaitState("t/a", "stopped"); n.Host != "n2" || n.Aide.State != "done" {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	second.do("down")
	m.checkDown()
}

// Nothing is left of an agent that was removed, on its node and in the store.
func testPlacedRunRemoved(t *testing.T, c *etcdtest.Cluster) {
	m := placedAide(t, c, 2, noRetry, `node = "n2"`)
	m.startWith("zone=eu")
	first, second := m.all[0], m.all[1]
	first.do("fire", "a", "mend the fence")
	second.awaitRuns(1)
	write(t, second.in("end"), "")
	first.awaitState("t/a", "stopped")
	left := func() (all []string) {
		dirs, _ := filepath.Glob(filepath.Join(second.dir, ".coppice", "aide", "*"))
		stored, _, err := m.store().Snapshot(t.Context(), "aides")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stored {
			all = append(all, s.Key)
		}
		return append(all, dirs...)
	}
	if got := left(); len(got) != 2 {
		t.Errorf("%q", got)
	}
	kept, _, _ := strings.Cut(m.toml, "[aide]")
	first.rewrite(kept)
	first.do("reload")
	await(t, moved, func() string {
		if got := left(); len(got) > 0 {
			return fmt.Sprintf("%q is left", got)
		}
		return ""
	})
	first.do("down")
	m.checkDown()
}

package test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Scripts of agents: polite ends on request, stubborn does not. Both report when they begin to
// wait.
const (
	// sleep misses a signal that comes between its fork and its exec, and the agent has ended when sleep has.
	polite   = `trap 'echo bye; exit 0' TERM; echo "up $$"; while :; do sleep 1 & wait $!; done`
	stubborn = `trap '' TERM INT; echo "up $$"; while :; do sleep 1000; done`
	sleeper  = `echo "up $$"; exec sleep 1000`
)

// All agents are stopped in parallel, but those of a rest_for_one supervisor in reverse order.
func TestSignalStopsAll(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			const grace = 400 * time.Millisecond
			dir := project(t,
				"[[supervisor]]\nname = \"s\"\nstrategy = \"rest_for_one\"\nchildren = [\"a\", \"b\"]\n\n",
				agentTOML("a", polite), agentTOML("b", polite),
				agentTOML("c", stubborn, `shutdown = { grace = "400ms" }`), agentTOML("d", polite))
			r := launch(t, dir, "run", "--json")
			r.awaitReport("supervisor.started t", "")
			for _, a := range []string{"s/a", "s/b", "c", "d"} {
				r.out.awaitText(t, `"path":"t/`+a+`","incarnation":1,"message":"up `)
			}
			r.signal(sig)
			r.wantExit(128 + int(sig))
			if got, want := r.err.String(), fmt.Sprintf("coppice: stopped by %s\n", unix.SignalName(sig)); got != want {
				t.Errorf("stderr %q, want %q", got, want)
			}

			var got []string
			at := map[string]time.Time{}
			for _, rep := range r.reports() {
				if strings.Contains(rep.Type, ".stop") || strings.HasSuffix(rep.Type, ".ended") {
					got = append(got, rep.String())
					at[rep.String()] = rep.Time
				}
			}
			all := []string{
				"supervisor.stopping t", "agent.stopping d 1", "agent.stopping c 1", "supervisor.stopping s 1",
				"agent.stopping s/b 1", "agent.stopped s/b 1", "agent.stopping s/a 1", "agent.stopped s/a 1",
				"supervisor.stopped s 1", "agent.stopped d 1", "agent.stopped c 1", "supervisor.ended t",
			}
			if d := cmp.Diff(slices.Sorted(slices.Values(all)), slices.Sorted(slices.Values(got))); d != "" {
				t.Fatalf("stops (-want +got):\n%s", d)
			}
			for _, order := range [][]string{
				{"supervisor.stopping t", "agent.stopping d 1", "agent.stopping c 1", "supervisor.stopping s 1", "agent.stopped c 1", "supervisor.ended t"},
				{"agent.stopping s/b 1", "agent.stopped s/b 1", "agent.stopping s/a 1", "agent.stopped s/a 1", "supervisor.stopped s 1", "supervisor.ended t"},
				{"agent.stopping d 1", "agent.stopped d 1", "supervisor.ended t"},
			} {
				for i := range order[1:] {
					if slices.Index(got, order[i]) > slices.Index(got, order[i+1]) {
						t.Errorf("%s comes after %s: %q", order[i], order[i+1], got)
					}
				}
			}
			// The agent is stopped before its supervisor reports it.
			if took := at["agent.stopped c 1"].Sub(at["agent.stopping c 1"]); took < grace*9/10 || took > grace+waitTimeout/3 {
				t.Errorf("the stubborn agent was killed after %v, its grace is %v", took, grace)
			}
			for _, a := range []string{"s/a", "s/b", "d"} {
				r.awaitReport("agent.output "+a+" 1", "bye")
			}
		})
	}
}

// sameSignal is the time within which a repeated signal counts as one.
const sameSignal = 200 * time.Millisecond

func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", stubborn, `shutdown = { grace = "10m" }`))
	r := launch(t, dir, "run", "--json")
	r.out.awaitText(t, `"message":"up `)
	r.awaitReport("supervisor.started t", "")
	first := time.Now()
	r.signal(syscall.SIGINT)
	r.awaitReport("agent.stopping a 1", "")
	<-time.After(sameSignal) // earlier it counts as the same signal
	r.signal(syscall.SIGINT)
	<-r.ended
	if took := time.Since(first); took < sameSignal {
		t.Errorf("killed after %v", took)
	}
	stopped := r.awaitReport("agent.stopped a 1", "")
	if stopped.Data["exit"] != "killed" {
		t.Errorf("the agent ended as %v, want killed", stopped.Data)
	}
	r.wantExit(130)
}

// A second signal also kills an agent whose start is being given up.
func TestSecondSignalKillsStart(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"proc", "tmux"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			if runtime == "tmux" {
				needTmux(t)
			}
			dir := project(t, agentTOML("a", stubborn, `shutdown = { grace = "10m" }`, `ready = { log = "never" }`,
				fmt.Sprintf("runtime = %q", runtime)))
			r := launch(t, dir, "run", "--json")
			r.out.awaitText(t, `"message":"up `)
			r.signal(syscall.SIGINT)
			r.awaitReport("supervisor.stopping t", "")
			<-time.After(sameSignal)
			r.signal(syscall.SIGINT)
			r.wantExit(130) // and project checks that nothing is left
		})
	}
}

// An agent under nohup(1) survives the end of a terminal.
func TestHangUpIgnored(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `echo "up $$"; read x < go; echo went; exec sleep 1000`))
	release := fifo(t, dir, "go")
	r := newChildCommand(t, "/bin/sh", "-c", "trap '' HUP; exec coppice run")
	r.start(dir)
	r.out.awaitText(t, "up ")
	r.signal(syscall.SIGHUP)
	release()
	r.out.awaitText(t, "went")
	r.signal(syscall.SIGTERM)
	r.wantExit(143)
}

func TestGroupRestarts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		strategy string
		want     []string
	}{
		{"one_for_one", []string{"agent.crashed s/b 1", "agent.started s/b 2"}},
		{"rest_for_one", []string{
			"agent.crashed s/b 1", "agent.stopping s/c 1", "agent.stopped s/c 1",
			"agent.started s/b 2", "agent.started s/c 2"}},
		{"one_for_all", []string{
			"agent.crashed s/b 1", "agent.stopping s/c 1", "agent.stopped s/c 1", "agent.stopping s/a 1", "agent.stopped s/a 1",
			"agent.started s/a 2", "agent.started s/b 2", "agent.started s/c 2"}},
	} {
		t.Run(test.strategy, func(t *testing.T) {
			t.Parallel()
			dir := project(t,
				fmt.Sprintf("[[supervisor]]\nname = \"s\"\nstrategy = %q\nchildren = [\"a\", \"b\", \"c\"]\n\n", test.strategy),
				agentTOML("a", sleeper), agentTOML("c", sleeper),
				agentTOML("b", `echo "up $$"; [ $COPPICE_INCARNATION = 2 ] || { read x < go; exit 3; }; exec sleep 1000`))
			release := fifo(t, dir, "go")
			r := launch(t, dir, "run", "--json")
			r.awaitReport("supervisor.started t", "")
			ups := func() (pids map[string]string) {
				pids = map[string]string{}
				for _, rep := range r.reports() {
					if pid, ok := strings.CutPrefix(rep.Message, "up "); ok && rep.Type == "agent.output" {
						pids[strings.TrimPrefix(rep.String(), "agent.output s/")] = pid
					}
				}
				return pids
			}
			r.out.await(t, "three agents", func() bool { return len(ups()) == 3 })
			started := len(r.reports())
			release()
			restarts := strings.Count(strings.Join(test.want, " "), "started")
			r.out.await(t, "the restarted agents", func() bool {
				told := 0
				for _, rep := range r.reports()[started:] {
					if rep.Type == "agent.started" {
						told++
					}
				}
				return len(ups()) == 3+restarts && told == restarts
			})

			var got []string
			for _, rep := range r.reports()[started:] {
				if rep.Type != "agent.output" {
					got = append(got, rep.String())
				}
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			// Exactly the last incarnations run. One that is just executing its program is not
			// seen.
			var want []string
			for _, a := range []string{"a", "b", "c"} {
				last := a + " 1"
				if slices.Contains(test.want, "agent.started s/"+a+" 2") {
					last = a + " 2"
				}
				want = append(want, last)
			}
			eventually(t, fmt.Sprintf("%v to run, and no others", want), func() bool {
				var alive []string
				for _, p := range processesIn(t, dir) {
					for who, pid := range ups() {
						if fmt.Sprint(p.pid) == pid {
							alive = append(alive, who)
						}
					}
				}
				slices.Sort(alive)
				return slices.Equal(want, alive) || !canSeeProcesses
			})
			r.signal(syscall.SIGTERM)
			r.wantExit(143)
		})
	}
}

func TestReadinessGatesDependents(t *testing.T) {
	t.Parallel()
	dir := project(t,
		agentTOML("db", `echo waiting; read x < go; echo 'listening on 5432'; exec sleep 1000`, `ready = { log = "^listening on [0-9]+$" }`),
		agentTOML("api", sleeper, `depends_on = ["db"]`))
	release := fifo(t, dir, "go")
	r := launch(t, dir, "run", "--json")
	r.awaitReport("agent.output db 1", "waiting")
	for _, rep := range r.reports() {
		if rep.Type == "agent.started" {
			t.Errorf("%v before the database was ready", rep)
		}
	}
	release()
	r.awaitReport("supervisor.started t", "")
	var order []string
	for _, rep := range r.reports() {
		if rep.Type != "agent.output" || strings.HasPrefix(rep.Message, "listening") {
			order = append(order, rep.String())
		}
	}
	want := []string{"agent.output db 1", "agent.started db 1", "agent.started api 1", "supervisor.started t"}
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	r.signal(syscall.SIGTERM)
	r.wantExit(143)
}

func TestNotReadyInTimeIsAFailedStart(t *testing.T) {
	t.Parallel()
	dir := project(t, "[supervision]\nmax_restarts = 1\non_limit = \"escalate\"\n\n",
		agentTOML("db", `echo hello; exec sleep 1000`, `ready = { log = "never said", timeout = "150ms" }`))
	r := launch(t, dir, "run")
	r.wantExit(1)
	lines := r.out.lines()
	for _, want := range []string{
		"t/db * failed to start: ",
		"t/db * limit reached (1 restarts in 1m0s, then escalate)",
	} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("no line %q in:\n%s", want, r.out)
		}
	}
	if got := r.err.String(); !strings.HasPrefix(got, "coppice: t: limit reached (1 restarts in 1m0s, then escalate): db ended") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr: %s", got)
	}
}

func TestBackoffDelays(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `[ $COPPICE_INCARNATION = 3 ] || exit 9; echo 'third time lucky'`,
		`restart = "on-failure"`, `backoff = { kind = "linear", base = "150ms" }`))
	r := launch(t, dir, "run", "--json")
	r.wantExit(0)
	for n, delay := range []time.Duration{150 * time.Millisecond, 300 * time.Millisecond} {
		crash := r.awaitReport(fmt.Sprintf("agent.crashed a %d", n+1), "")
		if d := crash.Data["delay_seconds"]; d != delay.Seconds() || crash.Data["attempt"] != float64(n+1) || crash.Data["decision"] != "restart" {
			t.Errorf("crash %d: %v, want a restart in %v", n+1, crash.Data, delay)
		}
		if took := r.awaitReport(fmt.Sprintf("agent.started a %d", n+2), "").Time.Sub(crash.Time); took < delay {
			t.Errorf("incarnation %d came after %v, want at least %v", n+2, took, delay)
		}
	}
}

// The fleet ends with its agents, even if a pipe is still held open.
func TestGrandchildHoldsThePipe(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `trap '' HUP TERM; sleep 1000 & echo parent leaves`, `restart = "never"`))
	r := launch(t, dir, "run")
	r.wantExit(0)
	r.out.awaitText(t, "t/a | parent leaves\n")
}

func TestManyAgents(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	const n = 100
	var toml strings.Builder
	for i := range n {
		fmt.Fprintf(&toml, "[[agent]]\nname = \"a%03d\"\ncommand = \"sleep 1000\"\n", i)
	}
	dir := project(t, toml.String())
	r := launch(t, dir, "run", "--json")
	r.awaitReport("supervisor.started t", "")
	least := n + (n+spec.DefaultPerShim-1)/spec.DefaultPerShim + 1
	if got := len(processesIn(t, dir)); (got < least || got > least+1) && canSeeProcesses {
		t.Errorf("%d processes, want %d agents, a shim for %d each or one more, and coppice", got, n,
			spec.DefaultPerShim)
	}
	r.signal(syscall.SIGTERM)
	r.wantExit(143)
	var stops []string
	for _, rep := range r.reports() {
		if rep.Type == "agent.stopped" {
			stops = append(stops, rep.Path)
		}
	}
	slices.Sort(stops)
	if once := slices.Compact(slices.Clone(stops)); len(stops) != n || len(once) != n {
		t.Errorf("%d agents stopped, %d of them different; want %d: %v", len(stops), len(once), n, stops)
	}
}

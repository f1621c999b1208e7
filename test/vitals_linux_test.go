package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/status"
)

// beats is an agent that makes progress forever.
const beats = `n=0; while :; do n=$((n+1)); coppice agent heartbeat --progress $n --note "step $n"; sleep 0.3; done`

// chatterTOML is agentTOML for a script that calls coppice often.
func chatterTOML(name, script string, keys ...string) string {
	// The race detector sleeps for a second at exit unless told otherwise.
	return agentTOML(name, "export GORACE=atexit_sleep_ms=0\n"+script, keys...)
}

func (f *fleet) read(name string) string {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

func (f *fleet) has(name string) bool {
	_, err := os.Stat(filepath.Join(f.dir, name))
	return err == nil
}

func decode(t *testing.T, e event.Event) (data map[string]any) {
	t.Helper()
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatalf("%v: %v", e, err)
	}
	return data
}

// Agents that stop responding are detected, nudged, and restarted with the reason. Responding ones
// are not.
func TestUnresponsiveAgents(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	later := `[ $COPPICE_INCARNATION = 1 ] || { ` + beats + `; }; `
	grace := `shutdown = { grace = "1s" }`
	f := newFleet(t,
		chatterTOML("frozen", later+`kill -STOP $$; exec sleep 1000`, grace, `heartbeat_timeout = "1s"`,
			`nudge = { command = "echo \"$COPPICE_NUDGE|$COPPICE_AGENT|$COPPICE_TOKEN\" > nudge.frozen" }`),
		chatterTOML("asleep", later+`trap 'echo nudged > nudge.asleep' USR1; while :; do sleep 1000 & wait; done`, grace, `heartbeat_timeout = "1s"`,
			`nudge = { signal = "USR1" }`),
		chatterTOML("stuck", later+`while :; do coppice agent heartbeat --progress 7 --note parsing; sleep 0.3; done`, grace,
			`heartbeat_timeout = "20s"`, `progress_timeout = "1s"`),
		chatterTOML("answers", `trap 'coppice agent heartbeat' USR1; while :; do sleep 1000 & wait; done`, grace, `heartbeat_timeout = "1s"`,
			`nudge = { signal = "USR1" }`))
	f.up()
	for agent, want := range map[string]struct{ process, reason, nudged string }{
		"frozen": {"stopped by a signal (state T)", `^no heartbeat for \d+(\.\d)?s \(heartbeat_timeout 1s\), nudged \d+(\.\d)?s ago$`, "coppice: there was no sign of you for some time. Please run: coppice agent heartbeat|t/frozen|\n"},
		"asleep": {"sleeping", `^no heartbeat for \d+(\.\d)?s \(heartbeat_timeout 1s\), nudged \d+(\.\d)?s ago$`, "nudged\n"},
		"stuck":  {"", `^no progress since 7 "parsing" for \d+(\.\d)?s \(progress_timeout 1s\)$`, ""},
	} {
		path := "t/" + agent
		f.awaitNode(path, "comes back", func(n status.Node) bool { return n.State == "running" && n.Incarnation >= 2 })
		crashes := f.events(event.AgentCrashed, path)
		if len(crashes) == 0 {
			t.Fatalf("%s was restarted without a crash", agent)
		}
		if reason, _ := decode(t, crashes[0])["error"].(string); !regexp.MustCompile(want.reason).MatchString(reason) {
			t.Errorf("%s has ended because of %q", agent, reason)
		}
		if all := f.events(event.AgentCondemned, path); len(all) == 0 {
			t.Errorf("no event says that %s is ended", agent)
		}
		all := f.events(event.AgentUnresponsive, path)
		if len(all) == 0 {
			t.Fatalf("no event says that %s does not get on", agent)
		}
		if seen := decode(t, all[0])["process"]; want.process != "" && seen != want.process {
			t.Errorf("%s was seen to be %v", agent, seen)
		}
		if want.nudged != "" && f.read("nudge."+agent) != want.nudged {
			t.Errorf("%s was nudged by %q", agent, f.read("nudge."+agent))
		}
	}
	if n := f.node("t/answers"); n.Incarnation != 1 || n.State != "running" {
		t.Errorf("who answers: %+v", n)
	}
	if all := f.events(event.AgentResponsive, "t/answers"); len(all) == 0 {
		t.Error("no event says that an agent that answers is responsive again")
	}
	if all := f.events(event.AgentCrashed, "t/answers"); len(all) != 0 {
		t.Errorf("who answers: %v", all)
	}
}

// An agent that waits for a person may be silent, under any daemon.
func TestWaitingForAPerson(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chatterTOML("asks", `[ $COPPICE_INCARNATION = 1 ] || { `+beats+`; }
coppice agent ask 'which one?' --options a,b > answer; exec sleep 1000`, `heartbeat_timeout = "1s"`, `progress_timeout = "2s"`),
		chatterTOML("silent", `[ $COPPICE_INCARNATION -lt 3 ] || { `+beats+`; }; exec sleep 1000`, `heartbeat_timeout = "1s"`))
	f.up()
	eventually(t, "the question", func() bool { return f.node("t/asks").NeedsInput != nil })
	f.awaitNode("t/silent", "is ended", func(n status.Node) bool { return n.Incarnation == 2 })
	f.crash()
	f.up()
	f.awaitNode("t/silent", "is ended again", func(n status.Node) bool { return n.Incarnation == 3 })
	n := f.node("t/asks")
	if n.Incarnation != 1 || n.NeedsInput == nil || n.Vitals == nil || !n.Vitals.Waiting {
		t.Fatalf("while it waits: %+v", n)
	}
	if all := f.events(event.AgentUnresponsive, "t/asks"); len(all) != 0 {
		t.Errorf("while it waits: %v", all)
	}
	f.do("answer", n.NeedsInput.ID, "b")
	eventually(t, "the answer", func() bool { return f.has("answer") && f.read("answer") == "b\n" })
	f.awaitNode("t/asks", "is ended", func(n status.Node) bool { return n.Incarnation == 2 })
}

// The hook reports mail and answers, once per incarnation.
func TestHookTellsOfMail(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chatterTOML("a", `while ! coppice agent hook > hook.$COPPICE_INCARNATION.1; do sleep 0.1; done
coppice agent hook > hook.$COPPICE_INCARNATION.2; echo $? > code.$COPPICE_INCARNATION; exec sleep 1000`, `nudge = { command = "echo $COPPICE_NUDGE > nudged" }`))
	f.do("up", "-d")
	f.do("mail", "send", "a", "--subject", "Look <here>", "-m", "at this")
	want := "mail: From people: Look <here>. Run \"coppice agent mail read m-1\" to read it.\n"
	for _, n := range []string{"1", "2"} {
		eventually(t, "what the hook says", func() bool { return f.has("code."+n) && f.read("code."+n) != "" })
		if got := f.read("hook." + n + ".1"); got != want {
			t.Errorf("hook says %q, want %q", got, want)
		}
		if got, code := f.read("hook."+n+".2"), f.read("code."+n); got != "" || code != "1\n" {
			t.Errorf("the next hook says %q, and exits with %s", got, code)
		}
		f.do("restart", "a")
	}
	eventually(t, "the nudge", func() bool {
		return f.has("nudged") && f.read("nudged") == "coppice: there is mail for you, m-1. Please run: coppice agent mail read m-1\n"
	})
}

// A nudge types a line into a terminal, unless a person may be typing.
func TestNudgeByTyping(t *testing.T) {
	for _, kind := range []string{"proc", "tmux"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			place := `terminal = true`
			if kind == "tmux" {
				needTmux(t)
				place = inTmux
			}
			f := newFleet(t, chatterTOML("a", `read line; echo "$line" > typed; coppice agent heartbeat; exec sleep 1000`, place, `nudge = { type = true }`, `heartbeat_timeout = "2s"`))
			f.up()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			typist, hands := io.Pipe()
			defer hands.Close()
			c := f.client()
			left := make(chan error, 1)
			go func() { left <- api.Attach(ctx, c, "a", api.Viewer{Input: typist, Output: io.Discard}) }()
			refused := func() bool {
				all := f.events(event.AgentNudged, "t/a")
				return len(all) == 1 && decode(t, all[0])["error"] == "a person is attached and may be typing"
			}
			eventually(t, "a nudge that is not given", refused)
			if f.has("typed") {
				t.Errorf("%q was typed beside a person", f.read("typed"))
			}
			leave()
			<-left
			// Nothing announces when the daemon sees them leave; until then nudges are refused.
			eventually(t, "a nudge that is given", func() bool {
				before := len(f.events(event.AgentNudged, "t/a"))
				f.do("mail", "send", "a", "--subject", "hello")
				var all []event.Event
				eventually(t, "a nudge", func() bool {
					all = f.events(event.AgentNudged, "t/a")
					return len(all) > before
				})
				return decode(t, all[len(all)-1])["error"] == nil
			})
			eventually(t, "what is typed", func() bool { return f.has("typed") && f.read("typed") != "" })
			if got := f.read("typed"); !regexp.MustCompile(`^coppice: there is mail for you, m-\d+\. Please run: coppice agent mail read m-\d+\n$`).MatchString(got) {
				t.Errorf("%q was typed", got)
			}
		})
	}
}

// Heartbeats reach the next daemon, and those missed by the last one count against no agent.
func TestHeartbeatsOverDaemons(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		chatterTOML("beats", beats, `heartbeat_timeout = "4s"`, `progress_timeout = "1m"`),
		chatterTOML("silent", `exec sleep 1000`, `heartbeat_timeout = "4s"`))
	f.up()
	heard := func(n status.Node) bool {
		return n.Vitals != nil && n.Vitals.Heartbeat != nil && n.Vitals.Progress != nil && strings.HasPrefix(n.Vitals.Note, "step ")
	}
	eventually(t, "the first heartbeat", func() bool { return heard(f.node("t/beats")) })
	if out := f.do("explain", "beats"); !regexp.MustCompile(`last heartbeat \S+ ago; the limit is 4s`).MatchString(out) ||
		!regexp.MustCompile(`progress \d+ "step \d+", unchanged for \S+; the limit is 1m`).MatchString(out) {
		t.Errorf("explain: %s", out)
	}
	if out := f.do("explain", "silent"); !strings.Contains(out, "no heartbeat yet; the limit is 4s") {
		t.Errorf("explain: %s", out)
	}
	f.crash()
	f.up()
	eventually(t, "a heartbeat after that", func() bool { return heard(f.node("t/beats")) })
	f.awaitNode("t/silent", "is ended", func(n status.Node) bool { return n.Incarnation == 2 })
	adopted, seen := f.events(event.AgentAdopted, "t/silent"), f.events(event.AgentUnresponsive, "t/silent")
	if len(adopted) != 1 || len(seen) == 0 {
		t.Fatalf("adopted %v, seen %v", adopted, seen)
	}
	if d := seen[len(seen)-1].Time.Sub(adopted[0].Time); d < 3*time.Second {
		t.Errorf("a new daemon had enough of it after %v", d)
	}
	if n := f.node("t/beats"); n.Incarnation != 1 {
		t.Errorf("who gets on: %+v", n)
	}
}

// Texts of agents are made safe to show.
func TestHeartbeatIsAClaim(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chatterTOML("a", `coppice agent heartbeat --progress -3 --note "$(printf 'a\033[2Jb\nc%0300d' 0)" && touch said; exec sleep 1000`))
	f.do("up", "-d")
	eventually(t, "the heartbeat", func() bool { return f.has("said") })
	v := f.node("t/a").Vitals
	if v == nil || v.Progress == nil || *v.Progress != -3 || len(v.Note) > api.MaxNote || !strings.HasPrefix(v.Note, "ab c00") || !strings.HasSuffix(v.Note, "…") {
		t.Errorf("%+v", v)
	}
}

// A requested restart is not a failure and happens once, even if the daemon is killed right after
// acknowledging it.
func TestRequestRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chatterTOML("a", `[ $COPPICE_INCARNATION -gt 2 ] || while coppice agent request-restart "again, please"; do touch asked.$COPPICE_INCARNATION; done
exec sleep 1000`, `max_restarts = 1`, `on_limit = "escalate"`))
	f.do("up", "-d")
	eventually(t, "the answer to the first one", func() bool { return f.has("asked.1") })
	eventually(t, "the answer to the second one", func() bool { return f.has("asked.2") })
	f.crash()
	f.do("up", "-d")
	n := f.awaitNode("t/a", "is restarted again", func(n status.Node) bool { return n.Incarnation == 3 && n.State == "running" })
	if n.InWindow != 0 {
		t.Errorf("it counts for limits: %+v", n)
	}
	all := f.events(event.AgentRestartRequested, "t/a")
	if len(all) != 2 || !strings.HasSuffix(all[0].Message, ": again, please") {
		t.Errorf("requests: %v", all)
	}
	eventually(t, "the end of the requests", func() bool { return len(f.events(event.AgentRestartEnded, "t/a")) == 2 })
	f.do("restart", "a")
	if n := f.node("t/a"); n.Incarnation != 4 {
		t.Errorf("after a restart by hand: %+v", n)
	}
}

// Wherever the daemon is killed, an acknowledged restart happens.
func TestRequestedRestartComes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chatterTOML("a", `coppice agent request-restart && touch asked.$COPPICE_INCARNATION; exec sleep 1000`))
	f.do("up", "-d")
	for range 4 {
		var n uint64
		eventually(t, "the next request", func() bool {
			n = f.node("t/a").Incarnation
			return f.has(fmt.Sprint("asked.", n))
		})
		time.Sleep(time.Duration(rand.Int64N(int64(1200 * time.Millisecond)))) // so that the daemon can be anywhere
		f.crash()
		f.do("up", "-d")
		eventually(t, "the restart", func() bool { return f.node("t/a").Incarnation > n })
	}
	if all := f.events(event.AgentCrashed, "t/a"); len(all) != 0 {
		t.Errorf("crashes: %v", all)
	}
}

const drains = `while ! coppice agent drain-check; do sleep 0.1; done; `

// Draining agents finish their work and are then stopped.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, `[[supervisor]]
name = "group"
children = ["acks", "ends"]
`,
		chatterTOML("acks", drains+`coppice agent hook > hook.txt; coppice agent hook --inject > inject.txt; coppice agent drain-ack; coppice agent drain-ack; exec sleep 1000`, `nudge = { command = "touch nudged" }`),
		chatterTOML("ends", drains+`exit 0`),
		chatterTOML("deaf", `exec sleep 1000`),
		chatterTOML("early", `coppice agent drain-ack 2> early.txt; coppice agent hook || echo $? >> early.txt; touch early.done; exec sleep 1000`))
	f.do("up", "-d")
	eventually(t, "what an agent says without being asked", func() bool { return f.has("early.done") })
	if got := f.read("early.txt"); !strings.Contains(got, "t/early was not asked to finish") || !strings.HasSuffix(got, "\n1\n") {
		t.Errorf("drain-ack and hook without a drain: %q", got)
	}
	if out := f.do("drain", "group", "--reason", "a <new> release"); out != "group drained\n" {
		t.Errorf("drain: %q", out)
	}
	for _, path := range []string{"t/group/acks", "t/group/ends"} {
		if n := f.node(path); n.State != "stopped" || n.Incarnation != 1 || n.Drain != nil {
			t.Errorf("drained: %+v", n)
		}
		if all := f.events(event.AgentDrained, path); len(all) != 1 || decode(t, all[0])["finished"] != (path == "t/group/acks") {
			t.Errorf("events: %v", all)
		}
	}
	if got := f.read("hook.txt"); !strings.HasPrefix(got, "drain: You are asked to finish what you do (a <new> release). Run \"coppice agent drain-ack\" when you have") {
		t.Errorf("hook: %q", got)
	}
	if got := f.read("inject.txt"); !strings.HasPrefix(got, "<coppice-notices>\n- drain: You are asked to finish what you do (a &lt;new&gt; release).") || !strings.HasSuffix(got, "\n</coppice-notices>\n") {
		t.Errorf("hook --inject: %q", got)
	}
	if !f.has("nudged") {
		t.Error("it was not nudged")
	}
	if out := f.do("drain", "deaf", "--timeout", "300ms"); out != "deaf drained\n" {
		t.Errorf("drain: %q", out)
	}
	if all := f.events(event.AgentDrained, "t/deaf"); len(all) != 1 || decode(t, all[0])["finished"] != false {
		t.Errorf("events: %v", all)
	}
	// A drain is a manual stop: it lasts until a manual start.
	f.do("drain", "deaf")
	f.do("down")
	f.do("up", "-d")
	if n := f.node("t/deaf"); n.State != "stopped" {
		t.Errorf("after down and up: %+v", n)
	}
	f.do("start", "deaf")
	f.do("start", "group")
	for _, path := range []string{"t/deaf", "t/group/acks", "t/group/ends"} {
		if n := f.node(path); n.State != "running" || n.Drain != nil {
			t.Errorf("started: %+v", n)
		}
	}
	for _, args := range [][]string{{"drain", "none"}, {"drain"}, {"drain", "deaf", "--timeout", "-1s"}} {
		if out, err := f.try(args...); err == nil {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// A killed daemon leaves its drains to the next one.
func TestDrainOverDaemons(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		chatterTOML("a", `read x < finish; coppice agent drain-ack; exec sleep 1000`),
		chatterTOML("slow", `exec sleep 1000`),
		chatterTOML("unseen", `read x < end; exit 0`),
		chatterTOML("goes-on", `exec sleep 1000`))
	finish, end := fifo(t, f.dir, "finish"), fifo(t, f.dir, "end")
	f.do("up", "-d")
	var waiting []*childProcess
	for path, timeout := range map[string]string{"a": "10m", "slow": "3s", "unseen": "10m", "goes-on": "10m"} {
		r := newCoppice(t, "drain", path, "--timeout", timeout)
		r.start(f.dir)
		f.awaitNode("t/"+path, "is asked to finish", func(n status.Node) bool { return n.Drain != nil || n.State == "stopped" })
		f.awaitEvent(event.AgentDraining, "t/"+path, 0) // it is on disk, and not only known
		if path != "goes-on" {
			waiting = append(waiting, r)
		} else {
			defer r.wantExit(1)
		}
	}
	if out := f.do("tree"); !strings.Contains(out, "draining") {
		t.Errorf("tree: %s", out)
	}
	if out := f.do("explain", "a"); !strings.Contains(out, "t/a has been draining") || !strings.Contains(out, "it is stopped when it says that it has finished") {
		t.Errorf("explain: %s", out)
	}
	f.crash()
	unseen := awaitOne(t, f.dir, "read x < end")
	end()
	unseen.awaitEnd(t)
	f.do("up", "-d")
	if n := f.node("t/a"); n.Drain == nil || n.State != "running" || n.Drain.Left < 60 {
		t.Errorf("after the daemon was killed: %+v", n)
	}
	f.do("start", "goes-on")
	finish()
	for _, r := range waiting {
		r.wantExit(0)
	}
	for _, path := range []string{"t/a", "t/slow", "t/unseen"} {
		if n := f.node(path); n.State != "stopped" || n.Incarnation != 1 {
			t.Errorf("drained: %+v", n)
		}
	}
	if n := f.node("t/goes-on"); n.State != "running" || n.Drain != nil || n.Incarnation != 1 {
		t.Errorf("started by hand: %+v", n)
	}
}

// An agent reports its readiness from anywhere in its process tree.
func TestAgentReady(t *testing.T) {
	t.Parallel()
	script := func(say string) string { return `read x < "go.${COPPICE_AGENT#t/}"; ` + say + `; exec sleep 1000` }
	toml := []string{
		chatterTOML("first", script(`coppice agent ready`), `ready = { notify = true }`),
		chatterTOML("second", script(`(setsid sh -c 'unset NOTIFY_SOCKET; coppice agent ready; coppice agent ready; touch said' &)`), `ready = { notify = true }`),
		chatterTOML("other", `coppice agent ready 2> other.txt; coppice agent heartbeat; echo up; exec sleep 1000`, `ready = { log = "up" }`),
		chatterTOML("none", `coppice agent ready && touch none; exec sleep 1000`),
	}
	for _, kind := range []string{"proc", "tmux"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var f *fleet
			if kind == "tmux" {
				needTmux(t)
				var in []string
				for _, a := range toml {
					in = append(in, strings.TrimSpace(a)+"\n"+inTmux+"\n")
				}
				f = newFleet(t, in...)
			} else {
				f = newFleet(t, toml...)
			}
			starting := map[string]func(){"t/first": fifo(t, f.dir, "go.first"), "t/second": fifo(t, f.dir, "go.second")}
			up := newCoppice(t, "up", "-d")
			up.start(f.dir)
			eventually(t, "the daemon", func() bool { _, err := f.try("status"); return err == nil })
			for path, release := range starting { // they start concurrently
				eventually(t, "the start of "+path, func() bool { return f.node(path).State == "starting" })
				release()
			}
			up.wantExit(0)
			eventually(t, "the word of the second one, again", func() bool { return f.has("said") && f.has("none") })
			for _, path := range []string{"t/first", "t/second", "t/other", "t/none"} {
				if n := f.node(path); n.State != "running" || n.Incarnation != 1 {
					t.Errorf("%+v", n)
				}
			}
			if got := f.read("other.txt"); !strings.Contains(got, "t/other does not report itself that it is ready") {
				t.Errorf("ready of another: %q", got)
			}
		})
	}
}

// Two concurrent nudges are two lines.
func TestNudgesDoNotMix(t *testing.T) {
	t.Parallel()
	f := newFleet(t, chatterTOML("a", `stty -echo; : > ready; while read -r line; do echo "$line" >> typed; done`, `terminal = true`, `nudge = { type = true }`))
	f.do("up", "-d")
	eventually(t, "who reads", func() bool { return f.has("ready") })
	var want []string
	c := f.client()
	var sent sync.WaitGroup
	for i := range 4 {
		want = append(want, fmt.Sprintf("coppice: there is mail for you, m-%d. Please run: coppice agent mail read m-%[1]d", i+1))
		sent.Go(func() {
			if _, err := mail.Send.Call(t.Context(), c, mail.SendRequest{To: "a", Body: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	sent.Wait()
	var got []string
	eventually(t, "four lines", func() bool {
		got = nil
		if f.has("typed") {
			got = strings.Split(strings.TrimSpace(f.read("typed")), "\n")
		}
		return len(got) >= 4
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("typed:\n%s", strings.Join(got, "\n"))
	}
}

// Repeating a drain request after a lost answer stops nothing that was started since.
func TestAskingForADrainStopsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exit 1", `backoff = { kind = "fixed", base = "1h", cap = "1h" }`))
	f.up()
	f.awaitState("t/a", "restarting")
	_, err := drain.Begin.Call(t.Context(), f.client(), drain.Request{Path: "a", Timeout: 1, Again: true})
	if n := f.node("t/a"); !errors.Is(err, api.ErrConflict) || n.State != "restarting" {
		t.Errorf("%v, and it is %s", err, n.State)
	}
}

// Restart requests of hooks do not bypass decisions after a failure, and cannot make an agent loop.
func TestRequestRestartInHooks(t *testing.T) {
	t.Parallel()
	const ask = `coppice agent request-restart 2>> said.$COPPICE_HOOK; echo $? >> said.$COPPICE_HOOK`
	once := `backoff = { kind = "fixed", base = "1h", cap = "1h" }`
	f := newFleet(t, chatterTOML("fails", `exit 3`, once, fmt.Sprintf("on_error = %q", ask)),
		chatterTOML("cannot", `exec sleep 1000`, once, `on_waking = "exit 4"`, fmt.Sprintf("on_error = %q", ask)),
		chatterTOML("wakes", `exec sleep 1000`, fmt.Sprintf("on_waking = { timeout = \"1s\", command = %q }", "date +%s%N >> woken; "+`[ $COPPICE_INCARNATION -gt 3 ] || { coppice agent request-restart && exec sleep 1000; }`)))
	f.up()
	for _, path := range []string{"t/fails", "t/cannot"} {
		n := f.awaitState(path, "restarting")
		if n.Incarnation != 1 || n.Restarts != 1 {
			t.Errorf("%+v", n)
		}
	}
	if got := f.read("said.on_error"); strings.Count(got, "has failed; its restart policy decides") != 2 || strings.Count(got, "1\n") != 2 {
		t.Errorf("%s", got)
	}
	f.awaitNode("t/wakes", "runs", func(n status.Node) bool { return n.State == "running" })
	var woken []int64
	for _, line := range strings.Fields(f.read("woken")) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		woken = append(woken, n)
	}
	if len(woken) != 4 || time.Duration(woken[3]-woken[0]) < 2500*time.Millisecond {
		t.Errorf("it woke at %v", woken)
	}
}

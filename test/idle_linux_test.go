package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status"
)

// idlerTOML returns an agent that does nothing.
func idlerTOML(name string, keys ...string) string {
	return agentTOML(name, "echo up; exec sleep 1000", append([]string{`idle_timeout = "300ms"`}, keys...)...)
}

// An agent that neither reads nor writes is killed and restarted, and that counts for its limit.
func TestIdleKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idlerTOML("a", "max_restarts = 3", `restart_window = "1h"`),
		agentTOML("chatty", "while :; do echo x; sleep 0.02; done", `idle_timeout = "30s"`))
	f.up()
	f.awaitState("t/a", "quarantined")
	killed := f.events(event.AgentIdleKilled, "t/a")
	if len(killed) != 3 {
		t.Fatalf("killed %d times, want 3", len(killed))
	}
	var data map[string]float64
	if err := json.Unmarshal(killed[0].Data, &data); err != nil || data["idle_seconds"] <= 0.3 || data["idle_timeout_seconds"] != 0.3 {
		t.Errorf("%s: %v", killed[0].Data, err)
	}
	if n := f.node("t/chatty"); n.State != "running" || n.Incarnation != 1 {
		t.Errorf("who is not idle: %+v", n)
	}
}

// Waiting for a person is not idling. Idle time counts from the answer.
func TestIdleWaitingForPerson(t *testing.T) {
	t.Parallel()
	f := newFleet(t, idlerTOML("clock", "max_restarts = 4", `restart_window = "1h"`),
		agentTOML("asks", `[ $COPPICE_INCARNATION = 1 ] && coppice agent ask "Go on?" > answer; exec sleep 1000`, `idle_timeout = "300ms"`))
	f.up()
	q := f.awaitQuestion(1)
	f.awaitState("t/clock", "quarantined") // it takes four times as long
	if n := f.node("t/asks"); n.Incarnation != 1 || n.NeedsInput == nil {
		t.Fatalf("who waits for a person: %+v", n)
	}
	f.do("answer", q.ID, "yes")
	eventually(t, "its next incarnation", func() bool { return f.node("t/asks").Incarnation >= 2 })
	if killed := f.events(event.AgentIdleKilled, "t/asks"); len(killed) == 0 {
		t.Error("it was not because it was idle")
	}
}

// Idle time continues across daemons.
func TestIdleOutlivesDaemon(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"proc", "tmux"} {
		t.Run(runtime, func(t *testing.T) {
			if runtime == "tmux" {
				needTmux(t)
			}
			f := newFleet(t, agentTOML("a", "echo up; exec sleep 1000", `idle_timeout = "5s"`, `runtime = "`+runtime+`"`, `restart = "temporary"`))
			f.up()
			n := f.awaitState("t/a", "running")
			eventually(t, "its output", func() bool { out, _ := f.try("logs", "t/a"); return out != "" })
			said := time.Now()
			f.crash()
			// As long as a new count would still take when the old one is over.
			eventually(t, "some time", func() bool { return time.Since(said) > 4*time.Second })
			f.up()
			eventually(t, "its end", func() bool { return len(f.events(event.AgentIdleKilled, "t/a")) > 0 })
			e := f.events(event.AgentIdleKilled, "t/a")[0]
			var data map[string]float64
			if err := json.Unmarshal(e.Data, &data); err != nil || e.Incarnation != n.Incarnation {
				t.Fatalf("%+v: %v", e, err)
			}
			var status status.Status
			if err := json.Unmarshal([]byte(f.do("status", "--json")), &status); err != nil {
				t.Fatal(err)
			}
			alone := e.Time.Sub(status.Controller.StartedAt).Seconds()
			if idle := data["idle_seconds"]; idle <= 5 || idle < alone+2 {
				t.Errorf("idle for %gs, this daemon is there for %gs", idle, alone)
			}
		})
	}
}

// A changed idle time applies to running agents.
func TestIdleTimeoutChanged(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "echo up; exec sleep 1000", `restart = "temporary"`))
	f.up()
	f.awaitState("t/a", "running")
	file := filepath.Join(f.dir, "coppice.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(slices.Concat(text, []byte("idle_timeout = \"300ms\"\n"))))
	eventually(t, "its end", func() bool { return len(f.events(event.AgentIdleKilled, "t/a")) == 1 })
	if e := f.events(event.AgentIdleKilled, "t/a")[0]; e.Incarnation != 1 {
		t.Errorf("%+v", e)
	}
}

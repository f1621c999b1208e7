package test

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
)

// An order that restarts an agent on its own events would loop forever. The restarts count for the
// limit of the agent, which finally holds it and names the order; only a person lifts that.
func TestOrderThatTriggersItself(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exec sleep 1000", "max_restarts = 5", `restart_window = "1h"`), agentTOML("b", "exec sleep 1000"), `
[[order]]
name = "again"
on = "agent.started"
path = "a"
exec = "coppice restart a"
[[order]]
name = "lift"
exec = "coppice start a"
gate = "manual"
[[order]]
name = "more"
on = "task.created"
exec = "coppice task add more"
[[order]]
name = "made"
on = "task.created"
task = "made"
enabled = false
[[order]]
name = "once"
exec = "coppice restart b"
gate = "manual"
`)
	f.try("up", "-d") // it may report the end of this
	if n := f.awaitState("t/a", "quarantined"); n.Incarnation != 5 {
		t.Errorf("incarnation %d, the limit is 5 starts", n.Incarnation)
	}
	const why = "started too often by order again"
	if out := f.do("status"); !strings.Contains(out, "t/a quarantined: "+why+"; 5/5 starts in 1h") {
		t.Errorf("status:\n%s", out)
	} else if !strings.Contains(out, "-> coppice order show again, then coppice reset t/a\n") {
		t.Errorf("status does not name the order:\n%s", out)
	}
	if out := f.do("explain", "a"); !strings.Contains(out, why) || !strings.Contains(out, "coppice order show again; ") {
		t.Errorf("explain:\n%s", out)
	}
	held := f.events(event.AgentQuarantined, "t/a")
	if len(held) != 1 || !strings.Contains(held[0].Message, why) {
		t.Errorf("events: %v", held)
	}
	asked := f.events(event.AgentRestartRequested, "t/a")
	if len(asked) != 4 || asked[0].Actor != "orders/again" {
		t.Errorf("restarts were asked for by %v", asked)
	}
	if out := f.wantCode(exitFailure, "order", "run", "lift", "--wait"); !strings.Contains(out, "which an order does not lift") {
		t.Errorf("an order lifts it: %s", out)
	}
	if n := f.node("t/a"); n.State != "quarantined" {
		t.Errorf("it is %s", n.State)
	}
	f.do("order", "disable", "again")
	f.do("reset", "a")
	f.awaitState("t/a", "running")

	// Events of a run do not fire its own order.
	f.do("task", "add", "first")
	f.awaitEvent(event.OrderCompleted, "orders/more", 0)
	f.do("order", "disable", "more")
	f.do("order", "enable", "made")
	f.do("task", "add", "second")
	f.awaitEvent(event.OrderCompleted, "orders/made", 0)
	f.do("order", "run", "once", "--wait") // what came before it has been looked at
	for _, name := range []string{"more", "made"} {
		if all := f.events(event.OrderFired, "orders/"+name); len(all) != 1 {
			t.Errorf("order %s has fired %d times", name, len(all))
		}
	}
	by := ""
	for _, e := range f.eventsOf("--type", "task.created") {
		by += e.Actor + " "
	}
	if words := strings.Fields(by); len(words) != 4 || words[1] != "orders/more" || words[3] != "orders/made" {
		t.Errorf("tasks were made by %s", by)
	}

	if n := f.node("t/b"); n.State != "running" || n.Incarnation != 2 {
		t.Errorf("b is %s, incarnation %d", n.State, n.Incarnation)
	}
}

// The same holds for a supervisor and for an agent with an Aidefile.
func TestOrderThatRestartsMoreThanAnAgent(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, "[daemon]\nmax_restarts = 3\n", "exec sleep 1000", `
[supervision]
max_restarts = 4
within_seconds = 3600
[[supervisor]]
name = "s"
children = ["c"]
[[order]]
name = "group"
on = "agent.started"
path = "s/c"
exec = "coppice restart s"
[[order]]
name = "aide"
on = "agent.started"
path = "a"
exec = "coppice restart a"
[[order]]
name = "lift"
exec = "coppice start s"
gate = "manual"
[[order]]
name = "run"
exec = "coppice start a"
gate = "manual"
`+agentTOML("c", "exec sleep 1000"))
	a.try("up", "-d")
	if n := a.awaitState("t/s", "quarantined"); n.InWindow != 4 || !strings.Contains(n.Reason+n.LastExit, "started too often by order group") {
		t.Errorf("the supervisor: %+v", n)
	}
	a.do("start", "a")
	if n := a.awaitState("t/a", "given_up"); n.Incarnation != 4 || !strings.Contains(n.Reason+n.LastExit, "started too often by order aide") {
		t.Errorf("the agent of an Aidefile: %+v, want one run and 3 restarts", n)
	}
	for _, name := range []string{"lift", "run"} {
		if out := a.wantCode(exitFailure, "order", "run", name, "--wait"); !strings.Contains(out, "which an order does not lift") {
			t.Errorf("an order lifts it: %s", out)
		}
	}
	a.do("order", "disable", "group")
	a.do("start", "s")
	a.awaitState("t/s", "running")
}

// Two orders that fire each other do so once. If the cause cannot be traced, the rate is bounded
// and a person is asked.
func TestOrdersThatFireEachOther(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exec sleep 1000"), `
[[order]]
name = "ping"
on = "task.created"
exec = "coppice task add ping"
[[order]]
name = "pong"
on = "order.completed"
path = "orders/ping"
task = "pong"
[[order]]
name = "call"
exec = "coppice order run callee --wait"
gate = "manual"
[[order]]
name = "callee"
exec = "coppice order run call"
gate = "manual"
[[order]]
name = "busy"
on = "mail.sent"
task = "read it"
`)
	f.do("up", "-d")
	f.do("task", "add", "first")
	pong := f.awaitEvent(event.OrderFired, "orders/pong", 0)
	f.awaitEvent(event.OrderCompleted, "orders/pong", pong.Seq)
	if !strings.Contains(string(pong.Data), `"causes":["ping"]`) {
		t.Errorf("pong was fired: %s", pong.Data)
	}
	f.wantCode(exitFailure, "order", "run", "call", "--wait") // what came before it has been looked at
	if out := f.do("order", "history", "callee", "-o"); !strings.Contains(out, "it has led to the order that asks for it: call, callee") {
		t.Errorf("an order runs what has led to it: %s", out)
	}
	for _, name := range []string{"ping", "pong", "call", "callee"} {
		if all := f.events(event.OrderFired, "orders/"+name); len(all) != 1 {
			t.Errorf("order %s has fired %d times", name, len(all))
		}
	}

	f.do("order", "disable", "ping")
	c := f.client()
	for n := 0; len(f.events(event.OrderPaced, "orders/busy")) == 0 && n < 100; n++ {
		for range 20 {
			if _, err := mail.Send.Call(t.Context(), c, mail.SendRequest{To: "t/a", Subject: "news", Body: "x"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(f.events(event.OrderFired, "orders/busy")); n != 60 {
		t.Errorf("busy was fired %d times", n)
	}
	if out := f.do("order", "show", "busy"); !strings.Contains(out, "fired too often") {
		t.Errorf("show: %s", out)
	}
	f.awaitEvent(event.QuestionAsked, "orders/busy", 0)
	if out := f.do("inbox"); !strings.Contains(out, "Events fire order busy again and again") {
		t.Errorf("inbox: %s", out)
	}
	f.do("answer", "q-1", "disable")
	eventually(t, "busy to be disabled", func() bool {
		o, err := dispatch.Get.Call(t.Context(), c, dispatch.Name{Name: "busy"})
		return err == nil && o.ByHand == "disabled"
	})
}

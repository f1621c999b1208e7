package show

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/supervisor"
)

// header belongs to an event of t/s/a.
var header = supervisor.EventHeader{Supervisor: "t/s", ID: "a", Incarnation: 2}

// everyEvent returns an event of each type, and with each kind of limit.
func everyEvent() []supervisor.Event {
	h, failed := header, supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("exit code 7")}
	root := supervisor.EventHeader{Supervisor: "t", Type: supervisor.SupervisorType}
	return []supervisor.Event{
		supervisor.SupervisorStarted{EventHeader: root},
		supervisor.SupervisorStopping{EventHeader: root, Reason: supervisor.ReasonShutdown},
		supervisor.SupervisorEnded{EventHeader: root, Exit: failed},
		supervisor.ChildStarted{EventHeader: h},
		supervisor.ChildStarted{EventHeader: h, Adopted: true},
		supervisor.ChildExited{EventHeader: h, Exit: supervisor.Exit{Kind: supervisor.Lost, Err: fmt.Errorf("gone")}},
		supervisor.ChildStartFailed{EventHeader: h, Err: fmt.Errorf("no")},
		supervisor.ChildIgnored{EventHeader: h},
		supervisor.ChildExited{EventHeader: h, Exit: failed},
		supervisor.ChildExited{EventHeader: h, Exit: supervisor.Exit{Kind: supervisor.Normal}},
		supervisor.ChildStopping{EventHeader: h},
		supervisor.ChildStopped{EventHeader: h, Exit: failed},
		supervisor.ChildAbandoned{EventHeader: h},
		supervisor.ChildReturned{EventHeader: h, Exit: failed},
		supervisor.ChildMisbehaved{EventHeader: h, Err: fmt.Errorf("no")},
		supervisor.LimitReached{EventHeader: h, Exit: failed},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.Quarantining(5, time.Hour), Until: time.Unix(1, 0)},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.GivingUp(3)},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.Pausing(3, time.Hour)},
		supervisor.LimitLifted{EventHeader: h}, supervisor.ChildChanged{EventHeader: h},
		supervisor.EventsLost{EventHeader: root, N: 3},
	}
}

// The docs page documents each type of --json with all of its data, and no others.
func TestTypesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/output.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z_]+)` \\| .* \\|(.*)\\|$").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	made := map[string]bool{"agent.output": true}
	for _, e := range everyEvent() {
		entry, _ := journal.Translate(e)
		kind, data := string(entry.Type), map[string]any{}
		if err := entry.Decode(&data); err != nil {
			t.Fatal(err)
		}
		row, ok := documented[kind]
		if !ok {
			row, ok = documented[strings.Replace(kind, "supervisor.", "agent.", 1)]
		}
		if !ok {
			t.Errorf("%T becomes %s, which is not documented", e, kind)
		}
		made[kind] = true
		for key := range data {
			if !strings.Contains(row, "`"+key+"`") && !(strings.Contains(row, "the decision") && (key == "decision" || key == "reason")) {
				t.Errorf("%s has %s, which is not documented", kind, key)
			}
		}
	}
	for kind := range documented {
		if !made[kind] {
			t.Errorf("%s is documented, but nothing becomes it", kind)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	crash := supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("exit code 7")}
	limit := supervisor.Exit{Kind: supervisor.Failure, Err: &supervisor.LimitError{Path: "t/s", Child: "a", Limit: supervisor.Escalating(3, time.Minute), Exit: crash}}
	root := supervisor.EventHeader{Supervisor: "t"}
	for _, test := range []struct {
		event supervisor.Event
		want  string
	}{
		{supervisor.SupervisorStarted{EventHeader: root}, "started"},
		{supervisor.SupervisorStarted{EventHeader: supervisor.EventHeader{Supervisor: "t/s"}}, ""},
		{supervisor.SupervisorStopping{EventHeader: root, Reason: supervisor.ReasonShutdown}, "stopping everything"},
		{supervisor.SupervisorStopping{EventHeader: root, Reason: supervisor.ReasonDone}, "stopping everything: all children are done"},
		{supervisor.SupervisorStopping{EventHeader: root, Err: limit.Err}, "stopping everything: limit reached by a (exit code 7)"},
		{supervisor.SupervisorEnded{EventHeader: root}, ""},
		{supervisor.ChildStarted{EventHeader: header}, "started"},
		{supervisor.ChildStarted{EventHeader: header, Adopted: true}, "taken over, incarnation 2"},
		{supervisor.ChildStarted{EventHeader: header, Restart: true}, "restarted, incarnation 2"},
		{supervisor.ChildExited{EventHeader: header, Exit: crash, Uptime: 1500 * time.Millisecond,
			Decision: supervisor.Decision{Action: supervisor.RestartIt, Reason: supervisor.ReasonPermanent, Delay: time.Second, Attempt: 2}},
			"ended after 1.5s: exit code 7; restart in 1s (attempt 2): it always restarts"},
		{supervisor.ChildExited{EventHeader: header, Exit: crash, Uptime: time.Second,
			Decision: supervisor.Decision{Action: supervisor.HoldIt, Reason: supervisor.ReasonLimitQuarantine, Delay: time.Hour}},
			"ended after 1.0s: exit code 7; held for 1h0m0s: limit reached, quarantined until the window has room"},
		{supervisor.ChildExited{EventHeader: header, Exit: supervisor.Exit{Kind: supervisor.Normal},
			Decision: supervisor.Decision{Action: supervisor.Leave, Reason: supervisor.ReasonTransientClean}},
			"ended after 0s: completed; not restarted: ended well, restarts on failure only"},
		{supervisor.ChildExited{EventHeader: header, Exit: limit, Decision: supervisor.Decision{Action: supervisor.Forget, Reason: supervisor.ReasonTemporary}},
			"ended after 0s: limit reached by a (exit code 7); not restarted: it never restarts"},
		{supervisor.ChildExited{EventHeader: header, Exit: crash, Decision: supervisor.Decision{Action: supervisor.EndSelf, Reason: supervisor.ReasonLimitEscalate}},
			"ended after 0s: exit code 7; limit reached, escalated to the parent"},
		{supervisor.ChildStopping{EventHeader: header, Reason: supervisor.ReasonShutdown}, "stopping"},
		{supervisor.ChildStopping{EventHeader: header, Reason: supervisor.ReasonSibling}, "stopping: a sibling failed and the strategy restarts both"},
		{supervisor.ChildStopped{EventHeader: header, Exit: supervisor.Exit{Kind: supervisor.ShutDown}}, "stopped"},
		{supervisor.ChildStopped{EventHeader: header, Exit: supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled}}, "stopped: killed"},
		{supervisor.ChildChanged{EventHeader: header, State: supervisor.Suspended, Reason: supervisor.ReasonStopped}, "stopped: stopped by hand"},
		{supervisor.ChildChanged{EventHeader: header, State: supervisor.Suspended, Reason: supervisor.ReasonManual}, "stopped: asked for by hand"},
		{supervisor.ChildChanged{EventHeader: header, State: supervisor.Suspended, Reason: supervisor.ReasonSuspended},
			"suspended: suspended until it is resumed"},
		{supervisor.EventsLost{EventHeader: root, N: 3}, "3 events were lost: too many at once"},
	} {
		if _, got := describe(test.event); got != test.want {
			t.Errorf("%T: %q, want %q", test.event, got, test.want)
		}
	}
	for _, e := range everyEvent() {
		if _, text := describe(e); strings.ContainsAny(text, "\n") {
			t.Errorf("%T is described by %q", e, text)
		}
	}
}

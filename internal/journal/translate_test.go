package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestExitData: what a program can read of an end, without reading prose.
func TestExitData(t *testing.T) {
	var long []string
	for i := range 12 {
		long = append(long, fmt.Sprintf("\x1b[31mline %d", i))
	}
	for name, c := range map[string]struct {
		exit supervisor.Exit
		want map[string]any
	}{
		"normal": {supervisor.Exit{Kind: supervisor.Normal}, map[string]any{"exit": "normal"}},
		"announced": {
			agent.AnnotateExit(supervisor.Exit{Kind: supervisor.Normal}, sdnotify.Notice{Stopping: time.Now(), Status: "bye"}),
			map[string]any{"exit": "normal", "announced": true, "status_text": "bye"},
		},
		"announced, and a signal": {
			agent.AnnotateExit(supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGTERM}}, sdnotify.Notice{Stopping: time.Now()}),
			map[string]any{"exit": "failure", "error": "ended by SIGTERM, as announced", "signal": "SIGTERM", "announced": true},
		},
		"announced, and a code": {
			agent.AnnotateExit(supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 3}}, sdnotify.Notice{Stopping: time.Now(), Errno: 28, Status: "no space"}),
			map[string]any{"exit": "failure", "error": "exit code 3", "code": 3, "errno": 28, "status_text": "no space"},
		},
		"announced, and failed": {
			agent.AnnotateExit(supervisor.Exit{Kind: supervisor.Failure, Err: &agent.UnhealthyError{Reason: health.ErrTriggered, Exit: &proc.ExitError{Code: -1, Signal: syscall.SIGABRT}}}, sdnotify.Notice{Stopping: time.Now()}),
			map[string]any{"exit": "failure", "error": health.ErrTriggered.Error(), "signal": "SIGABRT"},
		},
		"nothing said": {agent.AnnotateExit(supervisor.Exit{Kind: supervisor.Normal}, sdnotify.Notice{Status: "idle"}), map[string]any{"exit": "normal"}},
		"error":        {supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}, map[string]any{"exit": "failure", "error": "boom"}},
		"code": {
			supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("agent: %w", &proc.ExitError{Code: 7, LastOutput: []string{"a", "\x1b]0;title\ab"}})},
			map[string]any{"exit": "failure", "error": "agent: exit code 7", "code": 7, "last_output": []string{"a", "b"}},
		},
		"signal": {
			supervisor.Exit{Kind: supervisor.Killed, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGKILL}},
			map[string]any{"exit": "killed", "error": "ended by SIGKILL", "signal": "SIGKILL"},
		},
		"much output": {
			supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1, LastOutput: long}},
			map[string]any{"exit": "failure", "error": "exit code 1", "code": 1, "last_output": []string{
				"line 2", "line 3", "line 4", "line 5", "line 6", "line 7", "line 8", "line 9", "line 10", "line 11",
			}},
		},
	} {
		if d := cmp.Diff(inJSON(t, c.want), inJSON(t, agent.EventEnd(c.exit))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// inJSON returns the object that v becomes in JSON.
func inJSON(t *testing.T, v any) (object map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// everyEvent has each type of event of supervisors in each of its forms, about an agent or a supervisor.
func everyEvent(typ supervisor.ChildType) []supervisor.Event {
	h := supervisor.EventHeader{Supervisor: "t", ID: "a", Incarnation: 2, Type: typ}
	failed := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}
	waits := supervisor.Exit{Kind: supervisor.Failure, Err: &supervisor.RetryError{At: time.Now(), Err: errors.New("no quota")}}
	retry := supervisor.Decision{Action: supervisor.RestartIt, Reason: supervisor.ReasonRetry, Delay: time.Hour}
	return []supervisor.Event{
		supervisor.SupervisorStarted{EventHeader: h}, supervisor.SupervisorStopping{EventHeader: h},
		supervisor.SupervisorEnded{EventHeader: h},
		supervisor.ChildStarted{EventHeader: h, Took: time.Second},
		supervisor.ChildStarted{EventHeader: h, Adopted: true},
		supervisor.ChildStartFailed{EventHeader: h, Err: failed.Err, Took: time.Second},
		supervisor.ChildIgnored{EventHeader: h},
		supervisor.ChildExited{EventHeader: h, Exit: failed},
		supervisor.ChildExited{EventHeader: h, Exit: waits, Decision: retry},
		supervisor.ChildStartFailed{EventHeader: h, Err: waits.Err, Decision: retry},
		supervisor.ChildExited{EventHeader: h, Exit: supervisor.Exit{Kind: supervisor.Normal}},
		supervisor.ChildExited{EventHeader: h, Exit: supervisor.Exit{Kind: supervisor.Lost}},
		supervisor.ChildStopping{EventHeader: h}, supervisor.ChildStopped{EventHeader: h, Uptime: time.Second},
		supervisor.ChildChanged{EventHeader: h}, supervisor.ChildAbandoned{EventHeader: h},
		supervisor.ChildReturned{EventHeader: h}, supervisor.ChildMisbehaved{EventHeader: h, Err: failed.Err},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.Escalating(3, time.Minute)},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.Quarantining(5, time.Hour)},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.GivingUp(3)},
		supervisor.LimitReached{EventHeader: h, Limit: supervisor.Pausing(3, time.Hour)},
		supervisor.LimitLifted{EventHeader: h}, supervisor.EventsLost{EventHeader: h, N: 3},
	}
}

// TestTranslate: every event of a supervisor has a type of the catalogue, with the data that is documented.
func TestTranslate(t *testing.T) {
	fields := map[event.Type]string{}
	for _, s := range event.Catalogue() {
		for _, e := range s.Entries {
			fields[e.Type] = " " + strings.Join(e.Fields, "\n ") + " "
		}
	}
	walked, got := map[string]bool{}, map[event.Type]bool{}
	for _, typ := range []supervisor.ChildType{supervisor.Worker, supervisor.SupervisorType} {
		for _, e := range everyEvent(typ) {
			walked[reflect.TypeOf(e).Name()] = true
			entry, text := Translate(e)
			kind := entry.Type
			if text == "" || strings.Contains(text, "\n") || entry.Message != "t/a "+text {
				t.Errorf("%T is described by %q, and stored as %q", e, text, entry.Message)
			}
			if !kind.Declared() || kind == event.Unnamed {
				t.Errorf("%T has type %q", e, kind)
			}
			got[kind] = true
			for name := range inJSON(t, entry.Data) {
				of := event.Type(strings.Replace(string(kind), "supervisor.", "agent.", 1))
				if !strings.Contains(fields[kind]+fields[of], " "+name+" ") {
					t.Errorf("%s has %s, which the catalogue does not tell of", kind, name)
				}
			}
		}
	}
	for _, name := range eventsOfSupervisors(t) {
		if !walked[name] {
			t.Errorf("%s is not walked through", name)
		}
	}
	for _, want := range []event.Type{
		event.AgentAbandoned, event.AgentIgnored, event.AgentLost, event.AgentMisbehaved, event.AgentReturned, event.AgentChanged,
		event.SupervisorAbandoned, event.SupervisorAdopted, event.SupervisorChanged, event.SupervisorCrashed, event.SupervisorExited,
		event.SupervisorGaveUp, event.SupervisorIgnored, event.SupervisorLimitReached, event.SupervisorLost,
		event.SupervisorMisbehaved, event.SupervisorPaused, event.SupervisorQuarantined, event.SupervisorReleased,
		event.SupervisorReturned, event.SupervisorStartFailed, event.SupervisorStopping, event.SupervisorStopped,
		event.AgentLimitReached, event.AgentStopping, event.EventsLost, event.AgentWaiting, event.SupervisorWaiting,
	} {
		if !got[want] {
			t.Errorf("nothing is %s", want)
		}
	}
}

// eventsOfSupervisors are the names of the types that implement supervisor.Event: they embed its header.
func eventsOfSupervisors(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../supervisor/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok && len(s.Fields.List) > 0 {
			embedded, _ := s.Fields.List[0].Type.(*ast.Ident)
			if s.Fields.List[0].Names == nil && embedded != nil && embedded.Name == "EventHeader" {
				names = append(names, spec.Name.Name)
			}
		}
		return true
	})
	if len(names) < 15 {
		t.Fatalf("only %v", names)
	}
	return names
}

package spans

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spanid"
)

// t0 is when the tests begin.
var t0 = time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)

// at returns an event some seconds after t0. Its data is JSON; empty for none.
func at(second int, t event.Type, path string, incarnation uint64, data string) event.Event {
	return event.Event{Time: t0.Add(time.Duration(second) * time.Second), Type: t, Path: path,
		Incarnation: incarnation, Data: json.RawMessage(data), Message: "secret", Actor: "secret"}
}

// show returns a span as text.
func show(s Span) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v+%v", s.Name, s.Start.Sub(t0), s.End.Sub(s.Start))
	if s.Failed {
		fmt.Fprintf(&b, " FAILED: %s", s.Reason)
	}
	for _, a := range s.Attributes {
		fmt.Fprintf(&b, "\n%s=%v", a.Key, a.Value.AsInterface())
	}
	for _, e := range s.Events {
		fmt.Fprintf(&b, "\n%v %s", e.At.Sub(t0), e.Name)
		for _, a := range e.Attributes {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value.AsInterface())
		}
	}
	for _, l := range s.Links {
		fmt.Fprintf(&b, "\nlink %s %v", l.ID.Traceparent()[:8], l.Attributes[0].Value.AsInterface())
	}
	return b.String()
}

// feed gives events to a Builder, and returns the spans.
func feed(b *Builder, all ...event.Event) (made []Span) {
	for i, e := range all {
		e.Seq = uint64(i + 1)
		if s := b.Add(e); s != nil {
			made = append(made, *s)
		}
	}
	return made
}

func TestIncarnations(t *testing.T) {
	const path = "shop/web/api"
	head := "coppice.agent.path=shop/web/api\ncoppice.supervisor=shop/web\ncoppice.incarnation="
	for name, c := range map[string]struct {
		events []event.Event
		want   string
	}{
		"it crashes after a slow start": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{"restart":false,"start_seconds":2.5}`),
			at(20, event.AgentCrashed, path, 1, `{"exit":"failure","code":3,"error":"secret","last_output":["secret"],
				"decision":"restart","reason":"permanent","uptime_seconds":10,"status_text":"secret"}`),
		}, "agent shop/web/api 7.5s+12.5s FAILED: exit code 3\n" + head + "1\ncoppice.exit.kind=failure\n" +
			"coppice.exit.code=3\ncoppice.decision=restart\ncoppice.rule=permanent\nerror.type=failure"},
		"it is killed, as a restart": {[]event.Event{
			at(10, event.AgentStarted, path, 4, `{"restart":true}`),
			at(20, event.AgentCrashed, path, 4, `{"exit":"killed","signal":"SIGKILL","decision":"held"}`),
		}, "agent shop/web/api 10s+10s FAILED: signal SIGKILL\n" + head + "4\ncoppice.exit.kind=killed\n" +
			"coppice.exit.signal=SIGKILL\ncoppice.decision=held\nerror.type=killed\n" +
			"link 00-7755e previous_incarnation"},
		"it is stopped, which is no failure": {[]event.Event{
			at(10, event.AgentFired, path, 0, `{"trigger":"schedule","task":"secret"}`),
			at(10, event.AgentStarted, path, 1, `{}`),
			at(11, event.AgentNudged, path, 1, `{"how":"terminal","text":"secret","error":"secret"}`),
			at(12, event.QuestionAsked, path, 1, `{"id":"q-1","question":"secret"}`),
			at(13, event.MailSent, path, 1, `{"subject":"secret"}`),
			at(14, event.QuestionAnswered, path, 0, `{"id":"q-1","by":"secret","answer":"secret"}`),
			at(15, event.AgentDraining, path, 1, `{"reason":"secret"}`),
			at(15, event.AgentNudged, path, 2, `{}`), at(15, event.AgentNudged, path+"2", 1, `{}`),
			at(16, event.AgentDrainEnded, path, 1, `{"finished":true}`),
			at(17, event.AgentOverdue, path, 1, `{"waited_seconds":1.5,"pid":1}`),
			at(18, event.AgentStopped, path, 1, `{"exit":"killed","signal":"SIGKILL","reason":"stopped by hand"}`),
		}, "agent shop/web/api 10s+8s\n" + head + "1\ncoppice.trigger=schedule\ncoppice.exit.kind=killed\n" +
			"coppice.exit.signal=SIGKILL\ncoppice.rule=stopped by hand\n11s agent.nudged coppice.how=terminal\n" +
			"12s question.asked coppice.id=q-1\n14s question.answered coppice.id=q-1\n15s agent.draining\n" +
			"16s agent.drain_ended coppice.finished=true\n17s agent.overdue coppice.waited_seconds=1.5"},
		"it calls models": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{}`),
			at(11, event.CostCounted, path, 1, `{"cli":"claude","model":"haiku","session":"s1","calls":1,
				"usage":{"input":1,"cache_read":10,"cache_write":100,"output":5,"dollars":0.25}}`),
			at(12, event.CostCounted, path, 1, `{"cli":"claude","model":"opus","session":"s2","calls":1,"task":"T-1",
				"usage":{"input":1,"cache_read":0,"cache_write":0,"output":5,"dollars":0.5}}`),
			at(13, event.CostCounted, path, 1, `{"calls":2}`), at(13, event.CostCounted, path, 2, `{"calls":9}`),
			at(20, event.AgentExited, path, 1, `{"exit":"normal","code":0}`),
		}, "invoke_agent api 10s+10s\n" + head + "1\ncoppice.exit.kind=normal\ncoppice.exit.code=0\n" +
			"gen_ai.operation.name=invoke_agent\ngen_ai.agent.name=api\ngen_ai.provider.name=anthropic\n" +
			"gen_ai.request.model=opus\ngen_ai.conversation.id=s2\ncoppice.calls=4\n" +
			"gen_ai.usage.input_tokens=112\ngen_ai.usage.cache_read.input_tokens=10\n" +
			"gen_ai.usage.cache_creation.input_tokens=100\ngen_ai.usage.output_tokens=10\ncoppice.dollars=0.75"},
		"what its call has used is not known": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{}`),
			at(13, event.CostCounted, path, 1, `{"cli":"opencode","calls":1}`),
			at(20, event.AgentWaiting, path, 1, `{"exit":"failure","code":75,"decision":"restart"}`),
		}, "invoke_agent api 10s+10s\n" + head + "1\ncoppice.exit.kind=failure\ncoppice.exit.code=75\n" +
			"coppice.decision=restart\ngen_ai.operation.name=invoke_agent\ngen_ai.agent.name=api\n" +
			"gen_ai.provider.name=opencode\ncoppice.calls=1"},
		"it does not start": {[]event.Event{
			at(10, event.AgentStartFailed, path, 1, `{"error":"secret","decision":"restart","start_seconds":4}`),
		}, "agent shop/web/api 6s+4s FAILED: it could not be started, or was not ready in time\n" + head + "1\n" +
			"coppice.decision=restart\nerror.type=start_failed"},
		"its start is older than the log": {[]event.Event{
			at(10, event.AgentStopped, path, 9, `{"exit":"shutdown","uptime_seconds":60}`),
		}, "agent shop/web/api -50s+1m0s\n" + head + "9\ncoppice.exit.kind=shutdown"},
		"it is lost, and its end is before its start": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{"late":true}`), at(9, event.AgentLost, path, 1, `{"exit":"lost"}`),
		}, "agent shop/web/api 10s+0s FAILED: it is gone, and its exit is not known\n" + head + "1\n" +
			"coppice.exit.kind=lost\nerror.type=lost"},
		"it cannot be killed, and ends later": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{}`), at(20, event.AgentAbandoned, path, 1, `{"waited_seconds":5}`),
			at(30, event.AgentReturned, path, 1, `{"exit":"killed"}`),
		}, "agent shop/web/api 10s+10s FAILED: it could not be killed\n" + head + "1\nerror.type=abandoned"},
		"it waits, and has not run": {[]event.Event{at(10, event.AgentWaiting, path, 1, `{"error":"no quota"}`)}, ""},
		"it stays down":             {[]event.Event{at(10, event.AgentStopped, path, 1, ``)}, ""},
		"another incarnation has begun": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{}`), at(11, event.AgentStopped, path, 2, ``),
		}, ""},
		"another log": {[]event.Event{
			at(10, event.AgentStarted, path, 1, `{}`), at(10, event.EventsReset, "", 0, `{}`),
			at(11, event.AgentStopped, path, 1, `{"exit":"shutdown"}`),
		}, ""},
		"nothing makes sense": {[]event.Event{
			at(10, event.AgentStarted, path, math.MaxUint64, `{"start_seconds":-1e300,"restart":"x"}`),
			at(11, event.AgentNudged, path, 0, `[]`), at(11, event.CostCounted, path, 0, `"x"`),
			at(12, event.AgentCrashed, path, math.MaxUint64, `{"exit":7,"code":"x","uptime_seconds":1e300}`),
		}, "agent shop/web/api 10s+2s FAILED: it has failed\n" + head + "9223372036854775807\nerror.type=_OTHER\n" +
			"11s agent.nudged"},
	} {
		var all []string
		for _, s := range feed(New("n"), c.events...) {
			if s.ID != spanid.Incarnation("n", path, s.incarnation(t)) && s.incarnation(t) != math.MaxInt64 {
				t.Errorf("%s: ID %v", name, s.ID)
			}
			all = append(all, show(s))
		}
		if diff := cmp.Diff(c.want, strings.Join(all, "\n\n")); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func (s Span) incarnation(t *testing.T) uint64 {
	t.Helper()
	for _, a := range s.Attributes {
		if a.Key == keyIncarnation {
			return uint64(a.Value.AsInt64())
		}
	}
	t.Fatalf("%+v", s)
	return 0
}

// The number of events of a span is bounded.
func TestManyEvents(t *testing.T) {
	b := New("n")
	feed(b, at(1, event.AgentStarted, "t/a", 1, `{}`))
	for range maxEvents + 7 {
		b.Add(at(2, event.AgentNudged, "t/a", 1, `{"how":"x"}`))
	}
	got := show(*b.Add(at(3, event.AgentStopped, "t/a", 1, `{}`)))
	if n := strings.Count(got, "agent.nudged"); n != maxEvents || !strings.Contains(got, "coppice.events.dropped=7") {
		t.Errorf("%d events: %s", n, got)
	}
}

// A Builder that begins with the oldest event of another one knows the same.
func TestOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []event.Type{event.AgentStarted, event.AgentNudged, event.AgentStopped, event.AgentCrashed,
			event.CostCounted, event.ControllerStarted}
		incarnations := map[string]uint64{}
		var log []event.Event
		for i := range rapid.IntRange(0, 60).Draw(t, "events") {
			path := rapid.SampledFrom([]string{"t/a", "t/b", "t/c"}).Draw(t, "path")
			e := at(i, rapid.SampledFrom(types).Draw(t, "type"), path, 0, `{"calls":1,"uptime_seconds":1}`)
			if e.Type == event.AgentStarted {
				incarnations[path]++
			}
			e.Incarnation, e.Seq = incarnations[path], uint64(i+1)
			log = append(log, e)
		}
		cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
		first, second := New("n"), New("n")
		for _, e := range log[:cut] {
			first.Add(e)
		}
		if oldest := first.Oldest(); oldest > 0 {
			for _, e := range log[oldest-1 : cut] {
				second.Add(e)
			}
		}
		for _, e := range log[cut:] {
			a, b := first.Add(e), second.Add(e)
			if diff := cmp.Diff(shown(a), shown(b)); diff != "" {
				t.Fatalf("%v: %s", e, diff)
			}
		}
	})
}

func shown(s *Span) string {
	if s == nil {
		return ""
	}
	return show(*s)
}

// Whatever is in an event, a span is bounded and valid.
func FuzzAdd(f *testing.F) {
	f.Add("agent.nudged", "t/a", `{"how":"x"}`)
	f.Add("agent.crashed", "t/\xffa", `{"exit":"\u001b[31m","signal":"x"}`)
	f.Add("cost.counted", "t/a", `{"model":"x","calls":-1,"usage":{"input":-1}}`)
	f.Fuzz(func(t *testing.T, typ, path, data string) {
		b := New("n")
		feed(b, at(1, event.AgentStarted, path, 1, `{}`), at(2, event.Type(typ), path, 1, data))
		for _, s := range feed(b, at(3, event.AgentCrashed, path, 1, data)) {
			text := show(s)
			if !utf8.ValidString(text) || len(text) > 20_000 || s.End.Before(s.Start) {
				t.Errorf("%d bytes: %.300q", len(text), text)
			}
			if i := slices.IndexFunc([]rune(text), func(r rune) bool { return r < ' ' && r != '\n' }); i >= 0 {
				t.Errorf("control characters: %.300q", text)
			}
		}
	})
}

package outcome

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		condition Condition
		agent     string // the error of an outcome; empty if there is none
		person    string // the error of a condition that a person sets
	}{
		{Condition{EventOccurs, "task.closed"}, "", ""},
		{Condition{EventOccurs, "agent.*, order.failed:web/api"}, "", ""},
		{Condition{EventOccurs, "agent.crash"}, `did you mean "agent.crashed"?`, `did you mean "agent.crashed"?`},
		{Condition{EventOccurs, "task.closed,"}, `there is no event type ""`, `there is no event type ""`},
		{Condition{EventOccurs, "[:x"}, "is not a pattern of event types", "is not a pattern of event types"},
		{Condition{EventOccurs, strings.Repeat("x", MaxCondition+1)}, "has 4097 bytes, expected at most 4096",
			"has 4097 bytes, expected at most 4096"},
		{Condition{CommandSucceeds, "test -e x"}, "condition.kind is command, which only people can set", ""},
		{Condition{CommandSucceeds, "a\x00b"}, "only people can set", "has a zero byte"},
		{Condition{CommandSucceeds, " "}, "only people can set", "missing condition.what"},
		{Condition{ServiceUp, "the registry"}, "", ""},
		{Condition{TimeComes, "soon"}, "expected a time", "expected a time"},
		{Condition{"events", "task.closed"}, `did you mean "event"?`, `expected one of task, time, service, event, person, command`},
	} {
		_, err := New(Report{Kind: Blocked, Context: fullContext(), Condition: &tt.condition})
		for _, got := range []struct {
			err  error
			want string
		}{{err, tt.agent}, {CheckCondition(tt.condition), tt.person}} {
			if (got.err != nil) != (got.want != "") || got.err != nil && !strings.Contains(got.err.Error(), got.want) {
				t.Errorf("%.100q: %v, want %q", tt.condition, got.err, got.want)
			}
		}
	}
}

func TestEventFilter(t *testing.T) {
	got := Condition{EventOccurs, " agent.*, order.failed : /web/api/ "}.EventFilter()
	want := event.Filter{Types: []string{"agent.*", "order.failed"}, Path: "web/api"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestParseCondition(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]Condition{
		"service=registry":    {ServiceUp, "registry"},
		"command=test a = b":  {CommandSucceeds, "test a = b"},
		"time=1h":             {TimeComes, "2030-01-02T04:04:05Z"},
		"person=pay the bill": {PersonHas, "pay the bill"},
	} {
		if got, err := ParseCondition(text, now); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "registry", "time=soon"} {
		if got, err := ParseCondition(text, now); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

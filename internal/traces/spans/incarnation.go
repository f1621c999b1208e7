package spans

import (
	"cmp"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spanid"
)

// incarnation is an incarnation that runs.
type incarnation struct {
	number  uint64
	seq     uint64 // of the event of its start
	start   time.Time
	restart bool
	trigger string
	events  []Event
	dropped int // events that had no room
	used
}

// used is what the calls of an incarnation have used.
type used struct {
	cli, model, session string // of the last call whose is known
	calls               int64
	known               bool // what some call has used
	usage               event.Usage
}

func (b *Builder) started(e event.Event) {
	var data event.Started
	if e.Decode(&data) != nil {
		data = event.Started{}
	}
	delete(b.running, e.Path)
	trigger := b.triggers[e.Path]
	delete(b.triggers, e.Path)
	if len(b.running) >= maxRunning {
		return
	}
	b.running[e.Path] = &incarnation{
		number: e.Incarnation, seq: e.Seq, start: e.Time.Add(-seconds(data.StartSeconds)), restart: data.Restart,
		trigger: trigger,
	}
}

// called adds what a call has used.
func (b *Builder) called(e event.Event) {
	i := b.of(e)
	var data event.Counted
	if i == nil || e.Decode(&data) != nil {
		return
	}
	i.cli, i.model = cmp.Or(data.CLI, i.cli), cmp.Or(data.Model, i.model)
	i.session = cmp.Or(data.Session, i.session)
	i.calls = agentcli.Add(i.calls, max(0, data.Calls))
	if u := data.Usage; u != nil {
		i.known = true
		i.usage = event.Usage{
			Input: agentcli.Add(i.usage.Input, u.Input), CacheRead: agentcli.Add(i.usage.CacheRead, u.CacheRead),
			CacheWrite: agentcli.Add(i.usage.CacheWrite, u.CacheWrite), Output: agentcli.Add(i.usage.Output, u.Output),
			Dollars: i.usage.Dollars + u.Dollars,
		}
	}
}

// end is the data of all events that end an incarnation.
type end struct {
	Exit          string  `json:"exit"`
	Code          *int64  `json:"code"`
	Signal        string  `json:"signal"`
	Decision      string  `json:"decision"`
	Reason        string  `json:"reason"` // a rule
	UptimeSeconds float64 `json:"uptime_seconds"`
	StartSeconds  float64 `json:"start_seconds"`
}

// ended returns the span of an incarnation; nil if it is not known when it began.
func (b *Builder) ended(e event.Event) *Span {
	var data end
	if e.Decode(&data) != nil {
		data = end{}
	}
	i := b.of(e)
	if i == nil || i.number != e.Incarnation {
		ran := seconds(data.UptimeSeconds)
		if e.Type == event.AgentStartFailed {
			ran = seconds(data.StartSeconds)
		}
		if ran == 0 && e.Type != event.AgentStartFailed { // it has not run at all, or that is not known
			return nil
		}
		i = &incarnation{number: e.Incarnation, start: e.Time.Add(-ran), trigger: b.triggers[e.Path]}
	} else {
		delete(b.running, e.Path)
	}
	s := &Span{
		ID: spanid.Incarnation(b.numbering, e.Path, e.Incarnation), Start: i.start, End: later(e.Time, i.start),
		Name: plaintext.OneLine("agent "+e.Path, maxName), Events: i.events,
	}
	var all attributes
	all.text(keyPath, e.Path)
	all.text(keySupervisor, parent(e.Path))
	all.number(keyIncarnation, clamp(e.Incarnation))
	all.text(keyTrigger, i.trigger)
	all.text(keyExit, data.Exit)
	if data.Code != nil {
		all.number(keyCode, *data.Code)
	}
	all.text(keySignal, data.Signal)
	all.text(keyDecision, data.Decision)
	all.text(keyRule, data.Reason)
	if i.dropped > 0 {
		all.number(keyDropped, int64(i.dropped))
	}
	if i.calls > 0 {
		s.Name = plaintext.OneLine(invokeAgent+" "+lastSegment(e.Path), maxName)
		i.addTo(&all, lastSegment(e.Path))
	}
	if s.Reason = failure(e.Type, data); s.Reason != "" {
		s.Failed = true
		all.text(errorType, failureType(e.Type, data))
	}
	if i.restart && e.Incarnation > 1 {
		s.Links = []Link{{spanid.Incarnation(b.numbering, e.Path, e.Incarnation-1),
			[]attribute.KeyValue{keyLink.String("previous_incarnation")}}}
	}
	s.Attributes = all
	return s
}

// addTo adds what an agent has used that calls language models.
func (u *used) addTo(all *attributes, name string) {
	all.text(genAIOperation, invokeAgent)
	all.text(genAIAgent, name)
	all.text(genAIProvider, provider(u.cli))
	all.text(genAIModel, u.model)
	all.text(genAIConversation, u.session)
	all.number(keyCalls, u.calls)
	if !u.known {
		return
	}
	all.number(genAIInput, agentcli.Add(u.usage.Input, agentcli.Add(u.usage.CacheRead, u.usage.CacheWrite)))
	all.number(genAICacheRead, u.usage.CacheRead)
	all.number(genAICacheWrite, u.usage.CacheWrite)
	all.number(genAIOutput, u.usage.Output)
	if u.usage.Dollars > 0 {
		*all = append(*all, keyDollars.Float64(u.usage.Dollars))
	}
}

// failure describes a failure in words of Coppice; empty if it is none. What was asked for is none.
func failure(t event.Type, data end) string {
	switch t {
	case event.AgentStartFailed:
		return "it could not be started, or was not ready in time"
	case event.AgentAbandoned:
		return "it could not be killed"
	case event.AgentLost:
		return "it is gone, and its exit is not known"
	case event.AgentCrashed:
		switch {
		case data.Signal != "":
			return "signal " + plaintext.OneLine(data.Signal, maxText)
		case data.Code != nil:
			return fmt.Sprintf("exit code %d", *data.Code)
		}
		return "it has failed"
	}
	return ""
}

// failureType returns the error.type of a failure: the kind of the exit, start_failed or abandoned.
func failureType(t event.Type, data end) string {
	switch t {
	case event.AgentStartFailed:
		return "start_failed"
	case event.AgentAbandoned:
		return "abandoned"
	}
	return cmp.Or(data.Exit, "_OTHER")
}

// maxSeconds is more than any agent runs.
const maxSeconds = 1e9

// seconds returns a duration, 0 if it makes no sense.
func seconds(n float64) time.Duration {
	if !(n > 0 && n < maxSeconds) {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clamp returns a number as attributes have it.
func clamp(n uint64) int64 { return int64(min(n, 1<<63-1)) }

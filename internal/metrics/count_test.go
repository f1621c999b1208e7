package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Which series an event changes.
func TestCount(t *testing.T) {
	restart := event.Exited{Decision: event.Decision{Decision: "restart", DelaySeconds: 2}}
	limit := func(on, supervisor string) []string {
		return []string{fmt.Sprintf(`limits_reached_total{supervisor=%q,on_limit=%q} +1`, supervisor, on)}
	}
	exit := func(outcome string, more ...string) []string {
		return append([]string{fmt.Sprintf(`agent_exits_total{agent="s/g/a",outcome=%q} +1`, outcome)}, more...)
	}
	for _, tt := range []struct {
		of   event.Type
		path string
		data any
		want []string // besides the event itself
	}{
		{event.AgentStarted, "s/g/a", event.Started{}, []string{`agent_starts_total{agent="s/g/a",reason="start"} +1`}},
		{event.AgentStarted, "s/g/a", event.Started{Restart: true},
			[]string{`agent_starts_total{agent="s/g/a",reason="restart"} +1`}},
		{event.AgentAdopted, "s/g/a", nil, []string{`agent_starts_total{agent="s/g/a",reason="adoption"} +1`}},
		{event.AgentStartFailed, "s/g/a", event.StartFailed{Decision: restart.Decision}, []string{
			`agent_start_failures_total{agent="s/g/a"} +1`, `restart_delay_seconds +1`, `restart_delay_seconds sum +2`}},
		{event.AgentExited, "s/g/a", event.Exited{}, exit("exited")},
		{event.AgentExited, "s/g/a", restart,
			exit("exited", `restart_delay_seconds +1`, `restart_delay_seconds sum +2`)},
		{event.AgentCrashed, "s/g/a", restart,
			exit("crashed", `restart_delay_seconds +1`, `restart_delay_seconds sum +2`)},
		{event.AgentCrashed, "s/g/a", event.Exited{Decision: event.Decision{Decision: "held", DelaySeconds: 2}},
			exit("crashed")},
		{event.AgentLost, "s/g/a", event.Exited{}, exit("lost")},
		{event.AgentStopped, "s/g/a", event.Stopped{}, exit("stopped")},
		{event.AgentWaiting, "s/g/a", event.Exited{}, exit("waiting")},
		{event.AgentAbandoned, "s/g/a", event.Abandoned{}, exit("abandoned")},
		{event.AgentLimitReached, "s/g/a", event.LimitReached{}, limit("escalate", "s/g")},
		{event.AgentQuarantined, "s/g/a", event.LimitReached{}, limit("quarantine", "s/g")},
		{event.AgentGaveUp, "s/a", event.LimitReached{}, limit("give_up", "s")},
		{event.SupervisorPaused, "s/g", event.LimitReached{}, limit("pause", "s/g")},
		{event.SupervisorLimitReached, "s/g", event.LimitReached{}, limit("escalate", "s/g")},
		{event.SupervisorQuarantined, "s/g", event.LimitReached{}, limit("quarantine", "s/g")},
		{event.SupervisorGaveUp, "s/g", event.LimitReached{}, limit("give_up", "s/g")},
		{event.OrderFailed, "orders/backup", nil, []string{`orders_failed_total{order="backup"} +1`}},
		{event.OrderCompleted, "orders/backup", nil,
			[]string{`order_last_success_timestamp_seconds{order="backup"} +1.7643984e+09`}},
		{event.EventsDropped, "", event.Dropped{Count: 7}, []string{`events_dropped_total +7`}},
		{event.EventsLost, "s", event.Lost{Count: 3}, []string{`events_dropped_total +3`}},
		{event.AgentNudged, "s/g/a", nil, nil},
		{event.SupervisorStarted, "s/g", nil, nil},
		{event.SupervisorCrashed, "s/g", restart, nil},
		{event.TaskClosed, "", map[string]any{"id": "t-1"}, nil},
		{"other.kind", "s/g/a", nil, []string{"-"}},
		// Data of another form changes nothing that depends on it.
		{event.AgentCrashed, "s/g/a", "text", exit("crashed")},
		{event.EventsDropped, "", []int{1}, nil},
	} {
		m := New(newParts().Options)
		before := countersOf(t, m)
		e := event.Event{Type: tt.of, Path: tt.path, Time: start}
		if tt.data != nil {
			e = e.With(tt.data)
		}
		m.Count(e)
		want := []string{fmt.Sprintf(`events_total{type=%q} +1`, tt.of)}
		if !tt.of.Declared() {
			want = nil
		} else {
			want = append(want, tt.want...)
		}
		slices.Sort(want)
		if got := changes(before, countersOf(t, m)); !slices.Equal(got, want) {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.of, tt.data, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// countersOf returns what was counted so far, also of agents that no scrape shows.
func countersOf(t *testing.T, m *Metrics) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		f.Metric = nil
	}
	m.show(m.daemon)
	for _, b := range []*bounded{m.agents, m.supervisors, m.orders} {
		for _, s := range b.all {
			m.show(s)
		}
	}
	all, err := m.gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range all {
		byName[f.GetName()] = f
	}
	return values(byName)
}

// The recovery time is that from the first crash to the next incarnation that is ready.
func TestRecovery(t *testing.T) {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, tt := range map[string]struct {
		events []event.Event
		want   map[string]float64
	}{
		"a crash": {[]event.Event{
			{Type: event.AgentCrashed, Path: "s/a", Time: at(0)}, {Type: event.AgentStarted, Path: "s/a", Time: at(3)},
		}, map[string]float64{"recovery_seconds": 1, "recovery_seconds sum": 3}},
		"two agents": {[]event.Event{
			{Type: event.AgentCrashed, Path: "s/a", Time: at(0)}, {Type: event.AgentLost, Path: "s/b", Time: at(1)},
			{Type: event.AgentStarted, Path: "s/b", Time: at(3)}, {Type: event.AgentStarted, Path: "s/a", Time: at(4)},
		}, map[string]float64{"recovery_seconds": 2, "recovery_seconds sum": 6}},
		"crashes and failed starts in a row": {[]event.Event{
			{Type: event.AgentCrashed, Path: "s/a", Time: at(0)},
			{Type: event.AgentStartFailed, Path: "s/a", Time: at(1)},
			{Type: event.AgentCrashed, Path: "s/a", Time: at(2)},
			{Type: event.AgentQuarantined, Path: "s/a", Time: at(2)},
			{Type: event.AgentStarted, Path: "s/a", Time: at(9)}, {Type: event.AgentStarted, Path: "s/a", Time: at(20)},
		}, map[string]float64{"recovery_seconds": 1, "recovery_seconds sum": 9}},
		"stopped by a person": {[]event.Event{
			{Type: event.AgentCrashed, Path: "s/a", Time: at(0)}, {Type: event.AgentChanged, Path: "s/a", Time: at(1)},
			{Type: event.AgentStarted, Path: "s/a", Time: at(3)},
		}, map[string]float64{}},
		"waits for a quota": {[]event.Event{
			{Type: event.AgentWaiting, Path: "s/a", Time: at(0)}, {Type: event.AgentStarted, Path: "s/a", Time: at(3)},
		}, map[string]float64{}},
		"a clock that was set back": {[]event.Event{
			{Type: event.AgentCrashed, Path: "s/a", Time: at(5)}, {Type: event.AgentStarted, Path: "s/a", Time: at(3)},
		}, map[string]float64{"recovery_seconds": 1}},
	} {
		m := New(newParts().Options)
		for _, e := range tt.events {
			m.Count(e)
		}
		got := values(scrape(t, m))
		for _, key := range []string{"recovery_seconds", "recovery_seconds sum"} {
			if got[key] != tt.want[key] {
				t.Errorf("%s: %s is %v, want %v", name, key, got[key], tt.want[key])
			}
		}
		if len(m.down) != 0 {
			t.Errorf("%s: %v is kept", name, m.down)
		}
	}
}

// Events of a real log are counted once, from the one after which Run begins, also those that were not read yet.
func TestRun(t *testing.T) {
	log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(context.Background())
	log.Append(event.Event{Type: event.AgentNudged, Path: "s/a"})
	if err := log.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, before, err := log.Last(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newParts()
	p.Follow = log.Follow
	m := New(p.Options)
	for range 300 {
		log.Append(event.Event{Type: event.AgentNudged, Path: "s/a"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		m.Run(ctx, before)
		close(done)
	}()
	for range 300 {
		log.Append(event.Event{Type: event.AgentNudged, Path: "s/a"})
	}
	for values(scrape(t, m))[`events_total{type="agent.nudged"}`] < 600 {
	}
	cancel()
	<-done
	if n := values(scrape(t, m))[`events_total{type="agent.nudged"}`]; n != 600 {
		t.Errorf("%v events", n)
	}
}

// After an error it goes on, and what a log that was made again repeats is not counted again.
func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nudge := func(seq uint64, seconds int) event.Event {
			return event.Event{Seq: seq, Type: event.AgentNudged, Time: start.Add(time.Duration(seconds) * time.Second)}
		}
		reads := [][]event.Event{
			{nudge(6, 1), nudge(7, 3)},
			{{Seq: 0, Type: event.EventsReset, Time: start.Add(time.Minute)}, nudge(1, 1), nudge(2, 3), nudge(3, 4)},
		}
		var from []uint64
		p := newParts()
		p.Follow = func(ctx context.Context, after uint64, _ event.Filter) iter.Seq2[event.Event, error] {
			from = append(from, after)
			return func(yield func(event.Event, error) bool) {
				if len(reads) == 0 {
					<-ctx.Done()
					yield(event.Event{}, ctx.Err())
					return
				}
				for _, e := range reads[0] {
					if !yield(e, nil) {
						return
					}
				}
				reads = reads[1:]
				yield(event.Event{}, errors.New("the disk has gone"))
			}
		}
		m := New(p.Options)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			m.Run(ctx, 5)
			close(done)
		}()
		time.Sleep(time.Minute)
		cancel()
		<-done
		got := values(scrape(t, m))
		if n := got[`events_total{type="agent.nudged"}`]; n != 3 || got[`events_total{type="events.reset"}`] != 1 {
			t.Errorf("%v nudges", n)
		}
		if want := []uint64{5, 7, 3}; !slices.Equal(from, want) {
			t.Errorf("it has read from %v, want %v", from, want)
		}
	})
}

// What calls have used is counted by model, and what is not known is not 0.
func TestUsed(t *testing.T) {
	p := newParts()
	p.nodes = []status.Node{agentNode("s/a")}
	m := New(p.Options)
	before := values(scrape(t, m))
	m.Used(cost.Used{Agent: "s/a", CLI: "claude", Version: "2.1", Counts: cost.Counts{Calls: 1}, Unknown: 2,
		Models: agentcli.Models{
			"opus": {Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Dollars: .5}, "": {Output: 5},
		}})
	m.Used(cost.Used{Agent: "s/a", Counts: cost.Counts{Calls: 2, UnknownTokens: 2, UnknownDollars: 2},
		Models: agentcli.Models{"": {}}})
	m.Used(cost.Used{Agent: "s/a", Counts: cost.Counts{Runs: 1}}) // no call
	want := []string{
		`calls_total{agent="s/a"} +3`, `cost_usd_total{agent="s/a",model="opus"} +0.5`,
		`tokens_total{agent="s/a",model="opus",type="cache_read"} +3`,
		`tokens_total{agent="s/a",model="opus",type="cache_write"} +4`,
		`tokens_total{agent="s/a",model="opus",type="input"} +1`,
		`tokens_total{agent="s/a",model="opus",type="output"} +2`,
		`tokens_total{agent="s/a",model="unknown",type="output"} +5`,
		`unknown_stream_events_total{cli="claude",version="2.1"} +2`,
		`unmeasured_calls_total{agent="s/a"} +2`, `unpriced_calls_total{agent="s/a"} +2`,
	}
	if got := changes(before, values(scrape(t, m))); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// Agents beyond the bound are summed up by supervisor.
func TestMaxAgents(t *testing.T) {
	p := newParts()
	p.MaxAgents = 2
	for _, path := range []string{"s/g/a", "s/g/b", "s/g/c", "s/g/d", "s/h/e", "s/h/*"} {
		p.nodes = append(p.nodes, agentNode(path))
	}
	p.nodes[3].State, p.nodes[3].StartedAt = "stopped", nil
	m := New(p.Options)
	for _, n := range p.nodes {
		m.Count(event.Event{Type: event.AgentStarted, Path: n.Path})
	}
	of := func() (all []string) {
		for key, v := range values(scrape(t, m)) {
			if strings.HasPrefix(key, "agent_") && !strings.HasPrefix(key, "agent_start_timestamp") {
				all = append(all, fmt.Sprint(key, " ", v))
			}
		}
		slices.Sort(all)
		return all
	}
	want := []string{
		`agent_restarts_in_window{agent="s/g/a"} 3`, `agent_restarts_in_window{agent="s/g/b"} 3`,
		`agent_restarts_limit{agent="s/g/a"} 20`, `agent_restarts_limit{agent="s/g/b"} 20`,
		`agent_starts_total{agent="s/g/*",reason="start"} 2`, `agent_starts_total{agent="s/g/a",reason="start"} 1`,
		`agent_starts_total{agent="s/g/b",reason="start"} 1`, `agent_starts_total{agent="s/h/*",reason="start"} 2`,
		`agent_up{agent="s/g/*"} 1`, `agent_up{agent="s/g/a"} 1`, `agent_up{agent="s/g/b"} 1`,
		`agent_up{agent="s/h/*"} 2`,
	}
	if got := of(); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	p.nodes = p.nodes[1:] // the next agent has room, from the next event on
	of()
	m.Count(event.Event{Type: event.AgentStarted, Path: "s/g/c"})
	if got := of(); !slices.Contains(got, `agent_starts_total{agent="s/g/c",reason="start"} 1`) ||
		!slices.Contains(got, `agent_starts_total{agent="s/g/*",reason="start"} 2`) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// An agent that was removed makes room for another one, even if nobody scrapes meanwhile.
func TestRemoved(t *testing.T) {
	p := newParts()
	p.MaxAgents = 1
	m := New(p.Options)
	for i := range 1000 {
		path := fmt.Sprint("s/pool/", i)
		m.Count(event.Event{Type: event.AgentStarted, Path: path})
		if len(m.agents.all) != 1 || m.agents.all[path] == nil {
			t.Fatalf("%s: %v", path, m.agents.all)
		}
		m.Count(event.Event{Type: event.AgentRemoved, Path: path})
	}
}

// An agent that is called * has no series of its own, since others share these.
func TestStar(t *testing.T) {
	b := newBounded(catalogue(), labelAgent, 1)
	star, a, other := b.of("s/*"), b.of("s/a"), b.of("s/b")
	if star != other || star == a || !star.shared || a.shared {
		t.Errorf("%+v, %+v, %+v", star, a, other)
	}
	b.remove("s/*")
	if b.of("s/*") != star {
		t.Error("what others share is gone")
	}
}

// Command lines choose the names of models and versions, and not how many series there are.
func TestManyModels(t *testing.T) {
	p := newParts()
	p.nodes = []status.Node{agentNode("s/a")}
	m := New(p.Options)
	for i := range 1000 {
		name := fmt.Sprint("n", i)
		m.Used(cost.Used{Agent: "s/a", CLI: agentcli.CLI(name), Version: name, Unknown: 1,
			Counts: cost.Counts{Calls: 1}, Models: agentcli.Models{name: {Input: 1, Dollars: 1}}})
	}
	got := values(scrape(t, m))
	for key, want := range map[string]float64{
		`tokens_total{agent="s/a",model="n7",type="input"}`:    1,
		`tokens_total{agent="s/a",model="other",type="input"}`: 992, `cost_usd_total{agent="s/a",model="other"}`: 992,
		`unknown_stream_events_total{cli="n49",version="n49"}`:     1,
		`unknown_stream_events_total{cli="other",version="other"}`: 950,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}

// Whatever is counted, with scrapes or without: the number of series is bounded, and all of them can be read.
func TestBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newParts()
		p.MaxAgents = rapid.IntRange(1, 5).Draw(rt, "max")
		m := New(p.Options)
		name := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "*", "é\"\\"}), rapid.String())
		for range rapid.IntRange(1, 200).Draw(rt, "events") {
			path := "s/" + name.Draw(rt, "group") + "/" + name.Draw(rt, "agent")
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				m.Used(cost.Used{Agent: path, CLI: agentcli.CLI(name.Draw(rt, "cli")), Unknown: 1,
					Version: name.Draw(rt, "version"), Counts: cost.Counts{Calls: 1},
					Models: agentcli.Models{name.Draw(rt, "model"): {Input: 1}}})
			case 1:
				p.nodes = append(p.nodes, agentNode(path))
			case 2:
				p.nodes = nil
			case 3:
				scrape(t, m)
			default:
				of := rapid.SampledFrom([]event.Type{event.AgentStarted, event.AgentCrashed, event.AgentRemoved,
					event.AgentQuarantined, event.SupervisorPaused, event.OrderFailed}).Draw(rt, "type")
				m.Count(event.Event{Type: of, Path: path, Data: json.RawMessage(`{}`)})
			}
			for _, b := range []*bounded{m.agents, m.supervisors, m.orders} {
				shared := 0
				for _, s := range b.all {
					if s.shared {
						shared++
					}
				}
				if shared != b.shared || shared > b.max+1 || len(b.all)-shared > b.max {
					rt.Fatalf("%s: %d series, %d shared, and %d as counted", b.label, len(b.all), shared, b.shared)
				}
			}
		}
		for _, s := range m.agents.all {
			if len(s.points) > 100 {
				rt.Fatalf("an agent has %d series", len(s.points))
			}
		}
	})
}

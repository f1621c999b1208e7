package cost

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// What was added is told once for each call and run, also if they are read again.
func TestAdded(t *testing.T) {
	s := memory.New()
	defer s.Close()
	var all []Used
	log, err := event.Open(event.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close(t.Context())
	l := New(Options{
		Store: s, Logger: slog.New(slog.DiscardHandler), Added: func(u Used) { all = append(all, u) },
		Event: log.Op,
		Owner: func(string) (string, string) { return "", "" },
		Task:  func(string, uint64) (string, int) { return "T-1", 2 },
	})
	first := call("s", true, agentcli.Models{"opus": {Input: 3, Dollars: .5}})
	first.Version, first.Unknown = "2.1", map[string]int{"new": 2, "newer": 1, "wrong": -1}
	second := call("s", true, agentcli.Models{"opus": {Input: 5, Dollars: .75}})
	run := Run{Agent: "t/a", ID: "1", Incarnation: 1, Calls: []agentcli.Record{first}}
	ended := run
	ended.Calls, ended.Began, ended.Ended = []agentcli.Record{first, second, unknown()}, t0, t0
	for _, r := range []Run{run, run, ended} {
		if err := l.Count(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	one := Counts{Calls: 1, UnknownTurns: 1}
	last := Counts{Calls: 1, UnknownTurns: 1, UnknownTokens: 1, UnknownDollars: 1, Runs: 1}
	want := []Used{
		{"t/a", agentcli.Claude, "2.1", one, agentcli.Models{"opus": {Input: 3, Dollars: .5}}, 3},
		{"t/a", agentcli.Claude, "", one, agentcli.Models{"opus": {Input: 2, Dollars: .25}}, 0},
		{"t/a", agentcli.Copilot, "", last, agentcli.Models{"gpt": {}}, 0},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("%+v", all)
	}
	events, _, err := log.Read(t.Context(), 0, event.Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range events {
		if e.Type != event.CostCounted || e.Path != "t/a" || e.Incarnation != 1 {
			t.Errorf("%v", e)
		}
		told = append(told, e.Message+" "+string(e.Data))
	}
	wantTold := []string{
		`t/a has called opus: 3 tokens {"cli":"claude","model":"opus","session":"s","task":"T-1","attempt":2,` +
			`"calls":1,"usage":{"input":3,"cache_read":0,"cache_write":0,"output":0,"dollars":0.5}}`,
		`t/a has called opus: 2 tokens {"cli":"claude","model":"opus","session":"s","task":"T-1","attempt":2,` +
			`"calls":1,"usage":{"input":2,"cache_read":0,"cache_write":0,"output":0,"dollars":0.25}}`,
		`t/a has called gpt: an unknown number of tokens {"cli":"copilot","model":"gpt","task":"T-1","attempt":2,` +
			`"calls":1}`,
	}
	if !slices.Equal(told, wantTold) {
		t.Errorf("%s", strings.Join(told, "\n"))
	}
}

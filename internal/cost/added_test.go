package cost

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// What was added is told once for each call and run, also if they are read again.
func TestAdded(t *testing.T) {
	s := memory.New()
	defer s.Close()
	var all []Used
	l := New(Options{
		Store: s, Logger: slog.New(slog.DiscardHandler), Added: func(u Used) { all = append(all, u) },
		Owner: func(string) (string, string) { return "", "" },
		Task:  func(string, uint64) (string, int) { return "", 0 },
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
}

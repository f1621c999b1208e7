package fakeagent

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// A call that ends well, or says so, takes as long as the plan says.
func TestPace(t *testing.T) {
	for _, scenario := range []Scenario{OK, Liar, Tool, Split} {
		t.Run(string(scenario), func(t *testing.T) {
			home := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := &player{
					output: output{out: io.Discard, err: io.Discard, stream: true, now: time.Now}, cli: agentcli.Claude,
					item: Item{Scenario: scenario}, set: Setting{Dir: home, Plan: Plan{Pace: time.Minute}},
					prompt: "do it", cwd: home,
					env: func(name string) string { return map[string]string{"HOME": home}[name] },
				}
				p.speaks = &claude{player: p}
				began := time.Now()
				if p.play(); time.Since(began) != time.Minute {
					t.Errorf("it took %v", time.Since(began))
				}
			})
		})
	}
}

package run

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/status"
)

func TestDelayOfReport(t *testing.T) {
	t.Parallel()
	now := time.Now()
	node := func(kind string, age time.Duration) status.Node {
		began := now.Add(-age)
		return status.Node{Kind: kind, StartedAt: &began}
	}
	two := func(a, b time.Duration) []status.Node { return []status.Node{node("agent", a), node("agent", b)} }
	for name, tt := range map[string]struct {
		nodes []status.Node
		delay time.Duration
	}{
		"no agents":                  {[]status.Node{node("supervisor", 0)}, 0},
		"agents that do not run":     {[]status.Node{{Kind: "agent", State: "stopped"}}, 0},
		"one that has failed":        {[]status.Node{{Kind: "agent", State: "restarting"}}, readyDelay},
		"adopted agents":             {[]status.Node{node("supervisor", 0), node("agent", time.Hour)}, 0},
		"an adopted and a new one":   {two(time.Hour, readyDelay/4), readyDelay * 3 / 4},
		"the clock has been set":     {[]status.Node{node("agent", -time.Hour)}, readyDelay},
		"one that has just begun":    {[]status.Node{node("agent", 0)}, readyDelay},
		"one that began long enough": {[]status.Node{node("agent", readyDelay)}, 0},
	} {
		if delay := delayOf(tt.nodes, now); delay != tt.delay {
			t.Errorf("%s: %v, expected %v", name, delay, tt.delay)
		}
	}
}

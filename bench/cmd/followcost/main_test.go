//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

func TestMeasure(t *testing.T) {
	for _, impl := range []string{"raw-walk", "coppice-calls"} {
		for _, cli := range []agentcli.CLI{agentcli.Claude, agentcli.Codex} {
			t.Run(impl+" "+string(cli), func(t *testing.T) {
				t.Parallel()
				row, err := measure(options{
					impl: impl, cli: cli, files: 30, agents: 3, sessions: 2, time: time.Millisecond,
				})
				if err != nil || row.N != 30 || row.Metrics["find_p50_ms"] <= 0 {
					t.Errorf("%+v, %v", row, err)
				}
			})
		}
	}
	for _, bad := range []options{{impl: "none", cli: agentcli.Claude}, {impl: "raw-walk", cli: agentcli.Gemini}} {
		if _, err := measure(bad); err == nil {
			t.Errorf("%+v was measured", bad)
		}
	}
}

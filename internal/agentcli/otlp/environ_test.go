package otlp

import (
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

func TestEnviron(t *testing.T) {
	env := []string{"HOME=/h", "A=1", "COPPICE_TOKEN=SECRET"}
	got := Environ(agentcli.Claude, env, "127.0.0.1:4318")
	if !slices.Contains(got, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318") || !slices.Contains(got, "A=1") ||
		!slices.Contains(got, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20SECRET") || len(env) != 3 {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		cli agentcli.CLI
		env []string
	}{
		{agentcli.Codex, env},
		{agentcli.Plain, env},
		{agentcli.Claude, []string{"A=1"}},
		{agentcli.Claude, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT=https://example.com")},
		{agentcli.Claude, append(env, "OTEL_LOGS_EXPORTER=none")},
		{agentcli.Claude, append(env, "CLAUDE_CODE_ENABLE_TELEMETRY=0")},
	} {
		if got := Environ(c.cli, c.env, "127.0.0.1:4318"); !slices.Equal(got, c.env) {
			t.Errorf("%s, %q: %q", c.cli, c.env, got)
		}
	}
}

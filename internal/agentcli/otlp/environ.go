package otlp

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Environ returns the environment of an incarnation in which its command line exports its logs to the address of a
// Receiver. It is the same for command lines of which nothing is gained, and if it says where to export: the telemetry
// of a user is not redirected.
func Environ(cli agentcli.CLI, env []string, address string) []string {
	secret := ""
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "OTEL_"), name == enable:
			return env
		case name == proc.EnvToken:
			secret = value
		}
	}
	if cli != agentcli.Claude || secret == "" {
		return env
	}
	return append(env[:len(env):len(env)],
		enable+"=1",
		"OTEL_LOGS_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address,
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20"+secret,
		"OTEL_LOGS_EXPORT_INTERVAL=1000") // milliseconds
}

// enable is the variable that has claude export anything.
const enable = "CLAUDE_CODE_ENABLE_TELEMETRY"

package otlp

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Environ returns an environment in which a command line exports its logs to an address of a Receiver, with the token
// of its incarnation. It is returned as it is for command lines of which nothing is gained, and if it says where to
// export: the telemetry of a user is not redirected.
func Environ(cli agentcli.CLI, env []string, address, secret string) []string {
	if cli != agentcli.Claude {
		return env
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "OTEL_") || name == enable {
			return env
		}
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

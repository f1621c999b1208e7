package otlp

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Environ returns the environment of an incarnation in which its command line exports its logs to the address of a
// Receiver. It is the same for command lines of which nothing is gained, and if it says where to export: the telemetry
// of a user is not redirected.
func Environ(cli agentcli.CLI, env []string, address string) []string {
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") || name == enable {
			return env
		}
	}
	secret := secretOf(env)
	if cli != agentcli.Claude || secret == "" {
		return env
	}
	return append(env[:len(env):len(env)], variables(address, secret)...)
}

// variables returns what Environ adds.
func variables(address, secret string) []string {
	return []string{
		enable + "=1",
		"OTEL_LOGS_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address,
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20" + secret,
		"OTEL_LOGS_EXPORT_INTERVAL=1000", // milliseconds
	}
}

// Localize returns an environment that Environ has completed on another machine as it is on this one, where the
// Receiver has another address. If there is none, nothing is exported. What a user has set stays.
func Localize(env []string, address string) []string {
	n := len(variables("", ""))
	for i := range env {
		some := env[i:min(len(env), i+n)]
		there, ok := strings.CutPrefix(some[min(3, len(some)-1)], "OTEL_EXPORTER_OTLP_ENDPOINT=http://")
		if !ok || !slices.Equal(some, variables(there, secretOf(env))) {
			continue
		}
		own := variables(address, secretOf(env))
		if address == "" {
			own = nil
		}
		return slices.Concat(env[:i], own, env[i+n:])
	}
	return env
}

// secretOf returns the token of an agent in its environment; empty if it has none.
func secretOf(env []string) (secret string) {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, proc.EnvToken+"="); ok {
			secret = value
		}
	}
	return secret
}

// enable is the variable that has claude export anything.
const enable = "CLAUDE_CODE_ENABLE_TELEMETRY"

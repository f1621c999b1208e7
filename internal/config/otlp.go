package config

import (
	"net/netip"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func otlpTable() toml.Table[spec.OTLP] {
	return toml.Table[spec.OTLP]{
		Header: "[otlp]",
		Doc: "A receiver for what command lines of language models export over OTLP (OpenTelemetry), while they " +
			"work. It tells what `claude` has spent in dollars before a run ends, and the tokens of sessions in " +
			"terminals. Agents whose command line is `claude` are told to export to it, unless their environment " +
			"has a variable that begins with `OTEL_`. See [Cost](cost.md#dollars-while-a-run-goes-on).",
		Example: `[otlp]
listen = "127.0.0.1:4318"
`,
		Keys: []toml.Key[spec.OTLP]{
			{Name: "listen", Type: "string", Default: "nowhere", Doc: "the address and port of this machine to " +
				"listen on. Another daemon needs another port. A change takes a restart of the daemon",
				Also: []string{"address", "endpoint", "port"},
				Read: readListen(`a loopback address with a port, such as "127.0.0.1:4318"`, netip.Addr.IsLoopback,
					func(o *spec.OTLP) *string { return &o.Listen })},
		},
	}
}

package config

import (
	"net/netip"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func metricsTable() toml.Table[spec.Metrics] {
	return toml.Table[spec.Metrics]{
		Header: "[metrics]",
		Doc: "Metrics for Prometheus at `/metrics`, and health checks at `/livez` and `/readyz`. Everyone who can " +
			"connect to the address can read the names of agents, so prefer a loopback address. See " +
			"[Metrics](metrics.md). A change takes a restart of the daemon.",
		Example: `[metrics]
listen = "127.0.0.1:9464"
`,
		Keys: []toml.Key[spec.Metrics]{
			{Name: "listen", Type: "string", Default: "nowhere", Doc: "the IP address and port to listen on. Another " +
				"daemon needs another port",
				Also: []string{"address", "endpoint", "port", "bind"},
				Read: readListen(`an IP address with a port, such as "127.0.0.1:9464"`,
					func(netip.Addr) bool { return true }, func(m *spec.Metrics) *string { return &m.Listen })},
			{Name: "max_agents", Type: "integer", Default: "1000", Doc: "how many agents have metrics of their own. " +
				"The others are summed up for each supervisor",
				Also: []string{"limit", "max_series", "cardinality"},
				Read: toml.Int(1, spec.MaxMetricsAgents, func(m *spec.Metrics) *int { return &m.MaxAgents })},
		},
	}
}

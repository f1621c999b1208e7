package config

import (
	"net/netip"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func metricsTable() toml.Table[spec.Metrics] {
	return toml.Table[spec.Metrics]{
		Header: "[metrics]",
		Doc: "Metrics for Prometheus at `/metrics`, and health checks at `/livez` and `/readyz`. Whoever can " +
			"connect to the address can read the names of agents, so it should be one of this machine. See " +
			"[Metrics](metrics.md). A change takes a restart of the daemon.",
		Example: `[metrics]
listen = "127.0.0.1:9464"
`,
		Keys: []toml.Key[spec.Metrics]{
			{Name: "listen", Type: "string", Default: "nowhere", Doc: "the IP address and port to listen on. Another " +
				"daemon needs another port",
				Also: []string{"address", "endpoint", "port", "bind"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.Metrics) {
					const expected = `an IP address with a port, such as "127.0.0.1:9464"`
					text, ok := r.Text(v, expected)
					if !ok {
						return
					}
					at, err := netip.ParseAddrPort(text)
					if err != nil || at.Port() == 0 {
						r.Fail(v, "", "listen is %s, expected %s", spec.Quote(text), expected)
						return
					}
					into.Listen = at.String()
				}},
			{Name: "max_agents", Type: "integer", Default: "1000", Doc: "how many agents have metrics of their own. " +
				"The others are summed up for each supervisor",
				Also: []string{"limit", "max_series", "cardinality"},
				Read: toml.Int(1, spec.MaxMetricsAgents, func(m *spec.Metrics) *int { return &m.MaxAgents })},
		},
	}
}

package config

import (
	"net/netip"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func webTable() toml.Table[spec.Web] {
	return toml.Table[spec.Web]{
		Header: "[web]",
		Doc: "The web page, served by the daemon. `coppice web` prints a link that lets a browser in. See " +
			"[The web page](web.md). A change takes a restart of the daemon.",
		Example: `[web]
listen = "127.0.0.1:7391"
`,
		Keys: []toml.Key[spec.Web]{
			{Name: "listen", Type: "string", Default: "nowhere", Doc: "the IP address and port to listen on. Another " +
				"daemon needs another port. On an address that is not of this machine alone, the page is read-only",
				Also: []string{"address", "endpoint", "port", "bind"},
				Read: readListen(`an IP address with a port, such as "127.0.0.1:7391"`,
					func(netip.Addr) bool { return true }, func(w *spec.Web) *string { return &w.Listen })},
			{Name: "read_only", Type: "boolean", Default: "false", Doc: "whether the page only shows the fleet",
				Also: []string{"readonly"},
				Read: toml.Bool(func(w *spec.Web) *bool { return &w.ReadOnly })},
			{Name: "hosts", Type: "array of strings", Default: "[]", Doc: "host names of this machine in URLs, next " +
				"to `localhost` and IP addresses",
				Also: []string{"host", "hostnames", "allowed_hosts"},
				Read: readHosts},
		},
	}
}

// readHosts reads hosts.
func readHosts(r *toml.Reader, v *toml.Value, into *spec.Web) {
	const expected = `an array of host names, such as ["fleet.example.org"]`
	list, ok := r.List(v, expected)
	if !ok {
		return
	}
	if len(list) > spec.MaxWebHosts {
		r.Fail(v, "", "hosts has %d names, expected at most %d", len(list), spec.MaxWebHosts)
		return
	}
	for i, name := range list {
		hint := ""
		if strings.ContainsAny(name, ":/") {
			hint = "leave out the scheme, the port and the path"
		}
		if name != "*" && !isHostname(name) {
			r.Fail(v.Elements[i], hint, "%s is not a host name, expected one such as \"fleet.example.org\"",
				spec.Quote(name))
			return
		}
	}
	into.Hosts = list
}

// isHostname reports whether a name may be that of a host (RFC 1123, section 2.1).
func isHostname(name string) bool {
	if name == "" || len(name) > spec.MaxWebHost {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
			strings.ContainsFunc(label, func(c rune) bool {
				return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
			}) {
			return false
		}
	}
	return true
}

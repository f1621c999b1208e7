package config

import (
	"net/netip"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// readListen returns the read function of an IP address with a port that a server listens on.
func readListen[T any](
	expected string, allowed func(netip.Addr) bool, field func(*T) *string,
) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		text, ok := r.Text(v, expected)
		if !ok {
			return
		}
		at, err := netip.ParseAddrPort(text)
		if err != nil || at.Port() == 0 || !allowed(at.Addr()) {
			r.Fail(v, "", "listen is %s, expected %s", spec.Quote(text), expected)
			return
		}
		*field(into) = at.String()
	}
}

package web

import (
	"crypto/rand"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// URL returns the URL of a page that is served on an address, without a path.
//
// Browsers send cookies to all ports of a host, and agents may well serve something on this machine that a person
// opens. So on a loopback address the host has a name of its own, which browsers resolve to this machine as all names
// below localhost (RFC 6761, section 6.3).
func (s *Server) URL(at *net.TCPAddr) string {
	host := s.host
	switch {
	case at.IP.IsUnspecified():
		host = ownAddress()
	case !at.IP.IsLoopback():
		host = at.IP.String()
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(at.Port))}
	return u.String()
}

// newHost returns a host name below localhost that nobody can guess.
func newHost() string { return "coppice-" + strings.ToLower(rand.Text()[:10]) + ".localhost" }

// ownAddress returns an address of this machine that others may reach.
func ownAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

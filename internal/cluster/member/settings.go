package member

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
)

// DefaultListen is the address on which a node listens for other nodes, unless its settings name another one.
const DefaultListen = ":7420"

// Settings of a node.
type Settings struct {
	Listen    string            `json:"listen"`    // [HOST]:PORT
	Advertise string            `json:"advertise"` // HOST:PORT at which other machines reach the node
	Labels    map[string]string `json:"labels,omitempty"`
	Capacity  int               `json:"capacity,omitempty"` // agents; 0 is no limit
}

// Change is a change of settings. What is empty or nil stays as it is, or gets its default on a new node.
type Change struct {
	Name     string // of a new node
	Hostname string // of this machine, for defaults
	Listen   string
	// Advertise may be an address that only this machine can use, such as 127.0.0.1:7420; a default is never one.
	Advertise string
	Labels    map[string]string // in place of all that there are
	Capacity  *int
}

// InvalidError reports a Change that cannot be made.
type InvalidError struct{ err error }

func (e *InvalidError) Error() string { return e.err.Error() }
func (e *InvalidError) Unwrap() error { return e.err }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Errorf(format, args...)} }

// name returns the name of a node that had another one before, or "" for a new node.
func (c Change) name(before string) (string, error) {
	if c.Name != "" {
		if err := pki.CheckName(c.Name); err != nil {
			return "", &InvalidError{err}
		}
		return c.Name, nil
	}
	if before != "" {
		return before, nil
	}
	name, _, _ := strings.Cut(strings.ToLower(c.Hostname), ".")
	if err := pki.CheckName(name); err != nil {
		return "", invalid("the name of this machine, %.70q, cannot be the name of a node: %w; "+
			"give it one with --name NAME", c.Hostname, err)
	}
	return name, nil
}

// apply returns settings with a change. Those of a new node are zero.
func (c Change) apply(s Settings) (Settings, error) {
	before := s.Listen
	s.Listen = cmp.Or(c.Listen, s.Listen, DefaultListen)
	host, port, err := splitListen(s.Listen)
	if err != nil {
		return s, &InvalidError{err}
	}
	s.Labels = maps.Clone(s.Labels)
	if c.Labels != nil {
		s.Labels = maps.Clone(c.Labels)
	}
	if c.Capacity != nil {
		s.Capacity = *c.Capacity
	}
	switch {
	case c.Advertise != "":
		s.Advertise = c.Advertise
	case s.Advertise == "":
		if s.Advertise, err = c.address(host, port); err != nil {
			return s, err
		}
	default: // the port goes with that of listen
		advertised, oldPort, _ := net.SplitHostPort(s.Advertise)
		if _, listened, _ := net.SplitHostPort(before); oldPort == listened {
			s.Advertise = net.JoinHostPort(advertised, port)
		}
	}
	if err := s.check(); err != nil {
		return s, &InvalidError{err}
	}
	return s, nil
}

// address returns the default address at which other machines reach a node that listens there.
func (c Change) address(host, port string) (string, error) {
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = c.Hostname
	}
	address := net.JoinHostPort(host, port)
	const remedy = "say how other machines reach this one, with --advertise HOST:PORT"
	if err := jointoken.CheckAddress(address); err != nil {
		return "", invalid("%w; %s", err, remedy)
	}
	if IsLocal(address) {
		return "", invalid("%s means each machine itself; %s", address, remedy)
	}
	return address, nil
}

// check returns what is wrong with settings, or nil.
func (s Settings) check() error {
	if _, _, err := splitListen(s.Listen); err != nil {
		return err
	}
	return s.info("", "").Check()
}

func (s Settings) info(version, files string) registry.Info {
	return registry.Info{
		Address: s.Advertise, Labels: maps.Clone(s.Labels), Capacity: s.Capacity, Version: version, Files: files,
	}
}

// splitListen returns the parts of an address to listen on. The host may be empty.
func splitListen(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil || len(address) > jointoken.MaxAddress {
		return "", "", fmt.Errorf("cannot listen on %.100q; expected [HOST]:PORT, such as %s", address, DefaultListen)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", "", fmt.Errorf("cannot listen on %.100q; expected a port from 1 to 65535", address)
	}
	if host == "" {
		return host, port, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host, port, nil
	}
	if jointoken.CheckAddress(address) != nil {
		return "", "", fmt.Errorf("cannot listen on %.100q; expected an IP address or the name of a host before the "+
			"port", address)
	}
	return host, port, nil
}

// IsLocal reports whether an address, HOST:PORT, means each machine itself.
func IsLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback() || ip.Unmap().IsUnspecified()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "localhost.localdomain"
}

// ParseLabels reads labels, each NAME=VALUE. A single empty text means that there are none.
func ParseLabels(texts []string) (map[string]string, error) {
	labels := make(map[string]string, len(texts))
	if len(texts) == 1 && texts[0] == "" {
		return labels, nil
	}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, invalid("%.100q is no label; expected NAME=VALUE", text)
		}
		if _, twice := labels[name]; twice {
			return nil, invalid("label %.100q is given twice", name)
		}
		labels[name] = value
	}
	if err := (registry.Info{Address: "a:1", Labels: labels}).Check(); err != nil {
		return nil, &InvalidError{err}
	}
	return labels, nil
}

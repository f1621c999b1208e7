package rpc

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// What gRPC says of a connection becomes one sentence. What says little gives way to what says more.
func TestExplain(t *testing.T) {
	t.Parallel()
	desc := func(text string) string { return `connection error: desc = "` + text + `"` }
	for _, tt := range []struct {
		text, want string
		vague      bool
	}{
		{desc("transport: Error while dialing: dial tcp 10.0.0.1:2379: connect: connection refused"),
			"nothing listens on 10.0.0.1:2379; start etcd there, or correct the address", false},
		{"last connection error: " +
			desc("transport: Error while dialing: dial tcp [::1]:1: connect: connection refused"),
			"nothing listens on [::1]:1;", false},
		{"connection refused", "nothing listens on it;", false},
		{desc("transport: Error while dialing: dial tcp: lookup etcd.example on 10.0.0.2:53: no such host"),
			"no host has the name etcd.example;", false},
		{desc("transport: Error while dialing: dial tcp: lookup a: i/o timeout"), "the name a cannot be looked up",
			false},
		{desc("transport: Error while dialing: dial tcp 10.0.0.1:2379: i/o timeout"), "10.0.0.1:2379 does not answer",
			false},
		{desc("transport: Error while dialing: dial tcp 10.0.0.1:2379: connect: no route to host"),
			"10.0.0.1:2379 does not answer", false},
		{desc("transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate has " +
			"expired or is not yet valid: current time 2026-01-01T00:00:00Z is after 2025-01-01T00:00:00Z"),
			"not valid here: certificate has expired or is not yet valid: current time", false},
		{desc("error reading server preface: remote error: tls: expired certificate"),
			"etcd does not accept the client certificate (expired certificate)", false},
		{desc("error reading server preface: read tcp 1.1.1.1:1->1.1.1.1:2: use of closed network connection"),
			"says nothing", false},
		{desc("error reading server preface: EOF"), "connections to etcd break off", true},
		{"error reading from server: EOF", "connections to etcd break off", true},
		{"context deadline exceeded", "etcd does not answer in time", true},
		{"context canceled", "the call was given up", true},
		{desc("transport: something new"), "something new", true},
		{"", "", true},
		{"\x1b[2J\n" + strings.Repeat("x", 2*maxText), "x…", true},
	} {
		got, vague := explain(tt.text)
		if !strings.Contains(got, tt.want) || vague != tt.vague || strings.ContainsAny(got, "\x1b\n") ||
			len(got) > maxText {
			t.Errorf("%q: %q, vague: %v; want %q, %v", tt.text, got, vague, tt.want, tt.vague)
		}
		if err := (Error{codes.Unavailable, tt.text}); IsVague(err) != tt.vague || err.Error() != got {
			t.Errorf("%v is vague: %v", err, IsVague(err))
		}
	}
	for err, want := range map[error]string{
		errNoLeader: "until a majority runs", ErrNoSpace: ErrNoSpace.Text,
		malformed("x"): "malformed answer of etcd: x",
	} {
		if got := err.Error(); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if IsVague(errNoLeader) || IsVague(nil) || !IsVague(malformed("x")) {
		t.Error("what etcd says is vague, or a malformed answer is not")
	}
}

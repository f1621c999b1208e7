package rpc

import (
	"errors"
	"regexp"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// cause is a reason that a text of gRPC about a connection stands for.
type cause struct {
	texts []string // any of them is in the text
	also  string   // and this
	// means says it for people. {} is the first group of where, or "it" if that is not in the text.
	means string
	where func() *regexp.Regexp
	vague bool // another attempt may say more
}

var (
	dialled  = lazyregexp.New(`dial tcp ([^ ]+): `)
	lookedUp = lazyregexp.New(`lookup ([^ :]+)`)
	x509     = lazyregexp.New(`x509: ([^"]+)`)
	alert    = lazyregexp.New(`remote error: tls: ([^"]+)`)
)

// causes are those that are known; the first one that fits counts.
var causes = []cause{
	{texts: []string{"connection refused"}, where: dialled,
		means: "nothing listens on {}; start etcd there, or correct the address"},
	{texts: []string{"no such host"}, where: lookedUp, means: "no host has the name {}; correct it"},
	{texts: []string{"lookup "}, where: lookedUp, means: "the name {} cannot be looked up; check the DNS server"},
	{texts: []string{"i/o timeout", "no route to host", "network is unreachable", "deadline exceeded"},
		also: "dial tcp", where: dialled,
		means: "{} does not answer; check that its machine runs and lets this one in"},
	{texts: []string{"signed by unknown authority"}, means: "the certificate of etcd is signed by another authority " +
		"than those that this machine trusts; name its certificate with ca=FILE"},
	{texts: []string{"x509: "}, where: x509,
		means: "the certificate of etcd is not valid here: {}; renew it, or name the members as it does"},
	{texts: []string{"tls: certificate required"},
		means: "etcd wants a client certificate; add cert=FILE and key=FILE to the URL"},
	{texts: []string{"remote error: tls: "}, where: alert,
		means: "etcd does not accept the client certificate ({}); use one that its authority has signed"},
	{texts: []string{"does not look like a TLS handshake"},
		means: "what answers does not speak TLS; begin the URL with etcd://, or correct the port"},
	{texts: []string{"looked like an HTTP/1.1 header"},
		means: "what answers is not etcd, or is its port for other members; correct the port"},
	{texts: []string{"use of closed network connection", "i/o timeout", "deadline exceeded"}, also: "server preface",
		means: "what accepts the connection says nothing; it hangs, or is not etcd"},
	{texts: []string{"EOF", "connection reset", "broken pipe", "closed network connection", "server preface",
		"transport is closing", "closing transport", "handshake failed"}, vague: true,
		means: "connections to etcd break off; check the port, whether it wants TLS (etcds://), and which client " +
			"certificates it takes"},
	{texts: []string{"context deadline exceeded"}, vague: true, means: "etcd does not answer in time"},
	{texts: []string{"context canceled"}, vague: true, means: "the call was given up"},
}

// explain says in one sentence what a text of gRPC means, which nests those of Go. vague means that another attempt may
// say more.
func explain(text string) (sentence string, vague bool) {
	for i := range causes {
		if c := &causes[i]; c.fits(text) {
			return c.say(text), c.vague
		}
	}
	if _, inner, ok := strings.Cut(text, `desc = "`); ok {
		text = strings.TrimSuffix(inner, `"`)
	}
	return plaintext.OneLine(strings.TrimPrefix(text, "transport: "), maxText), true
}

func (c *cause) fits(text string) bool {
	for _, t := range c.texts {
		if strings.Contains(text, t) && strings.Contains(text, c.also) {
			return true
		}
	}
	return false
}

func (c *cause) say(text string) string {
	if c.where == nil {
		return c.means
	}
	at := "it"
	if found := c.where().FindStringSubmatch(text); found != nil {
		at = strings.TrimSpace(found[1])
	}
	return plaintext.OneLine(strings.ReplaceAll(c.means, "{}", at), maxText)
}

// IsVague reports whether an error of a connection says less than that of another attempt may.
func IsVague(err error) bool {
	var e Error
	if !errors.As(err, &e) || e.isOfEtcd() {
		return false
	}
	_, vague := explain(e.Text)
	return vague
}

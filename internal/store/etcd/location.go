package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
)

const (
	defaultPort   = "2379"
	defaultPrefix = "coppice"
	maxEndpoints  = 32
	maxLocation   = 8 << 10 // bytes of its text
	maxFile       = 1 << 20 // bytes of a certificate, key or password file
)

// Location says where a store in etcd is and how to get in.
type Location struct {
	Endpoints []string // host:port of members
	Prefix    string   // of all keys
	TLS       bool
	// The names of files, each of which may be empty: certificates of authorities that sign those of the members (those
	// of the system if empty), and a certificate of the client with its key.
	CA, Cert, Key string
	// User is a user of etcd, with the name of the file that has its password. A client certificate is enough if its
	// common name is that of a user.
	User, PasswordFile string
}

// schemes are those of URLs, and whether they mean TLS.
var schemes = map[string]bool{"etcd": false, "etcds": true}

// IsLocation reports whether text means a store in etcd.
func IsLocation(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	_, known := schemes[scheme]
	return found && known
}

// ParseLocation parses a URL such as etcd://a,b:2379,c/prefix or
// etcds://user@a,b,c/prefix?ca=ca.pem&cert=client.pem&key=client.key&password_file=password. The port is 2379 and the
// prefix is coppice, unless they are given. It does not read the files. Its errors do not repeat the whole URL, which
// may have a password by mistake.
func ParseLocation(text string) (Location, error) {
	if len(text) > maxLocation {
		return Location{}, fmt.Errorf("%d bytes, at most %d are allowed", len(text), maxLocation)
	}
	return parse(text)
}

func parse(text string) (l Location, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	withTLS, known := schemes[scheme]
	if !found || !known {
		return l, errors.New("expected etcd://HOST[:PORT][,...][/PREFIX], or etcds:// for TLS")
	}
	l.TLS = withTLS
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, _ := strings.Cut(rest, "/")
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		user := hosts[:i]
		if hosts = hosts[i+1:]; strings.Contains(user, ":") {
			return l, errors.New("a password does not belong here, where others see it: write it into a file and add " +
				"?password_file=FILE")
		}
		if l.User, err = url.QueryUnescape(user); err != nil || l.User == "" {
			return l, fmt.Errorf("expected a name of a user before the @, have %q", user)
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		endpoint, err := parseEndpoint(host)
		if err != nil {
			return l, err
		}
		if slices.Contains(l.Endpoints, endpoint) {
			return l, fmt.Errorf("%s is named twice", endpoint)
		}
		l.Endpoints = append(l.Endpoints, endpoint)
	}
	if len(l.Endpoints) > maxEndpoints {
		return l, fmt.Errorf("%d members, at most %d can be named", len(l.Endpoints), maxEndpoints)
	}
	if l.Prefix, err = url.PathUnescape(prefix); err != nil {
		return l, fmt.Errorf("prefix %q: %w", prefix, err)
	}
	if l.Prefix == "" {
		l.Prefix = defaultPrefix
	}
	if err := store.CheckKey(l.Prefix); err != nil {
		return l, fmt.Errorf("prefix: %w", err)
	}
	return l, l.parseQuery(query)
}

// parseEndpoint returns host:port.
func parseEndpoint(text string) (string, error) {
	host, port := text, defaultPort
	if strings.HasSuffix(text, "]") { // an IPv6 address without a port
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	} else if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", fmt.Errorf("%q is not HOST or HOST:PORT; an IPv6 address needs brackets", text)
		}
	}
	bad := func(r rune) bool { return !strings.ContainsRune("-._:%", r) && !isWord(r) }
	if host == "" || strings.ContainsFunc(host, bad) {
		return "", fmt.Errorf("%q is not HOST or HOST:PORT", text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("%q: expected a port from 1 to 65535", text)
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.FormatUint(n, 10)), nil
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 127
}

func (l *Location) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("after the ?: %w", err)
	}
	files := map[string]*string{"ca": &l.CA, "cert": &l.Cert, "key": &l.Key, "password_file": &l.PasswordFile}
	for name, all := range values {
		to, known := files[name]
		if !known || len(all) != 1 || all[0] == "" {
			return fmt.Errorf("after the ?: expected ca, cert, key or password_file, once each, with the name of a "+
				"file; have %s=%s", name, strings.Join(all, ","))
		}
		*to = all[0]
	}
	switch {
	case !l.TLS && (l.CA != "" || l.Cert != "" || l.Key != ""):
		return errors.New("ca, cert and key are for TLS: begin with etcds://")
	case (l.Cert == "") != (l.Key == ""):
		return errors.New("cert and key need each other")
	case (l.User == "") != (l.PasswordFile == ""):
		return errors.New("a user and password_file need each other: etcd://USER@HOST?password_file=FILE")
	}
	return nil
}

// WithoutPassword returns text without what may be a password before an @.
func WithoutPassword(text string) string {
	if scheme, rest, found := strings.Cut(text, "://"); found {
		if i := strings.LastIndex(rest, "@"); i >= 0 && strings.Contains(rest[:i], ":") {
			return scheme + "://...@" + rest[i+1:]
		}
	}
	return text
}

// Same reports whether two locations are certainly the same one. Another name of a host is not recognised.
func (l Location) Same(other Location) bool {
	return l.Prefix == other.Prefix && slices.ContainsFunc(l.Endpoints, func(e string) bool {
		return slices.Contains(other.Endpoints, e)
	})
}

// In returns the location with the names of files relative to dir made absolute.
func (l Location) In(dir string) Location {
	for _, file := range []*string{&l.CA, &l.Cert, &l.Key, &l.PasswordFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	return l
}

// String returns the URL of the location. It has no secrets.
func (l Location) String() string {
	var b strings.Builder
	b.WriteString("etcd")
	if l.TLS {
		b.WriteByte('s')
	}
	b.WriteString("://")
	if l.User != "" {
		b.WriteString(url.QueryEscape(l.User) + "@")
	}
	b.WriteString(strings.Join(l.Endpoints, ",") + "/" + (&url.URL{Path: l.Prefix}).EscapedPath())
	query := url.Values{}
	files := map[string]string{"ca": l.CA, "cert": l.Cert, "key": l.Key, "password_file": l.PasswordFile}
	for name, file := range files {
		if file != "" {
			query.Set(name, file)
		}
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// withoutFiles returns the location without the names of files.
func (l Location) withoutFiles() Location {
	l.CA, l.Cert, l.Key, l.PasswordFile = "", "", "", ""
	return l
}

// userText names for people the user by whom etcd knows this program.
func (l Location) userText() string {
	switch {
	case l.User != "":
		return "user " + plaintext.Line(l.User)
	case l.Cert != "":
		return "the user that the client certificate names"
	}
	return "a program without a user"
}

// tls reads the certificates. It returns nil without TLS.
func (l Location) tls() (*tls.Config, error) {
	if !l.TLS {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.CA != "" {
		pem, err := private.ReadLinked(l.CA, maxFile)
		if err != nil {
			return nil, fmt.Errorf("ca of the store: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca of the store: %s has no certificate in PEM format", l.CA)
		}
	}
	if l.Cert != "" {
		cert, err := private.ReadLinked(l.Cert, maxFile)
		if err != nil {
			return nil, fmt.Errorf("cert of the store: %w", err)
		}
		key, err := private.ReadLinked(l.Key, maxFile)
		if err != nil {
			return nil, fmt.Errorf("key of the store: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert %s and key %s of the store: %w", l.Cert, l.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (l Location) password() (string, error) {
	if l.PasswordFile == "" {
		return "", nil
	}
	text, err := private.ReadLinked(l.PasswordFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("password_file of the store: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("password_file of the store: %s is empty", l.PasswordFile)
	}
	return password, nil
}

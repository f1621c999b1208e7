// Package jointoken makes, reads and checks the tokens with which machines join a fleet.
//
// A token has the hash of the authority's certificate, by which the machine recognises the fleet, a secret, by which
// the fleet recognises the machine, and addresses of nodes. It is one word:
//
//	coppice1-ID-BODY
//
// ID names the token to people and in logs. BODY is in base32, in lower case, and has in this order: its length in
// bytes (2 bytes), the SHA-256 of the certificate (32), the secret (20), the number of addresses (1), each address
// after its length (1), and the first 4 bytes of the SHA-256 of the whole token before them. So a token that was cut
// off or changed is recognised before it is used.
//
// A token does not print its secret: only Text returns it. The store has only the SHA-256 of the secret. Any number
// of machines may use a token until it expires or is revoked.
package jointoken

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a token.
const (
	MaxAddresses = 3
	MaxAddress   = math.MaxUint8 // bytes of an address

	SecretSize = 20 // bytes
)

const (
	prefix   = "coppice1-"
	idSize   = 5 // bytes
	idLength = 8 // of their text
	sumSize  = 4
	fixed    = 2 + sha256.Size + SecretSize + 1 + sumSize
	minBody  = fixed + 1 + 3 // with the address a:1
	maxBody  = fixed + MaxAddresses*(1+MaxAddress)
	alphabet = "abcdefghijklmnopqrstuvwxyz234567"
)

// encoding returns the encoding of IDs and bodies.
func encoding() *base32.Encoding { return base32.NewEncoding(alphabet).WithPadding(base32.NoPadding) }

// Token lets machines join a fleet.
type Token struct {
	ID        string
	Authority [sha256.Size]byte // the SHA-256 of the certificate of the fleet's authority
	Addresses []string          // of nodes, 1 to MaxAddresses, each HOST:PORT
	secret    [SecretSize]byte
}

// newToken returns a token with a new ID and secret.
func newToken(authority [sha256.Size]byte, addresses []string) (Token, error) {
	if err := checkAddresses(addresses); err != nil {
		return Token{}, err
	}
	t := Token{Authority: authority, Addresses: slices.Clone(addresses)}
	var id [idSize]byte
	rand.Read(id[:]) // never fails
	rand.Read(t.secret[:])
	t.ID = encoding().EncodeToString(id[:])
	return t, nil
}

// Secret returns the secret of a token, to be sent to a node.
func (t Token) Secret() []byte { return bytes.Clone(t.secret[:]) }

// Format implements fmt.Formatter, for all verbs without the secret.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, "join token "+t.ID) }

// LogValue implements slog.LogValuer, without the secret.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.ID) }

// Text returns the token as one word, with its secret.
func (t Token) Text() string {
	body := make([]byte, 2, maxBody)
	body = append(body, t.Authority[:]...)
	body = append(body, t.secret[:]...)
	body = append(body, byte(len(t.Addresses)))
	for _, a := range t.Addresses {
		body = append(append(body, byte(len(a))), a...)
	}
	binary.BigEndian.PutUint16(body, uint16(len(body)+sumSize))
	body = append(body, checksum(t.ID, body)...)
	return prefix + t.ID + "-" + encoding().EncodeToString(body)
}

// checksum returns the checksum of a token with a body that has all but the checksum.
func checksum(id string, body []byte) []byte {
	sum := sha256.Sum256(append([]byte(prefix+id+"-"), body...))
	return sum[:sumSize]
}

// The errors of Parse have nothing of the text, which is a secret even if it is damaged.
var (
	errIncomplete = errors.New("the join token is incomplete: its end is missing; copy the whole word that " +
		"\"coppice cluster token\" has printed")
	errDamaged = errors.New("the join token is damaged: characters were changed or are missing; copy the word that " +
		"\"coppice cluster token\" has printed")
)

// Parse reads the text of a token. White space around it is ignored.
func Parse(text string) (Token, error) {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, prefix)
	switch {
	case text != "" && strings.HasPrefix(prefix, text):
		return Token{}, errIncomplete
	case !ok:
		return Token{}, fmt.Errorf("not a join token: expected one word that begins with %s; "+
			"print one with: coppice cluster token", prefix)
	case strings.ContainsAny(rest, " \t\r\n"):
		return Token{}, errors.New("the join token has spaces or line breaks in it; expected one word")
	}
	id, encoded, _ := strings.Cut(rest, "-")
	if strings.Trim(id+encoded, alphabet) != "" {
		return Token{}, errDamaged
	}
	body, err := decodeBody(encoded)
	if err != nil {
		return Token{}, err
	}
	t, err := parseBody(id, body)
	if err != nil {
		return Token{}, err
	}
	if t.Text() != text { // base32 has several texts for some values
		return Token{}, errDamaged
	}
	return t, nil
}

// decodeBody decodes the body of a token, whose length is at its beginning.
func decodeBody(encoded string) ([]byte, error) {
	const characters = 4 // that have the length
	if len(encoded) < characters {
		return nil, errIncomplete
	}
	first, err := encoding().DecodeString(encoded[:characters])
	if err != nil {
		return nil, errDamaged
	}
	length := int(binary.BigEndian.Uint16(first))
	switch expected := encoding().EncodedLen(length); {
	case length < minBody || length > maxBody:
		return nil, errDamaged
	case len(encoded) < expected:
		return nil, errIncomplete
	case len(encoded) > expected:
		return nil, errors.New("the join token is too long: other text follows its end; expected one word")
	}
	body, err := encoding().DecodeString(encoded)
	if err != nil || len(body) != length {
		return nil, errDamaged
	}
	return body, nil
}

// parseBody reads a body of at least minBody bytes.
func parseBody(id string, body []byte) (Token, error) {
	body, sum := body[:len(body)-sumSize], body[len(body)-sumSize:]
	if CheckID(id) != nil || !bytes.Equal(sum, checksum(id, body)) {
		return Token{}, errDamaged
	}
	t := Token{ID: id}
	rest := body[2:]
	rest = rest[copy(t.Authority[:], rest):]
	rest = rest[copy(t.secret[:], rest):]
	number, rest := int(rest[0]), rest[1:]
	for len(rest) > 0 && len(rest) > int(rest[0]) {
		n := 1 + int(rest[0])
		t.Addresses, rest = append(t.Addresses, string(rest[1:n])), rest[n:]
	}
	if len(rest) > 0 || len(t.Addresses) != number {
		return Token{}, errDamaged
	}
	if err := checkAddresses(t.Addresses); err != nil {
		return Token{}, fmt.Errorf("the join token: %w", err)
	}
	return t, nil
}

// CheckID returns an error if a text is not the ID of a token. The error does not have the text, which may be a
// secret by mistake.
func CheckID(id string) error {
	if len(id) != idLength || strings.Trim(id, alphabet) != "" {
		return errors.New("not the ID of a join token; expected 8 letters and digits, as coppice1-ID-... has them")
	}
	return nil
}

// checkAddresses returns what is wrong with the addresses of a token, or nil.
func checkAddresses(all []string) error {
	if len(all) == 0 || len(all) > MaxAddresses {
		return fmt.Errorf("%d addresses of nodes; expected 1 to %d", len(all), MaxAddresses)
	}
	for _, a := range all {
		if err := CheckAddress(a); err != nil {
			return err
		}
	}
	return nil
}

// CheckAddress returns why a node cannot be reached from other machines at an address, or nil. It looks up no names.
func CheckAddress(address string) error {
	fail := func(problem string) error { return fmt.Errorf("the address %.300q: %s", address, problem) }
	const expected = "expected HOST:PORT, such as 10.0.0.1:7946"
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case len(address) > MaxAddress:
		return fail(fmt.Sprintf("it has %d bytes; expected at most %d", len(address), MaxAddress))
	case err != nil || host == "" || portErr != nil || n == 0 || strconv.FormatUint(n, 10) != port:
		return fail(expected)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.IsUnspecified():
		return fail("it means all addresses of a machine; expected one at which others can reach it")
	case err == nil && ip.Zone() != "":
		return fail("its zone has another meaning on other machines; expected an address without one")
	case err != nil && !isHostName(host):
		return fail("its host is neither a name nor an IP address; " + expected)
	}
	return nil
}

// isHostName reports whether a text may be the name of a host, which may have underscores in some networks.
func isHostName(host string) bool {
	return strings.Trim(strings.ToLower(host), alphabet+"0189_.-") == "" && strings.Trim(host, ".-") == host
}

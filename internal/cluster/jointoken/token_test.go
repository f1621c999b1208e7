package jointoken

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawToken draws a token with addresses of all kinds.
func drawToken(t *rapid.T) Token {
	host := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9]([a-zA-Z0-9-]{0,40}[a-z0-9])?(\.[a-z0-9]{1,20}){0,9}`),
		rapid.StringMatching(`(1[0-9]?|2[0-4])(\.(0|1[0-9]?)){3}`), rapid.Just("[fd00::1]"), rapid.Just("[::ffff:10.0.0.1]"),
	)
	address := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%s:%d", host.Draw(t, "host"), rapid.IntRange(1, 65535).Draw(t, "port"))
	})
	var hash [32]byte
	copy(hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
	token, err := newToken(hash, rapid.SliceOfN(address, 1, MaxAddresses).Draw(t, "addresses"))
	if err != nil {
		t.Fatal(err)
	}
	token.ID = rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), idLength, idLength, -1).Draw(t, "id")
	copy(token.secret[:], rapid.SliceOfN(rapid.Byte(), SecretSize, SecretSize).Draw(t, "secret"))
	return token
}

func same(a, b Token) bool {
	return a.ID == b.ID && a.Authority == b.Authority && a.secret == b.secret &&
		strings.Join(a.Addresses, " ") == strings.Join(b.Addresses, " ")
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := drawToken(t)
		text := token.Text()
		if strings.Trim(text, alphabet+"1-") != "" {
			t.Fatalf("%q is not one word", text)
		}
		for _, copied := range []string{text, " " + text + "\r\n"} {
			if got, err := Parse(copied); err != nil || !same(got, token) {
				t.Fatalf("%q: %v", copied, err)
			}
		}
	})
}

// A token that was cut off, or in which a character was changed, added, left out or exchanged with its neighbour, is
// recognised.
func TestChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawToken(t).Text()
		check := func(changed, want string) {
			if strings.TrimSpace(changed) == text {
				return
			}
			if _, err := Parse(changed); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%q, which was %q: %v, want %q", changed, text, err, want)
			}
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		if at > 0 {
			check(text[:at], "the join token is incomplete")
			check(text[at:], "")
			check(text[:at]+" "+text[at:], "")
			check(text[:at-1]+text[at:at+1]+text[at-1:at]+text[at+1:], "")
		}
		other := string(rapid.RuneFrom([]rune(alphabet+"-A1 \n\x00é")).Draw(t, "other"))
		want := ""
		if at >= len(prefix)+idLength+1+4 && strings.Contains(alphabet, other) {
			want = errDamaged.Error() // whatever it is that has changed
		}
		check(text[:at]+other+text[at+1:], want)
		check(text[:at]+other+text[at:], "")
		check(text[:at]+text[at+1:], "")
		check(text+text, "")
		check(strings.ToUpper(text), "not a join token")
	})
}

// The last character may have bits that mean nothing. A text in which they are set is another one.
func TestUnusedBits(t *testing.T) {
	token, err := newToken([32]byte{1}, []string{"10.0.0.1:7946"})
	if err != nil {
		t.Fatal(err)
	}
	text := token.Text()
	last := len(text) - 1
	changed := text[:last] + string(alphabet[strings.IndexByte(alphabet, text[last])^1])
	body := func(text string) []byte {
		body, err := encoding().DecodeString(text[len(prefix)+idLength+1:])
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	if !bytes.Equal(body(text), body(changed)) {
		t.Fatal("all bits are used")
	}
	if _, err := Parse(changed); err != errDamaged {
		t.Error(err)
	}
}

func TestParseErrors(t *testing.T) {
	token, err := newToken([32]byte{1}, []string{"10.0.0.1:7946"})
	if err != nil {
		t.Fatal(err)
	}
	text := token.Text()
	// craft returns a token with a valid checksum, whatever it says.
	craft := func(addresses ...string) string {
		crafted := token
		crafted.Addresses = addresses
		return crafted.Text()
	}
	for name, c := range map[string]struct{ text, err string }{
		"empty":         {"", "not a join token"},
		"blank":         {" \n", "not a join token"},
		"other":         {"SWMTKN-1-abc", "not a join token"},
		"other version": {strings.Replace(text, "coppice1", "coppice2", 1), "not a join token"},
		"begin of it":   {"coppice", "incomplete"},
		"prefix":        {"coppice1-", "incomplete"},
		"ID":            {text[:17], "incomplete"},
		"one missing":   {text[:len(text)-1], "incomplete"},
		"one more":      {text + "a", "too long"},
		"broken":        {text[:40] + "\n" + text[40:], "line breaks"},
		"other ID":      {strings.Replace(text, token.ID, "aaaaaaaa", 1), "damaged"},
		"short ID":      {strings.Replace(text, token.ID, "aaaa", 1), "damaged"},
		"no secret":     {"coppice1-aaaaaaaa-aaaa", "damaged"},
		"huge length":   {"coppice1-aaaaaaaa-7777" + strings.Repeat("a", 100), "damaged"},
		"huge":          {"coppice1-" + strings.Repeat("a", 10<<20), "incomplete"},
		"huge body":     {text + strings.Repeat("a", 10<<20), "too long"},
		"no address":    {craft(), "damaged"}, // shorter than any
		"bad address":   {craft("10.0.0.1"), "expected HOST:PORT"},
		"terminal":      {craft("\x1bc:1"), "neither a name nor"},
		"four":          {craft("a:1", "a:2", "a:3", "a:4"), "4 addresses"},
	} {
		got, err := Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
			continue
		}
		if got.ID != "" || len(err.Error()) > 500 || strings.ContainsRune(err.Error(), '\x1b') ||
			len(c.text) > 60 && strings.Contains(err.Error(), c.text[30:60]) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for _, a := range []string{
		"10.0.0.1:7946", "[::1]:1", "localhost:65535", "node-1.example.com:7946", "my_host:1", "example.com:1", "1:1",
	} {
		if err := CheckAddress(a); err != nil {
			t.Error(err)
		}
	}
	for a, want := range map[string]string{
		"": "HOST:PORT", "a": "HOST:PORT", ":1": "HOST:PORT", "a:": "HOST:PORT", "a:0": "HOST:PORT",
		"a:65536": "HOST:PORT", "a:+1": "HOST:PORT",
		"a:01": "HOST:PORT", "a:b": "HOST:PORT", "::1:1": "HOST:PORT", "[::1]": "HOST:PORT",
		"0.0.0.0:1": "all addresses", "[::]:1": "all addresses", "[fe80::1%eth0]:1": "zone", "a b:1": "neither",
		"-a:1": "neither", "a.-:1": "neither", "a/b:1": "neither", "user@a:1": "neither", "ä:1": "neither",
		"a\n:1": "neither", strings.Repeat("a", 256) + ":1": "258 bytes",
	} {
		if err := CheckAddress(a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", a, err, want)
		}
	}
}

// Only Text and Secret return the secret.
func TestSecretIsNotPrinted(t *testing.T) {
	token, err := newToken([32]byte{1}, []string{"10.0.0.1:7946"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token, "all", []any{token}, "pointer", &token)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, verb+"\n", token)
		fmt.Fprintf(&log, verb+"\n", &token)
		fmt.Fprintf(&log, verb+"\n", []Token{token})
		fmt.Fprintf(&log, verb+"\n", struct{ Token Token }{token})
	}
	value, err := json.Marshal(token)
	if err != nil {
		t.Fatal(err)
	}
	log.Write(value)
	secret, bytesOf := token.Secret(), strings.Trim(fmt.Sprint(token.Secret()), "[]")
	for _, form := range []string{
		string(secret), fmt.Sprintf("%x", secret), bytesOf, strings.ReplaceAll(bytesOf, " ", ","), token.Text()[60:90],
		strings.Trim(fmt.Sprintf("%#v", secret), "[]byte{}"),
	} {
		if strings.Contains(log.String(), form) {
			t.Errorf("the secret was printed as %q", form)
		}
	}
	if !strings.Contains(log.String(), "join token "+token.ID) {
		t.Error(log.String())
	}
}

func FuzzParse(f *testing.F) {
	for _, addresses := range [][]string{{"a:1"}, {"10.0.0.1:7946", "[fd00::1]:7946", "node.example.com:443"}} {
		token, err := newToken([32]byte{7}, addresses)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(token.Text())
		f.Add(token.Text()[:50])
	}
	f.Add("coppice1-aaaaaaaa-aajq")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := Parse(text)
		if err != nil {
			if !same(token, Token{}) {
				t.Errorf("%q: a token next to %v", text, err)
			}
			return
		}
		if token.Text() != strings.TrimSpace(text) || checkAddresses(token.Addresses) != nil {
			t.Errorf("%q was read as %q", text, token.Text())
		}
	})
}

// Any body behind a valid checksum is read or refused, and read only in one form.
func FuzzBody(f *testing.F) {
	f.Add([]byte("\x01\x03a:1"))
	f.Add([]byte("\x02\x03a:1\xff"))
	f.Fuzz(func(t *testing.T, addresses []byte) {
		body := make([]byte, 2+32+SecretSize, fixed+len(addresses))
		body = append(body, addresses...)
		size := len(body) + sumSize
		if size > 1<<16-1 {
			return
		}
		body[0], body[1] = byte(size>>8), byte(size)
		body = append(body, checksum("aaaaaaaa", body)...)
		text := prefix + "aaaaaaaa-" + encoding().EncodeToString(body)
		if token, err := Parse(text); err == nil && token.Text() != text {
			t.Errorf("%q was read as %q", text, token.Text())
		}
	})
}

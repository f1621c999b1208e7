package llm

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// Variables that FromEnv reads. One that is set to nothing counts as not set.
const (
	EnvKey         = "SAGE_API_KEY"       // the key, or MockKey
	EnvURL         = "SAGE_LLM_URL"       // where the server is; DefaultURL
	EnvModel       = "SAGE_MODEL"         // DefaultModel
	EnvRetries     = "SAGE_INFER_RETRIES" // 0 to 20; DefaultRetries
	EnvTemperature = "SAGE_TEMPERATURE"   // 0 to 2; the server decides
	EnvMaxTokens   = "SAGE_MAX_TOKENS"    // of one answer, 1 to 10,000,000; the server decides
)

// Defaults, and the key that asks for Mock.
const (
	DefaultURL   = "https://api.openai.com/v1"
	DefaultModel = "gpt-4o-mini"
	MockKey      = "mock"
)

// FromEnv makes the oracle that the environment asks for; lookup is
// os.LookupEnv, or what stands for it. A server with a URL of its own may do
// without a key, as local ones do. Without either the error wraps
// ErrNotConfigured. Any other error names the variable that is wrong.
func FromEnv(lookup func(string) (string, bool)) (Oracle, error) {
	get := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	key, address := get(EnvKey), get(EnvURL)
	if key == MockKey {
		return Mock{}, nil
	}
	if key == "" && address == "" {
		return nil, fmt.Errorf("%w: set %s to the key of an OpenAI-compatible server (%s says which), or "+
			"to %q to try without one",
			ErrNotConfigured, EnvKey, EnvURL, MockKey)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s holds blanks or characters that no key has (its value is not shown)", EnvKey)
	}
	a := &API{
		Key: NewSecret(key), URL: cmp.Or(address, DefaultURL), Model: DefaultModel, Retries: DefaultRetries,
	}
	if _, err := endpoint(a.URL); err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, err)
	}
	if m := get(EnvModel); m != "" {
		if len(m) > 200 || strings.ContainsFunc(m, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return nil, fmt.Errorf("%s is %.40q, which is not a model name", EnvModel, m)
		}
		a.Model = m
	}
	if v := get(EnvRetries); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 20 {
			return nil, fmt.Errorf("%s is %.40q: want a whole number from 0 to 20", EnvRetries, v)
		}
		a.Retries = n
	}
	if v := get(EnvTemperature); v != "" {
		t, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(t) || t < 0 || t > 2 {
			return nil, fmt.Errorf("%s is %.40q: want a number from 0 to 2, such as 0.7", EnvTemperature, v)
		}
		a.Temperature = &t
	}
	if v := get(EnvMaxTokens); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 10_000_000 {
			return nil, fmt.Errorf("%s is %.40q: want a whole number from 1 to 10000000", EnvMaxTokens, v)
		}
		a.MaxTokens = n
	}
	return Checked(a, a.Retries), nil
}

// endpoint returns the URL of chat completions. Its error does not show
// more of the address than the scheme and the host, for the rest may hold a key.
func endpoint(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a URL: want one such as %s", DefaultURL)
	case u.User != nil:
		return nil, fmt.Errorf("it holds a user or a password: take them out and set %s", EnvKey)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("its scheme is %.20q: want http or https, as in %s", u.Scheme, DefaultURL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("it names no host: want a URL such as %s", DefaultURL)
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		u = u.JoinPath("chat/completions")
	}
	u.Fragment = ""
	return u, nil
}

// displayURL is a URL in an error.
func displayURL(u *url.URL) string { return u.Scheme + "://" + u.Host + u.Path }

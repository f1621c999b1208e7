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

// Variables that FromEnv reads. An empty value counts as not set.
const (
	EnvKey         = "SAGE_API_KEY"       // the key, or MockKey
	EnvURL         = "SAGE_LLM_URL"       // the URL of the server; DefaultURL
	EnvModel       = "SAGE_MODEL"         // DefaultModel
	EnvRetries     = "SAGE_INFER_RETRIES" // 0 to 20; DefaultRetries
	EnvTemperature = "SAGE_TEMPERATURE"   // 0 to 2; default of the server
	EnvMaxTokens   = "SAGE_MAX_TOKENS"    // of one answer, 1 to 10,000,000; default of the server
)

// Defaults, and the key that selects Mock.
const (
	DefaultURL   = "https://api.openai.com/v1"
	DefaultModel = "gpt-4o-mini"
	MockKey      = "mock"
)

// FromEnv returns the oracle that the environment names; lookup is usually os.LookupEnv. A server
// with a URL of its own may have no key, like local ones. If neither is set, the error wraps
// ErrNotConfigured. Any other error names the wrong variable.
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
		return nil, fmt.Errorf("%s contains spaces or characters that no key has (its value is not shown)", EnvKey)
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

// endpoint returns the URL for chat completions. Its errors show only the scheme and host of the
// address, since the rest may contain a key.
func endpoint(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a URL: want one such as %s", DefaultURL)
	case u.User != nil:
		return nil, fmt.Errorf("it contains a user or password: remove them and set %s", EnvKey)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("its scheme is %.20q: want http or https, as in %s", u.Scheme, DefaultURL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("it has no host: want a URL such as %s", DefaultURL)
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") {
		u = u.JoinPath("chat/completions")
	}
	u.Fragment = ""
	return u, nil
}

// displayURL returns a URL for an error, without its query.
func displayURL(u *url.URL) string { return u.Scheme + "://" + u.Host + u.Path }

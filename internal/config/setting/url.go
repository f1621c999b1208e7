package setting

import (
	"net/url"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// URL returns the read function of a URL without a password. secret is the key that names the variable of a URL that is
// a secret; empty if there is none.
func URL[T any](secret string, field func(*T) *string) func(*toml.Reader, *toml.Value, *T) {
	hint := ""
	if secret != "" {
		hint = "put the URL into a variable and name that with " + secret
	}
	return func(r *toml.Reader, v *toml.Value, into *T) {
		text, ok := r.Text(v, "a URL")
		if !ok {
			return
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			r.Fail(v, "", "%s is %s, expected a URL that begins with http:// or https://", r.Label(v), spec.Quote(text))
		case u.User != nil:
			r.Fail(v, hint, "%s has a password, expected a URL without one", r.Label(v))
		}
		*field(into) = text
	}
}

package setting

import (
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// TokensType is the type of a number of tokens.
const TokensType = "string or integer"

// ReadTokens returns the read function of a number of tokens.
func ReadTokens[T any](field func(*T) *int64) func(*toml.Reader, *toml.Value, *T) {
	const expected = `a number of tokens such as "200k", "1m" or "500000"`
	return func(r *toml.Reader, v *toml.Value, into *T) {
		if v.Kind == toml.KindInteger {
			if n, ok := r.Integer(v, 0, 1<<62, expected); ok {
				*field(into) = n
			}
			return
		}
		if !r.Want(v, toml.KindString, expected) {
			return
		}
		n, err := aidefile.ParseTokens(v.Text)
		if err != nil {
			r.Fail(v, "k stands for thousands, m for millions", "%s is %s, expected %s", r.Label(v),
				spec.Quote(v.Text), expected)
			return
		}
		*field(into) = n
	}
}

// TokensSchema returns the schema of a number of tokens.
func TokensSchema() toml.Schema {
	return toml.Schema{"anyOf": []toml.Schema{{"type": "integer", "minimum": 0},
		{"type": "string", "pattern": `^\s*[0-9]+([.][0-9]+)?[kKmM]?\s*$`}}}
}

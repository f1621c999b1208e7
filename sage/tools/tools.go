// Package tools gives programs access to the outside: HTTP, Files, Shell and Database. Each tool
// has limits of time, size and place that hold for any input, because programs act on the answers
// of models.
//
// Values are plain: text, numbers, maps and lists. Errors name the operation, the cause and a
// remedy. An error that is caused by the end of a context wraps its cause. Everything is safe for
// concurrent use.
package tools

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/sage/host"
)

// Bounds.
const (
	MaxBody   = 10 << 20 // bytes of the body of a request or response, uncompressed
	MaxFile   = 10 << 20 // bytes of one read or write
	MaxOutput = 10 << 20 // bytes of stdout, and of stderr, of a command
	MaxRows   = 100_000  // rows of a query result
	MaxResult = 10 << 20 // bytes of the values of a query result
)

// Settings are the places and time limits of the tools.
type Settings struct {
	HTTPTimeout time.Duration // of one request with its redirects; DefaultHTTPTimeout if zero
	Root        string        // the directory of Files; the current directory if empty
	Database    string        // see OpenDatabase; none if empty
	Dir         string        // of commands and of a relative Database; the current directory if empty
	Commands    host.Commands // runs commands
}

// Defaults of Settings.
const (
	DefaultHTTPTimeout  = 30 * time.Second
	DefaultShellTimeout = 5 * time.Minute
)

// Variables that Environ reads. An empty value counts as not set.
const (
	EnvHTTPTimeout = "SAGE_HTTP_TIMEOUT" // seconds, such as 30 or 0.5, or with a unit: 500ms, 2m; at most 1 h
	EnvRoot        = "SAGE_FS_ROOT"
	EnvDatabase    = "SAGE_DATABASE_URL"
)

// Environ returns the settings overridden by the environment; lookup is usually os.LookupEnv. Its
// errors name the variable.
func (s Settings) Environ(lookup func(string) (string, bool)) (Settings, error) {
	get := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	if v := get(EnvHTTPTimeout); v != "" {
		d, err := time.ParseDuration(v)
		if f, e := strconv.ParseFloat(v, 64); e == nil && f > 0 && f <= time.Hour.Seconds() {
			d, err = time.Duration(f*float64(time.Second)), nil
		}
		if err != nil || d < time.Millisecond || d > time.Hour {
			return s, fmt.Errorf("%s is %.40q: want seconds, from 0.001 to 3600, or a duration such as 500ms",
				EnvHTTPTimeout, v)
		}
		s.HTTPTimeout = d
	}
	s.Root = cmp.Or(get(EnvRoot), s.Root)
	if v := get(EnvDatabase); v != "" {
		if _, err := parseDatabase(v, s.Dir); err != nil {
			return s, fmt.Errorf("%s: %w", EnvDatabase, err)
		}
		s.Database = v
	}
	return s, nil
}

// text converts bytes that have to be UTF-8 text.
func text(what string, data []byte) (string, error) {
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s is not UTF-8 text (%d bytes)", what, len(data))
	}
	return string(data), nil
}

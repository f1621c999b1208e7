package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on a request.
const (
	maxBody   = 64 << 10 // bytes
	maxHeader = 16 << 10 // bytes, with the request line
	maxPath   = 1 << 10  // bytes of the path of a node
)

// MaxNote is the maximum length of stored notes and reasons, in bytes.
const MaxNote = 256

// param is a parameter of a route, in its query or in a header.
type param struct {
	name         string
	kind         string // string, integer, boolean
	required     bool
	repeated     bool
	header       bool
	maximum      uint64 // of an integer; 0: no bound
	defaultValue any    // the default, for the description; nil for the zero value
	doc          string // empty if openapi describes it
}

// query holds parameters whose names and values have been checked.
type query url.Values

// parseQuery checks a query, and adds the parameters from headers. It rejects unknown parameters,
// so a client never assumes a filter that was not applied.
func parseQuery(raw string, header http.Header, params []param) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: query: %w", ErrInvalid, err)
	}
	for name, vs := range values {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name && !p.header })
		if i < 0 {
			return nil, fmt.Errorf("%w: unknown parameter %.100q, expected %s", ErrInvalid, name, names(params))
		}
		if len(vs) > 1 && !params[i].repeated {
			return nil, fmt.Errorf("%w: parameter %s is given %d times, expected once", ErrInvalid, name, len(vs))
		}
		for _, v := range vs {
			if err := params[i].check(v); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range params {
		if v := header.Get(p.name); p.header && v != "" {
			if err := p.check(v); err != nil {
				return nil, err
			}
			values.Set(p.name, v)
		}
		if p.required && values.Get(p.name) == "" {
			return nil, fmt.Errorf("%w: parameter %s is missing", ErrInvalid, p.name)
		}
	}
	return query(values), nil
}

func names(params []param) string {
	var all []string
	for _, p := range params {
		if !p.header {
			all = append(all, p.name)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

func (p param) check(v string) error {
	switch p.kind {
	case "integer":
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: parameter %s is %.100q, expected a number from 0 up", ErrInvalid, p.name, v)
		}
		if p.maximum > 0 && n > p.maximum {
			return fmt.Errorf("%w: parameter %s is %d, expected at most %d", ErrInvalid, p.name, n, p.maximum)
		}
	case "boolean":
		if v != "true" && v != "false" {
			return fmt.Errorf("%w: parameter %s is %.100q, expected true or false", ErrInvalid, p.name, v)
		}
	default:
		if err := checkText(v); err != nil {
			return fmt.Errorf("%w: parameter %s %w", ErrInvalid, p.name, err)
		}
	}
	return nil
}

// CheckText returns an ErrInvalid if a text in a request cannot be a path or a pattern.
func CheckText(what, text string) error {
	if err := checkText(text); err != nil {
		return fmt.Errorf("%w: %s %w", ErrInvalid, what, err)
	}
	return nil
}

// CheckPath returns an ErrInvalid if the path in a request is missing or invalid.
func CheckPath(path string) error {
	if path == "" {
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	}
	return CheckText("path", path)
}

// checkText describes what is wrong with a path or a pattern.
func checkText(text string) error {
	switch {
	case len(text) > maxPath:
		return fmt.Errorf("has %d bytes, expected at most %d", len(text), maxPath)
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("contains a control character: %q", text)
	}
	return nil
}

func (q query) text(name string) string { return url.Values(q).Get(name) }
func (q query) flag(name string) bool   { return q.text(name) == "true" }

// number returns a checked number, or 0 if it is missing.
func (q query) number(name string) uint64 {
	n, _ := strconv.ParseUint(q.text(name), 10, 64)
	return n
}

// readBody decodes the JSON object in the body of a request.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &unsupported{http.StatusUnsupportedMediaType, "the body must be application/json"}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return bodyError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("something follows the object")
		}
		return bodyError(err)
	}
	return nil
}

func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return fmt.Errorf("%w: the body has more than %d bytes, expected at most that; send less at once", ErrInvalid,
			large.Limit)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	return fmt.Errorf("%w: the body must be one JSON object: %w", ErrInvalid, err)
}

// Package traces reads [traces] of a coppice.toml: where spans are exported to.
package traces

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Form is [traces] while it is read.
type Form struct{ spec.Traces }

// Table describes [traces].
func Table() toml.Table[Form] {
	return toml.Table[Form]{
		Header: "[traces]",
		Doc: "Traces for a receiver of OpenTelemetry: a span for each incarnation of an agent, each attempt at a " +
			"task and each run of an order. Agents get the variable `TRACEPARENT`, so that what they export belongs " +
			"to their span. Changes apply at once. See [Traces](traces.md).",
		Example: `[traces]
endpoint = "http://127.0.0.1:4318"
`,
		Keys: []toml.Key[Form]{
			{Name: "endpoint", Type: "string", Default: toml.Required, Doc: "the base URL of a receiver of OTLP over " +
				"HTTP, to which `/v1/traces` is appended",
				Also: []string{"url", "address", "receiver", "otlp_endpoint", "exporter"}, Read: readEndpoint},
			{Name: "headers", Type: "table of strings", Doc: "headers of each request that are no secrets",
				Also: []string{"header"},
				Read: readHeaders(func(h *spec.Header, text string) { h.Value = text })},
			{Name: "headers_env", Type: "table of strings", Doc: "headers that are secrets, such as `Authorization`: " +
				"each has the name of the variable of the daemon's environment with the whole value",
				Read: readHeaders(func(h *spec.Header, text string) { h.From.Env = text })},
			{Name: "headers_file", Type: "table of strings", Doc: "headers that are secrets: each has the path of " +
				"the file with the whole value. It is read when the daemon connects",
				Read: readHeaders(func(h *spec.Header, text string) { h.From.File = text })},
		},
	}
}

func readEndpoint(r *toml.Reader, v *toml.Value, into *Form) {
	setting.URL("", func(f *Form) *string { return &f.Endpoint })(r, v, into)
	u, err := url.Parse(into.Endpoint)
	if err == nil && (u.RawQuery != "" || u.Fragment != "") {
		r.Fail(v, "", "endpoint is %s, expected a URL without ? and #", spec.Quote(into.Endpoint))
	}
	if err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/traces") {
		r.Fail(v, "remove /v1/traces", "endpoint ends with /v1/traces, which is appended to it")
	}
}

// readHeaders returns the read function of a table of headers, whose values are set by set.
func readHeaders(set func(*spec.Header, string)) func(*toml.Reader, *toml.Value, *Form) {
	return func(r *toml.Reader, v *toml.Value, into *Form) {
		if !r.Want(v, toml.KindTable, "a table of strings") {
			return
		}
		for _, field := range v.Fields {
			text, ok := r.Text(field, "a string")
			if !ok {
				continue
			}
			h := spec.Header{Name: http.CanonicalHeaderKey(field.Name)}
			set(&h, text)
			switch same := func(o spec.Header) bool { return o.Name == h.Name }; {
			case !isName(field.Name) || strings.HasPrefix(h.Name, "Content-") || h.Name == "Host":
				r.FailKey(field, "", "%s is not the name of a header that can be set", spec.Quote(field.Name))
			case slices.ContainsFunc(into.Headers, same):
				r.FailKey(field, "remove one of them", "the header %s is set twice", h.Name)
			case len(into.Headers) == spec.MaxHeaders:
				r.FailKey(field, "", "there are more than %d headers", spec.MaxHeaders)
			case h.From.Env != "" && !isVariable(h.From.Env): // the value would be in the file, and in this error
				r.Fail(field, "the value belongs into the environment of the daemon",
					"%s is not the name of a variable, expected letters, digits and underscores", field.Name)
			case !isValue(h.Value):
				r.Fail(field, "", "the value of %s has control characters or is longer than 8192 bytes", h.Name)
			}
			into.Headers = append(into.Headers, h)
		}
	}
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

func isName(name string) bool {
	return name != "" && len(name) <= 100 && strings.Trim(name, letters+"-") == ""
}

func isVariable(name string) bool { return strings.Trim(name, letters) == "" }

func isValue(text string) bool {
	return len(text) <= 8192 && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Finish returns [traces] of a file in a directory; nothing if there is none.
func (f *Form) Finish(dir string) spec.Traces {
	for i := range f.Headers {
		if from := &f.Headers[i].From; from.File != "" {
			from.File = toml.Absolute(dir, from.File)
		}
	}
	slices.SortFunc(f.Headers, func(a, b spec.Header) int { return cmp.Compare(a.Name, b.Name) })
	return f.Traces
}

package spec

import "slices"

// Traces says where spans are exported to over OTLP/HTTP.
type Traces struct {
	// Endpoint is the base URL of the receiver, to which /v1/traces is appended; empty if nothing is exported.
	Endpoint string
	Headers  []Header // of each request, sorted by name
}

// Header is a header of requests. Its value is in the file, or where From says.
type Header struct {
	Name, Value string
	From        Secret
}

// MaxHeaders bounds the headers of Traces.
const MaxHeaders = 20

// IsSet reports whether spans are exported.
func (t Traces) IsSet() bool { return t.Endpoint != "" }

// Equal reports whether both say the same.
func (t Traces) Equal(o Traces) bool {
	return t.Endpoint == o.Endpoint && slices.Equal(t.Headers, o.Headers)
}

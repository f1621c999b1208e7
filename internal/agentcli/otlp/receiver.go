package otlp

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/token"
)

// Receiver answers requests of exporters. New makes it.
type Receiver struct {
	caller   func(token string) (token.Caller, error)
	received func(token.Caller, []agentcli.Event)
	reading  chan struct{} // holds a token for each body in memory
}

// New returns a Receiver. caller returns the incarnation of an agent that has a token; received is called with what an
// incarnation reports.
func New(
	caller func(token string) (token.Caller, error), received func(token.Caller, []agentcli.Event),
) *Receiver {
	return &Receiver{caller, received, make(chan struct{}, maxReading)}
}

const (
	maxBody    = 4 << 20 // bytes of a body, also after it was decompressed
	maxReading = 4       // bodies in memory
)

var (
	errUnsupported = errors.New("unsupported")
	errTooLarge    = fmt.Errorf("the body has more than %d bytes", maxBody)
)

// ServeHTTP answers a request. Metrics and traces are accepted and not read, so that exporters do not complain.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(status int, format string, args ...any) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"message": fmt.Sprintf(format, args...)})
	}
	signal, ok := strings.CutPrefix(q.URL.Path, "/v1/")
	if !ok || signal != "logs" && signal != "metrics" && signal != "traces" {
		fail(http.StatusNotFound, "expected /v1/logs, /v1/metrics or /v1/traces")
		return
	}
	if q.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(http.StatusMethodNotAllowed, "expected POST")
		return
	}
	who, err := r.caller(secret(q.Header.Get("Authorization")))
	switch {
	case errors.Is(err, token.ErrPending):
		fail(http.StatusServiceUnavailable, "%v", err) // exporters try again
		return
	case err != nil:
		fail(http.StatusUnauthorized, "expected the token of an agent that runs: Authorization: Bearer $COPPICE_TOKEN")
		return
	}
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-q.Context().Done():
		return
	}
	body, err := read(q)
	switch {
	case errors.Is(err, errUnsupported):
		fail(http.StatusUnsupportedMediaType, "%v; set OTEL_EXPORTER_OTLP_PROTOCOL=http/json", err)
		return
	case errors.Is(err, errTooLarge):
		fail(http.StatusRequestEntityTooLarge, "%v", err)
		return
	case err != nil:
		fail(http.StatusBadRequest, "%v", err)
		return
	}
	if signal == "logs" {
		all, err := Events(body)
		if err != nil {
			fail(http.StatusBadRequest, "%v", err)
			return
		}
		if len(all) > 0 {
			r.received(who, all)
		}
	}
	io.WriteString(w, "{}\n")
}

// secret returns the token in a header. claude sends the variable with its headers as it is, without decoding it.
func secret(header string) string {
	for _, scheme := range []string{"Bearer ", "Bearer%20"} {
		if rest, ok := strings.CutPrefix(header, scheme); ok {
			return rest
		}
	}
	return ""
}

// read returns the body of a request.
func read(q *http.Request) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if kind != "application/json" {
		return nil, fmt.Errorf("%w content type %.100q, expected application/json", errUnsupported, kind)
	}
	body := io.Reader(q.Body)
	switch coding := q.Header.Get("Content-Encoding"); coding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(io.LimitReader(body, maxBody))
		if err != nil {
			return nil, fmt.Errorf("reading a gzip body: %w", err)
		}
		defer z.Close()
		body = z
	default:
		return nil, fmt.Errorf("%w content encoding %.100q, expected gzip or none", errUnsupported, coding)
	}
	text, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the body: %w", err)
	case len(text) > maxBody:
		return nil, errTooLarge
	}
	return text, nil
}

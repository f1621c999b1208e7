package export

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-dev/coppice/internal/spanid"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/traces/spans"
	"github.com/coppice-dev/coppice/internal/traces/tracestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newExporter(t *testing.T, to spec.Traces) *Exporter {
	t.Helper()
	e, err := New(to, "shop", "1.2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

var began = time.Unix(1_700_000_000, 123)

// one returns a span that has everything.
func one() spans.Span {
	parent := spanid.Root("p")
	return spans.Span{
		ID: parent.Child("c"), Parent: parent, Name: "agent t/a", Start: began, End: began.Add(time.Hour),
		Attributes: []attribute.KeyValue{attribute.Int64("coppice.incarnation", 3)},
		Events:     []spans.Event{{Name: "agent.nudged", At: began.Add(time.Second)}},
		Links:      []spans.Link{{ID: spanid.Root("l")}},
		Failed:     true, Reason: "exit code 3",
	}
}

// A span arrives as it is, whatever the variables of the SDK say. Those of the resource are added.
func TestExport(t *testing.T) {
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	if err := os.WriteFile(certificate, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "x-other=1",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": certificate, "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
		"OTEL_EXPORTER_OTLP_INSECURE": "false", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
		"OTEL_TRACES_SAMPLER": "always_off", "OTEL_SERVICE_NAME": "other", "OTEL_RESOURCE_ATTRIBUTES": "a=b",
		"OTEL_SPAN_EVENT_COUNT_LIMIT": "0", "OTEL_SDK_DISABLED": "true", "EXPORT_TOKEN": "Bearer tok\n",
	} {
		t.Setenv(name, value)
	}
	r := tracestest.New(t)
	e := newExporter(t, spec.Traces{Endpoint: r.URL + "/otlp/", Headers: []spec.Header{
		{Name: "Authorization", From: spec.Secret{Env: "EXPORT_TOKEN"}}, {Name: "X-Scope", Value: "team"}}})
	span := one()
	root := spans.Span{ID: span.Parent, Name: "root", Start: began, End: began}
	if rejected, err := e.Export(t.Context(), []spans.Span{span, root}); rejected != 0 || err != nil {
		t.Fatal(rejected, err)
	}
	got := r.Spans()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	s := got[0]
	if s.Traceparent() != span.ID.Traceparent() || s.Parent != fmt.Sprintf("%x", span.Parent.Span) ||
		!s.Start.Equal(began) || !s.End.Equal(began.Add(time.Hour)) || s.Name != "agent t/a" || !s.Failed ||
		s.Reason != "exit code 3" || s.Attributes["coppice.incarnation"] != int64(3) || len(s.Events) != 1 ||
		s.Links[0] != fmt.Sprintf("%x", spanid.Root("l").Span) || s.Schema != spans.GenAISchemaURL {
		t.Errorf("%+v", s)
	}
	if len(s.Resource) != 4 || s.Resource["a"] != "b" || s.Resource["service.name"] != "coppice" ||
		s.Resource["service.version"] != "1.2" || s.Resource["coppice.project"] != "shop" {
		t.Errorf("%v", s.Resource)
	}
	if got[1].Traceparent() != root.ID.Traceparent() || got[1].Parent != "" || got[1].Failed {
		t.Errorf("%+v", got[1])
	}
	h := r.Headers()
	if h.Get("Authorization") != "Bearer tok" || h.Get("X-Scope") != "team" || h.Get("X-Other") != "" {
		t.Errorf("%v", h)
	}
}

// A receiver decides whether the same spans are sent again. What it answers is bounded in size and time.
func TestAnswers(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprintf(w, "no, not with tok-1\x1b[31m\n")
		}
	}
	partial := func(w http.ResponseWriter, _ *http.Request) {
		data, _ := proto.Marshal(&otlp.ExportTraceServiceResponse{
			PartialSuccess: &otlp.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "(7 spans rejected)"},
		})
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(data)
	}
	huge := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.WriteHeader(code)
			for range 16 {
				w.Write(make([]byte, 64<<10))
			}
		}
	}
	for name, c := range map[string]struct {
		answer   http.HandlerFunc
		rejected int64
		want     *Error // with a part of the reason
	}{
		"partial success":   {partial, 1, nil},
		"not protobuf":      {status(200, "Content-Type", "application/x-protobuf"), 0, nil},
		"empty":             {status(204), 0, nil},
		"bad request":       {status(400), 0, &Error{Refused: true, Reason: "400 Bad Request"}},
		"too large":         {status(413), 0, &Error{Refused: true, Reason: "413 "}},
		"not authorized":    {status(401), 0, &Error{Reason: "with [secret]"}},
		"not found":         {status(404), 0, &Error{Reason: "404"}},
		"server error":      {status(500), 0, &Error{Reason: "500"}},
		"unavailable":       {status(503, "Retry-After", "7"), 0, &Error{Wait: 7 * time.Second, Reason: "no, not"}},
		"unavailable, long": {status(429, "Retry-After", "99999999"), 0, &Error{Wait: maxWait, Reason: "no, not"}},
		"redirect":          {status(307, "Location", "http://127.0.0.1:1/"), 0, &Error{Reason: "307"}},
		"huge success":      {huge(200), 0, nil},
		"huge error":        {huge(500), 0, &Error{Reason: "exceed"}},
		"broken": {func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		}, 0, &Error{Reason: "EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := tracestest.New(t)
			r.Answer(c.answer)
			e := newExporter(t, spec.Traces{Endpoint: r.URL,
				Headers: []spec.Header{{Name: "Authorization", Value: "tok-1"}}})
			rejected, err := e.Export(t.Context(), []spans.Span{one()})
			if rejected != c.rejected {
				t.Errorf("%d rejected, want %d", rejected, c.rejected)
			}
			var got *Error
			if !errors.As(err, &got) {
				if c.want != nil || err != nil {
					t.Fatalf("%v, want %v", err, c.want)
				}
				return
			}
			if c.want == nil || got.Refused != c.want.Refused || got.Wait != c.want.Wait ||
				!strings.Contains(got.Reason, c.want.Reason) || strings.ContainsAny(got.Reason, "\n\x1b") ||
				strings.Contains(got.Reason, "tok-1") || len(got.Reason) > maxReason {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if r.Refused() != 1 {
				t.Errorf("%d requests", r.Refused())
			}
		})
	}
}

// A request ends with its context, however slow the receiver is.
func TestSlow(t *testing.T) {
	r := tracestest.New(t)
	ended := make(chan struct{})
	r.Answer(func(_ http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body) // else the server does not see the end
		<-q.Context().Done()
		close(ended)
	})
	e := newExporter(t, spec.Traces{Endpoint: r.URL})
	ctx, cancel := context.WithCancel(t.Context())
	arrived := r.Received()
	go func() {
		<-arrived
		cancel()
	}()
	var failed *Error
	if _, err := e.Export(ctx, []spans.Span{one()}); !errors.As(err, &failed) || failed.Refused {
		t.Errorf("%v", err)
	}
	<-ended
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		to   spec.Traces
		want string
	}{
		{spec.Traces{Endpoint: "x"}, "the endpoint is not a URL"},
		{spec.Traces{Endpoint: "http://x", Headers: []spec.Header{
			{Name: "A", From: spec.Secret{Env: "EXPORT_MISSING"}}}},
			"the header A: the variable EXPORT_MISSING is not set"},
	} {
		if _, err := New(c.to, "", ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

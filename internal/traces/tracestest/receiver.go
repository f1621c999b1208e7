// Package tracestest is a receiver of spans for tests, over OTLP/HTTP.
package tracestest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as the receiver has got it.
type Span struct {
	Trace, ID, Parent string // in hex; Parent is empty if there is none
	Links             []string
	Name              string
	Start, End        time.Time
	Attributes        map[string]any // string, int64, float64 or bool
	Events            []string       // their names
	Failed            bool
	Reason            string
	Resource          map[string]any
	Schema            string
}

// Traceparent returns what a program that runs in the span has in its environment.
func (s Span) Traceparent() string { return "00-" + s.Trace + "-" + s.ID + "-01" }

// Receiver receives spans until its test ends.
type Receiver struct {
	URL string

	t        testing.TB
	mu       sync.Mutex
	spans    []Span
	headers  []http.Header
	answer   http.HandlerFunc
	refused  int
	received chan struct{} // closed and replaced with each request
}

// New starts a receiver.
func New(t testing.TB) *Receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{t: t, received: make(chan struct{}), URL: "http://" + l.Addr().String()}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}}
	s.Start()
	t.Cleanup(func() { // a client that waits for an answer must not hold up the test
		s.CloseClientConnections()
		s.Close()
	})
	return r
}

// Answer has requests answered by another handler, which takes no spans; by the receiver again if that is nil.
func (r *Receiver) Answer(by http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = by
}

// ServeHTTP takes spans.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	by := r.answer
	r.headers = append(r.headers, q.Header.Clone())
	if by != nil {
		r.refused++
	}
	close(r.received)
	r.received = make(chan struct{})
	r.mu.Unlock()
	if by != nil {
		by(w, q)
		return
	}
	all, err := decode(q)
	if err != nil {
		r.t.Errorf("%s %s: %v", q.Method, q.URL, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.spans = append(r.spans, all...)
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func decode(q *http.Request) (all []Span, err error) {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return nil, err
	}
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), Name: s.Name,
					Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
					Attributes: values(s.Attributes), Failed: s.Status.GetCode() == 2, Reason: s.Status.GetMessage(),
					Resource: values(resource.Resource.GetAttributes()), Schema: scope.SchemaUrl,
				}
				for _, e := range s.Events {
					span.Events = append(span.Events, e.Name)
				}
				for _, l := range s.Links {
					span.Links = append(span.Links, hex.EncodeToString(l.SpanId))
				}
				all = append(all, span)
			}
		}
	}
	return all, nil
}

func values(all []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range all {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[kv.Key] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			m[kv.Key] = v.BoolValue
		}
	}
	return m
}

// Spans returns all spans in the order in which they came, also those that came twice.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Headers returns those of the last request; nil if there was none.
func (r *Receiver) Headers() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.headers) == 0 {
		return nil
	}
	return r.headers[len(r.headers)-1]
}

// Refused returns the number of requests that another handler has answered.
func (r *Receiver) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// Received returns a channel that is closed with the next request.
func (r *Receiver) Received() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.received
}

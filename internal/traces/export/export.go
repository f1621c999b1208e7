// Package export sends spans to a receiver over OTLP/HTTP, by the SDK of OpenTelemetry. A request takes bounded time
// and memory, whatever the receiver answers.
package export

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/secret"
	"github.com/coppice-dev/coppice/internal/spanid"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/traces/spans"
)

// Bounds of a request.
const (
	timeout     = 10 * time.Second
	maxResponse = 64 << 10  // bytes of an answer
	maxHeaders  = 64 << 10  // bytes of the headers of an answer
	maxReason   = 300       // bytes of an error
	maxWait     = time.Hour // that a receiver may ask for
)

// Exporter sends spans. Its methods must not be called concurrently.
type Exporter struct {
	exporter  *otlptrace.Exporter
	provider  *sdk.TracerProvider
	tracer    trace.Tracer
	transport *transport
	batch     *collector
	secrets   []string
}

// scope is the name of the instrumentation.
const scope = "github.com/coppice-dev/coppice"

// New returns an Exporter to a receiver, with secrets as they are now. It sends nothing yet. Close it.
func New(to spec.Traces, project, daemonVersion string) (*Exporter, error) {
	u, err := url.Parse(to.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("the endpoint is not a URL")
	}
	headers, err := readHeaders(to.Headers)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("v1/traces")
	e := &Exporter{batch: &collector{}, transport: &transport{base: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeaders,
		TLSHandshakeTimeout: timeout, IdleConnTimeout: time.Minute,
	}}}
	for _, value := range headers {
		e.secrets = append(e.secrets, value)
	}
	// The SDK reads variables of the environment for all that is not set here: only those of the resource are left.
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithTimeout(timeout), otlptracehttp.WithMaxResponseSize(maxResponse),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), otlptracehttp.WithTLSClientConfig(nil),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: e.transport, Timeout: timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	}
	if e.exporter, err = otlptracehttp.New(context.Background(), options...); err != nil {
		return nil, err
	}
	e.provider = sdk.NewTracerProvider(
		sdk.WithSpanProcessor(e.batch), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(given{}),
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: 1000, AttributeCountLimit: 100, EventCountLimit: 100, LinkCountLimit: 100,
			AttributePerEventCountLimit: 20, AttributePerLinkCountLimit: 20,
		}),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "coppice"), attribute.String("service.version", daemonVersion),
			attribute.String("coppice.project", plaintext.OneLine(project, maxReason)))),
	)
	e.tracer = e.provider.Tracer(scope, trace.WithInstrumentationVersion(daemonVersion),
		trace.WithSchemaURL(spans.GenAISchemaURL))
	return e, nil
}

// readHeaders returns the values of headers.
func readHeaders(all []spec.Header) (map[string]string, error) {
	values := make(map[string]string, len(all))
	for _, h := range all {
		values[h.Name] = h.Value
		if !h.From.IsSet() {
			continue
		}
		value, err := secret.Read(h.From)
		if err != nil {
			return nil, fmt.Errorf("the header %s: %w", h.Name, err)
		}
		values[h.Name] = value
	}
	return values, nil
}

// Close ends the connections.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = e.provider.Shutdown(ctx)
	_ = e.exporter.Shutdown(ctx)
	e.transport.base.CloseIdleConnections()
}

// Error says that spans were not exported.
type Error struct {
	Refused bool          // it is of no use to send the same spans again
	Wait    time.Duration // that the receiver asks for before the next request; 0 if it does not
	Reason  string        // without headers of the request
}

func (e *Error) Error() string { return e.Reason }

// Export sends spans in a request. Its error is an *Error. It reports how many of them the receiver has rejected.
func (e *Exporter) Export(ctx context.Context, all []spans.Span) (rejected int64, err error) {
	e.batch.spans = nil
	for i := range all {
		e.record(&all[i])
	}
	e.transport.answered, e.transport.wait = 0, 0
	err = e.exporter.ExportSpans(ctx, e.batch.spans)
	e.batch.spans = nil
	if err == nil {
		return 0, nil
	}
	if code := e.transport.answered; code >= 200 && code < 300 {
		// The receiver has them: it tells of spans that it has rejected, or its answer makes no sense.
		return rejectedOf(err.Error()), nil
	}
	reason := err.Error()
	for _, secret := range e.secrets {
		if secret != "" {
			reason = strings.ReplaceAll(reason, secret, "[secret]")
		}
	}
	return 0, &Error{
		Refused: refuses(e.transport.answered), Wait: e.transport.wait, Reason: plaintext.OneLine(reason, maxReason),
	}
}

// refuses reports whether a receiver that has answered with a status will never accept the same request. What a change
// of the settings or of the receiver can mend is no such status.
func refuses(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// record makes a span of the SDK.
func (e *Exporter) record(s *spans.Span) {
	ctx := context.WithValue(context.Background(), idKey{}, s.ID)
	options := []trace.SpanStartOption{
		trace.WithTimestamp(s.Start), trace.WithAttributes(s.Attributes...), trace.WithSpanKind(trace.SpanKindInternal),
	}
	for _, l := range s.Links {
		options = append(options, trace.WithLinks(trace.Link{
			SpanContext: contextOf(l.ID), Attributes: l.Attributes,
		}))
	}
	if !s.Parent.IsZero() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(s.Parent))
	}
	_, span := e.tracer.Start(ctx, s.Name, options...)
	for _, event := range s.Events {
		span.AddEvent(event.Name, trace.WithTimestamp(event.At), trace.WithAttributes(event.Attributes...))
	}
	if s.Failed {
		span.SetStatus(codes.Error, s.Reason)
	}
	span.End(trace.WithTimestamp(s.End))
}

func contextOf(id spanid.ID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id.Trace, SpanID: id.Span, TraceFlags: trace.FlagsSampled,
	})
}

// idKey is the key of the ID of the span that is started with a context.
type idKey struct{}

// given is an IDGenerator that returns the ID in the context.
type given struct{}

func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(idKey{}).(spanid.ID)
	return id.Trace, id.Span
}

func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	id, _ := ctx.Value(idKey{}).(spanid.ID)
	return id.Span
}

// collector is a SpanProcessor that collects the spans of a request.
type collector struct{ spans []sdk.ReadOnlySpan }

func (c *collector) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (c *collector) OnEnd(s sdk.ReadOnlySpan)                   { c.spans = append(c.spans, s) }
func (c *collector) Shutdown(context.Context) error             { return nil }
func (c *collector) ForceFlush(context.Context) error           { return nil }

// transport notes how the receiver answers.
type transport struct {
	base     *http.Transport
	answered int // the status; 0 if there was no answer
	wait     time.Duration
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.answered = answer.StatusCode
	if n, err := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 32); err == nil && n > 0 {
		t.wait = min(time.Duration(n)*time.Second, maxWait)
	}
	return answer, nil
}

// rejectedOf returns the number of rejected spans that an error of the SDK tells of; 0 if it tells of none.
func rejectedOf(text string) (n int64) {
	if _, rest, ok := strings.Cut(text, "OTLP partial success: "); ok {
		if i := strings.LastIndexByte(rest, '('); i >= 0 {
			_, _ = fmt.Sscanf(rest[i:], "(%d spans rejected)", &n)
		}
	}
	return max(0, n)
}

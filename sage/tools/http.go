package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// HTTP makes requests. Close closes its idle connections.
type HTTP struct {
	timeout   time.Duration
	transport *http.Transport
}

// Response is a response with any status. A status such as 404 is not an error.
type Response struct {
	Status int
	Body   string // UTF-8
	// Headers by name in lower case. The values of a repeated header
	// are joined with ", ".
	Headers map[string]string
}

// maxRedirects bounds the number of redirects that are followed.
const maxRedirects = 10

// NewHTTP returns an HTTP that uses the proxies of the environment. The timeout of a request
// includes its redirects and its body; DefaultHTTPTimeout if zero.
func NewHTTP(timeout time.Duration) *HTTP {
	return &HTTP{timeout: cmp.Or(timeout, DefaultHTTPTimeout), transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{}).DialContext,
		MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConns:           20,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}}
}

// Close closes idle connections. A later request opens new ones.
func (h *HTTP) Close() error {
	h.transport.CloseIdleConnections()
	return nil
}

// Do makes a request to an http or https URL. A body is text/plain in UTF-8 unless a header says
// otherwise. Up to 10 redirects are followed, but none from https to http. Only headers that do
// not identify the sender are sent to another host. A response body of more than 10 MiB is an
// error, and so is one that is not UTF-8.
func (h *HTTP) Do(ctx context.Context, method, address, body string, headers map[string]string) (Response, error) {
	r, err := h.do(ctx, method, address, body, headers)
	if err != nil {
		return Response{}, fmt.Errorf("%s %.200q: %w", method, withoutPassword(address), err)
	}
	return r, nil
}

func (h *HTTP) do(ctx context.Context, method, address, body string, headers map[string]string) (Response, error) {
	req, err := request(method, address, body, headers)
	if err != nil {
		return Response{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.timeout,
		fmt.Errorf("it took longer than %v (see %s)", h.timeout, EnvHTTPTimeout))
	defer cancel()
	client := http.Client{Transport: h.transport, CheckRedirect: redirect}
	resp, err := client.Do(req.WithContext(ctx))
	if err == nil {
		defer resp.Body.Close()
		var data []byte
		data, err = io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
		if err == nil {
			return response(resp, data)
		}
		err = fmt.Errorf("the answer broke off after %d bytes: %w", len(data), err)
	}
	if ctx.Err() != nil {
		return Response{}, context.Cause(ctx)
	}
	if u, is := errors.AsType[*url.Error](err); is {
		err = u.Err // without the address, which Do adds
	}
	return Response{}, err
}

// withoutPassword returns an address, which may be invalid, for an error.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		if _, after, ok := strings.Cut(address, "@"); ok {
			return "...@" + after
		}
		return address
	}
	return u.Redacted()
}

func request(method, address, body string, headers map[string]string) (*http.Request, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("the body has %d bytes, at most %d are sent", len(body), MaxBody)
	}
	u, err := url.Parse(address)
	if err != nil {
		if parse, is := errors.AsType[*url.Error](err); is {
			err = parse.Err
		}
		return nil, fmt.Errorf("not a URL: %w", err)
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, u.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "coppice")
	if body != "" {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	for name, value := range headers {
		switch http.CanonicalHeaderKey(name) {
		case "Host":
			req.Host = value
		case "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive",
			"Proxy-Connection", "Accept-Encoding":
			return nil, fmt.Errorf("a program cannot set the header %q; leave it out", name)
		default:
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the scheme is %.20q: only http and https can be asked", u.Scheme)
	case u.Hostname() == "":
		return errors.New("the URL names no host: want one such as https://example.com/")
	}
	return nil
}

// redirect decides whether a redirect is followed. For other hosts, net/http drops only the
// headers Authorization and Cookie, but keys have many names.
func redirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects, the last to %.200q", maxRedirects, next.URL.Redacted())
	}
	if err := checkURL(next.URL); err != nil {
		return fmt.Errorf("a redirect to %.200q is not followed: %w", next.URL.Redacted(), err)
	}
	if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return fmt.Errorf("a redirect from https to %.200q is not followed: what is sent could be read on the way",
			next.URL.Redacted())
	}
	if next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme {
		for name := range next.Header {
			if !slices.Contains([]string{"Accept", "Accept-Language", "Content-Type", "User-Agent"}, name) {
				next.Header.Del(name)
			}
		}
	}
	return nil
}

func response(resp *http.Response, data []byte) (Response, error) {
	if len(data) > MaxBody {
		return Response{}, fmt.Errorf("the body of the answer has more than %d bytes", MaxBody)
	}
	body, err := text(fmt.Sprintf("the body of the answer, of status %d and type %.100q,", resp.StatusCode,
		resp.Header.Get("Content-Type")), data)
	if err != nil {
		return Response{}, err
	}
	r := Response{Status: resp.StatusCode, Body: body, Headers: make(map[string]string, len(resp.Header))}
	for name, values := range resp.Header {
		r.Headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
	}
	return r, nil
}

package llm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// API is a server that implements OpenAI's chat completions.
//
// Temporary failures are retried: a lost or failed connection, a server error (5xx), and too many
// requests (429) unless the quota is used up. The delay before a retry is a random time up to 1 s,
// 2 s, 4 s ... 30 s plus the delay that the server asks for (Retry-After). If the server asks for
// more than 10 minutes, the request fails at once. All other errors are final, including an answer
// that takes longer than Timeout.
//
// Redirects are not followed, since the key would be sent along.
type API struct {
	URL         string // http or https, with or without "/chat/completions"
	Model       string
	Key         Secret        // none if empty
	Retries     int           // attempts after the first
	Temperature *float64      // nil: not sent
	MaxTokens   int           // of an answer; 0: not sent
	Timeout     time.Duration // of one attempt; DefaultTimeout if zero

	// Transport is for tests. If it is nil, the proxies of the environment are used and no
	// connection outlives its request.
	Transport http.RoundTripper
}

// Time limits of API. DefaultTimeout is also that of Command.
const (
	DefaultTimeout = 5 * time.Minute
	maxWait        = 10 * time.Minute // the longest delay that a server may ask for
)

// APIError is an error response of a server.
type APIError struct {
	Status  int    // the HTTP status
	Code    string // the server's code; may be empty
	Message string // in plain text, without the key, cut to 2 KiB

	after time.Duration // Retry-After
}

func (e *APIError) Error() string {
	s := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		s += ": " + e.Message
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		s += " (is " + EnvKey + " right?)"
	case http.StatusNotFound:
		s += " (are " + EnvURL + " and " + EnvModel + " right?)"
	}
	return s
}

// temporary reports whether another attempt may succeed.
func (e *APIError) temporary() bool {
	switch e.Code {
	case "insufficient_quota", "billing_hard_limit_reached":
		return false
	}
	return e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// lostError is a connection that could not be made or was lost.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// Complete asks the server, with retries. See API.
func (a *API) Complete(ctx context.Context, prompt string) (string, error) {
	to, err := endpoint(a.URL)
	if err != nil {
		return "", fmt.Errorf("the address of the model: %w", err)
	}
	body, err := json.Marshal(request{a.Model, []message{{"user", prompt}}, a.Temperature, a.MaxTokens})
	if err != nil {
		return "", err
	}
	for try := 0; ; try++ {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		text, err := a.try(ctx, to, body)
		if err == nil {
			return text, nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("asking %s: %w", displayURL(to), context.Cause(ctx))
		}
		err = fmt.Errorf("asking %s: %w", displayURL(to), err)
		answered, isAnswer := errors.AsType[*APIError](err)
		if _, lost := errors.AsType[lostError](err); !lost && !(isAnswer && answered.temporary()) {
			return "", err
		}
		if try >= a.Retries {
			if try > 0 {
				err = fmt.Errorf("%w (tried %d times)", err, try+1)
			}
			return "", err
		}
		wait := backoff(try)
		if isAnswer {
			if answered.after > maxWait {
				return "", fmt.Errorf("%w (it asks to wait %v, and the maximum is %v)", err,
					answered.after, maxWait)
			}
			wait += answered.after
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return "", fmt.Errorf("%w; while waiting after: %w", context.Cause(ctx), err)
		}
	}
}

// backoff returns a random delay below a bound that doubles, so that clients that fail together do
// not retry together.
func backoff(try int) time.Duration {
	return rand.N(min(time.Second<<min(try, 10), 30*time.Second)) + 1
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type request struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	MaxTokens   int       `json:"max_tokens,omitempty"`
}

// try sends one request and reads its answer.
func (a *API) try(ctx context.Context, to *url.URL, body []byte) (string, error) {
	timeout := cmp.Or(a.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return "", errors.New("the request cannot be made")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "coppice")
	if key := a.Key.reveal(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{
		Transport:     a.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if client.Transport == nil {
		client.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    30 * time.Second,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			MaxResponseHeaderBytes: 256 << 10,
			DisableKeepAlives:      true,
			ForceAttemptHTTP2:      true,
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		if u, is := errors.AsType[*url.Error](err); is {
			err = u.Err // the text of u contains the whole address
		}
		return "", a.transportError(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if resp.StatusCode != http.StatusOK {
		return "", a.statusError(resp, data)
	}
	switch {
	case err != nil:
		return "", a.transportError(ctx, fmt.Errorf("the answer broke off after %d bytes: %w", len(data), err))
	case len(data) > MaxAnswer:
		return "", fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return a.parse(resp, data)
}

// transportError classifies a failed request: ended by ctx, permanent, or a lost connection.
func (a *API) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return err
	}
	if dns, is := errors.AsType[*net.DNSError](err); is && dns.IsNotFound {
		return err
	}
	return lostError{errors.New(a.plain(err.Error(), maxReason))}
}

// completion has the fields of an answer or error that are used.
type completion struct {
	Choices []struct {
		Message struct {
			Content json.RawMessage `json:"content"`
			Refusal string          `json:"refusal"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Error json.RawMessage `json:"error"`
}

// parse returns the text of an answer with status 200, whose body may be anything.
func (a *API) parse(resp *http.Response, data []byte) (string, error) {
	var c completion
	if err := json.Unmarshal(data, &c); err != nil {
		kind := resp.Header.Get("Content-Type")
		return "", fmt.Errorf("the answer is not a chat completion but %q, which starts with %q: is %s right?",
			a.plain(kind, 100), a.plain(string(data), 200), EnvURL)
	}
	if code, message := a.errorOf(c.Error); message != "" {
		return "", &APIError{Status: resp.StatusCode, Code: code, Message: message}
	}
	if len(c.Choices) == 0 {
		return "", fmt.Errorf("the answer holds no choices, only %q: is %s right?", a.plain(string(data), 200),
			EnvURL)
	}
	first := c.Choices[0]
	text, ok := content(first.Message.Content)
	switch {
	case first.Message.Refusal != "":
		return "", fmt.Errorf("the model refuses: %q", a.plain(first.Message.Refusal, 500))
	case first.FinishReason == "length":
		return "", fmt.Errorf("the answer was cut off at the limit of tokens: ask for less, or raise %s",
			EnvMaxTokens)
	case first.FinishReason == "content_filter":
		return "", errors.New("the server's filter has withheld the answer")
	case !ok || strings.TrimSpace(text) == "":
		return "", fmt.Errorf("the answer is empty (finish_reason %q)", a.plain(first.FinishReason, 40))
	}
	return text, nil
}

// content returns the content of a message: a text, or the texts of its parts.
func content(raw json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text, true
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" || p.Type == "output_text" {
			b.WriteString(p.Text)
		}
	}
	return b.String(), true
}

// plain prepares a text of the server for an error of at most n bytes.
func (a *API) plain(text string, n int) string {
	return cut(a.Key.redact(quote(a.Key.redact(text))), n)
}

// errorOf reads the "error" of an answer, which is an object or a text.
func (a *API) errorOf(raw json.RawMessage) (code, text string) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return "", a.plain(s, maxReason)
	}
	var e struct {
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"` // some servers have numbers here
		Type    string          `json:"type"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return "", ""
	}
	if json.Unmarshal(e.Code, &code) != nil || code == "" {
		code = e.Type
	}
	code = a.plain(code, 100)
	return code, cmp.Or(a.plain(e.Message, maxReason), code)
}

// statusError returns the error of an answer with another status than 200.
func (a *API) statusError(resp *http.Response, data []byte) error {
	e := &APIError{Status: resp.StatusCode, after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	if to := resp.Header.Get("Location"); to != "" && e.Status/100 == 3 {
		if u, err := resp.Location(); err == nil {
			to = displayURL(u)
		}
		e.Message = fmt.Sprintf("it redirects to %q, which is not followed: set %s to where it leads",
			a.plain(to, 200), EnvURL)
		return e
	}
	var c completion
	json.Unmarshal(data, &c)
	e.Code, e.Message = a.errorOf(c.Error)
	if e.Message == "" {
		e.Message = a.plain(string(data), 300)
	}
	return e
}

// retryAfter parses the header, which is a number of seconds or a date. It returns 0 for anything
// else.
func retryAfter(v string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(strings.TrimSpace(v) + "s"); err == nil && strings.Trim(v, " 0123456789.") == "" {
		return max(0, d)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

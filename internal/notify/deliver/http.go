package deliver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
)

const (
	// maxAnswer bounds what is read of the body of an answer that is an error, in bytes.
	maxAnswer = 1 << 10
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxNtfy and maxSlack bound a text, in bytes. ntfy makes an attachment of a longer one, and Slack cuts it.
	maxNtfy, maxSlack = 3500, 12_000
)

// sendWebhook posts the message as JSON.
func sendWebhook(ctx context.Context, n *spec.Notify, s secrets, m *notify.Message) error {
	header := http.Header{"Coppice-Message": {m.ID}}
	if s.token != "" {
		if name := cmp.Or(n.Header, "Authorization"); n.Header == "" || strings.EqualFold(name, "Authorization") {
			header.Set(name, "Bearer "+s.token)
		} else {
			header.Set(name, s.token)
		}
	}
	return post(ctx, s.url, header, m, func(body []byte) {
		if s.signature != "" {
			sum := hmac.New(sha256.New, []byte(s.signature))
			sum.Write(body)
			header.Set("X-Coppice-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
		}
	})
}

// sendNtfy publishes the message as JSON, in which no text can be taken for a header. The topic is the last part of the
// path of the URL.
func sendNtfy(ctx context.Context, n *spec.Notify, s secrets, m *notify.Message) error {
	u, err := url.Parse(s.url)
	if err != nil {
		return errors.New("the URL cannot be read")
	}
	path := strings.TrimRight(u.Path, "/")
	i := strings.LastIndexByte(path, '/')
	if i < 0 || i == len(path)-1 {
		return errors.New("the URL has no topic, expected one such as https://ntfy.sh/topic")
	}
	topic := path[i+1:]
	u.Path, u.RawPath = path[:i+1], ""
	body := map[string]any{"topic": topic, "title": m.Title, "message": plaintext.Cut(m.Text, maxNtfy)}
	if n.Priority > 0 {
		body["priority"] = n.Priority
	}
	if len(n.Tags) > 0 {
		body["tags"] = n.Tags
	}
	if n.Click != "" {
		body["click"] = n.Click
	}
	header := http.Header{}
	if s.token != "" {
		header.Set("Authorization", "Bearer "+s.token)
	}
	return post(ctx, u.String(), header, body, nil)
}

// sendSlack posts a text in which nothing is a mention, a link or markup.
func sendSlack(ctx context.Context, s secrets, m *notify.Message) error {
	text := plaintext.Cut(m.Title+"\n"+m.Text, maxSlack)
	return post(ctx, s.url, http.Header{}, map[string]any{
		"text": slackText(text), "mrkdwn": false, "parse": "none", "link_names": false,
		"unfurl_links": false, "unfurl_media": false,
	}, nil)
}

// slackText escapes what Slack gives a meaning: <!channel>, <@U1> and <https://...> begin with "<".
func slackText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// client sends a request. It follows no redirects, so that neither a token nor a message gets to another host, and
// keeps no connection.
func client() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// post posts a value as JSON. sign may add headers for the body.
func post(ctx context.Context, to string, header http.Header, v any, sign func([]byte)) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if sign != nil {
		sign(body)
	}
	header.Set("Content-Type", "application/json")
	return request(ctx, http.MethodPost, to, header, body)
}

// request sends a request. An answer other than 2xx is an error.
func request(ctx context.Context, method, to string, header http.Header, body []byte) error {
	q, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	header.Set("User-Agent", "coppice")
	q.Header = header
	answer, err := client().Do(q)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which may be a secret
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch status := answer.StatusCode; {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return fmt.Errorf("the server answers with %d, a redirect, which is not followed", status)
	default:
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if said := plaintext.OneLine(string(text), 100); said != "" {
			return fmt.Errorf("the server answers with %d: %s", status, said)
		}
		return fmt.Errorf("the server answers with %d", status)
	}
}

// Ping requests the URL of [deadman].
func Ping(ctx context.Context, d spec.Deadman) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, errSlow)
	defer cancel()
	s, err := readSecrets(&spec.Notify{URL: d.URL, URLFrom: d.URLFrom})
	if err == nil {
		err = request(ctx, http.MethodGet, s.url, http.Header{}, nil)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return s.clean(err)
}

package fakemodel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitLimit bounds every wait. Only a failing test takes that long.
const waitLimit = 30 * time.Second

// A client sends requests to a server over HTTP.
type client struct {
	*testing.T
	server *Server
	base   string
	http   *http.Client
	ctx    context.Context
}

// newClient starts a server.
func newClient(t *testing.T) *client {
	t.Helper()
	s := New()
	listening := httptest.NewServer(s)
	ctx, cancel := context.WithTimeoutCause(t.Context(), waitLimit, errors.New("the test hangs"))
	t.Cleanup(func() {
		cancel()
		listening.Close() // waits for the requests in progress
	})
	return &client{t, s, listening.URL, listening.Client(), ctx}
}

// open sends a request and returns the response, whose body the test reads.
func (c *client) open(method, path string, body any, headers ...string) (*http.Response, error) {
	c.Helper()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		raw = []byte(encode(body))
	}
	r, err := http.NewRequestWithContext(c.ctx, method, c.base+path, bytes.NewReader(raw))
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(r)
	if err == nil {
		c.Cleanup(func() { response.Body.Close() })
	}
	return response, err
}

// do sends a request and returns the response with its whole body.
func (c *client) do(method, path string, body any, headers ...string) (*http.Response, []byte) {
	c.Helper()
	response, err := c.open(method, path, body, headers...)
	if err != nil {
		c.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatalf("%s %s: %v after %q", method, path, err, text)
	}
	return response, text
}

// getJSON gets a JSON value of the server.
func (c *client) getJSON(path string, into any) {
	c.Helper()
	response, text := c.do(http.MethodGet, path, nil)
	if err := json.Unmarshal(text, into); err != nil || response.StatusCode != http.StatusOK {
		c.Fatalf("GET %s: %s, %q: %v", path, response.Status, text, err)
	}
}

// ask sends a request for the model.
func (c *client) ask(a api, stream bool, scenario, tag string, body object) outcome {
	c.Helper()
	path := "/s/" + url.PathEscape(scenario) + "/" + tag + a.path(stream)
	response, err := c.open(http.MethodPost, path, a.streamed(body, stream))
	if err != nil {
		c.Fatal(err)
	}
	return a.read(response)
}

// only returns the single line of the ledger for a tag.
func (c *client) only(tag string) Request {
	c.Helper()
	rows := c.server.Ledger(tag)
	if len(rows) != 1 {
		c.Fatalf("the ledger has %+v for %s, want one request", rows, tag)
	}
	return rows[0]
}

// An outcome holds what a response tells a client, in terms that the APIs share.
type outcome struct {
	status      int
	header      http.Header
	text        string
	tool, args  string
	stop        string
	usage       tokens
	failure     string // the message of an error
	kind        string // of an error
	complete    bool   // the answer has its end
	broken      bool   // an event was not JSON
	readErr     error
	sequence    int // the next sequence_number
	outOfOrder  bool
	body        any // of an answer that is not streamed
	contentType string
}

// tokens counts the tokens of a Usage as an API reports them.
type tokens struct{ prompt, cached, output, reasoning int }

// told returns a usage as an API reports it. Anthropic's has no reasoning.
func (a api) told(u Usage) tokens {
	all := tokens{u.Prompt(), u.Cached, u.Output, u.Reasoning}
	if a.name == "anthropic" {
		all.reasoning = 0
	}
	return all
}

// read reads a response to its end, or until the connection breaks.
func (a api) read(response *http.Response) outcome {
	o := outcome{status: response.StatusCode, header: response.Header}
	if o.contentType = response.Header.Get("Content-Type"); o.contentType == "text/event-stream" {
		o.readErr = readEvents(response.Body, func(e event) bool {
			o.event(a, e)
			return true
		})
		return o
	}
	text, err := io.ReadAll(response.Body)
	o.readErr = err
	v, err := decode(text)
	if err != nil {
		o.broken = true
		return o
	}
	if list := asList(v); len(list) == 1 {
		v = list[0]
	}
	o.body = v
	if o.status != http.StatusOK {
		o.failed(at(v, "error"))
		return o
	}
	o.complete = true
	a.whole(&o, v)
	return o
}

// failed notes an error.
func (o *outcome) failed(e any) {
	o.failure = asText(at(e, "message"))
	for _, key := range []string{"code", "type", "status"} {
		if kind := asText(at(e, key)); kind != "" {
			o.kind = kind
		}
	}
}

// event notes an event of a stream.
func (o *outcome) event(a api, e event) {
	if e.data == "[DONE]" {
		o.complete = true
		return
	}
	v, err := decode([]byte(e.data))
	if err != nil {
		o.broken = true
		return
	}
	if kind := asText(at(v, "type")); kind != e.name {
		o.outOfOrder = true // the name of an event is its type, in each API that has names
	}
	a.part(o, v)
}

// readEvents reads server-sent events until the end, or until the function returns false.
func readEvents(r io.Reader, f func(event) bool) error {
	lines := bufio.NewReader(r)
	var e event
	for {
		line, err := lines.ReadString('\n')
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case errors.Is(err, io.EOF) && line == "" && e == event{}:
			return nil
		case err != nil:
			return err
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		case name == "":
			if !f(e) {
				return nil
			}
			e = event{}
		}
	}
}

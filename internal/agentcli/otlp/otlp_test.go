package otlp

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded is an export of claude 2.1.330 about a call, cut down to the attributes that are read.
const recorded = `{"resourceLogs":[{"resource":{"attributes":[
 {"key":"service.name","value":{"stringValue":"claude-code"}}]},
"scopeLogs":[{"scope":{"name":"com.anthropic.claude_code.events"},"logRecords":[
{"timeUnixNano":"1795396979589000000","body":{"stringValue":"claude_code.tool_decision"},"attributes":[
 {"key":"event.name","value":{"stringValue":"tool_decision"}},{"key":"event.sequence","value":{"intValue":5}}]},
{"timeUnixNano":"1795396979610000000","body":{"stringValue":"claude_code.api_request"},"attributes":[
 {"key":"session.id","value":{"stringValue":"ceb1a8bf"}},{"key":"anthropic.custom_base_url","value":{"boolValue":true}},
 {"key":"event.name","value":{"stringValue":"api_request"}},
 {"key":"event.timestamp","value":{"stringValue":"2026-11-23T01:22:59.610Z"}},
 {"key":"model","value":{"stringValue":"claude-opus-5-5"}},{"key":"input_tokens","value":{"intValue":1009}},
 {"key":"output_tokens","value":{"intValue":53}},{"key":"cache_read_tokens","value":{"intValue":211}},
 {"key":"cache_creation_tokens","value":{"intValue":103}},{"key":"cost_usd","value":{"doubleValue":0.0056532}},
 {"key":"request_id","value":{"stringValue":"req_fake000124"}}],"droppedAttributesCount":0}]}]}]}`

var expected = agentcli.Event{
	Kind: agentcli.Tokens, Time: time.Date(2026, 11, 23, 1, 22, 59, 610e6, time.UTC), Session: "ceb1a8bf",
	Model: "claude-opus-5-5", ID: "req_fake000124",
	Usage: agentcli.Usage{Input: 1009, CacheRead: 211, CacheWrite: 103, Output: 53, Dollars: 0.0056532},
}

func TestEvents(t *testing.T) {
	call := func(attributes string) string {
		return `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[` +
			`{"key":"event.name","value":{"stringValue":"api_request"}},` + attributes + `]}]}]}]}`
	}
	used := func(u agentcli.Usage) []agentcli.Event { return []agentcli.Event{{Kind: agentcli.Tokens, Usage: u}} }
	for name, c := range map[string]struct {
		body string
		want []agentcli.Event
	}{
		"as recorded":        {recorded, []agentcli.Event{expected}},
		"nothing":            {`{}`, nil},
		"a string of digits": {call(`{"key":"input_tokens","value":{"intValue":"7"}}`), used(agentcli.Usage{Input: 7})},
		"an integer price":   {call(`{"key":"cost_usd","value":{"intValue":"2"}}`), used(agentcli.Usage{Dollars: 2})},
		"a price as text": {
			call(`{"key":"cost_usd","value":{"stringValue":"0.5"}}`), used(agentcli.Usage{Dollars: 0.5}),
		},
		"negative": {call(`{"key":"input_tokens","value":{"intValue":-7}},` +
			`{"key":"cost_usd","value":{"doubleValue":-1}}`), used(agentcli.Usage{})},
		"not a number": {call(`{"key":"input_tokens","value":{"intValue":"many"}},` +
			`{"key":"cost_usd","value":{"stringValue":"NaN"}}`), used(agentcli.Usage{})},
		"too much": {call(`{"key":"cost_usd","value":{"doubleValue":1e300}}`), used(agentcli.Usage{})},
		"a long name": {call(`{"key":"model","value":{"stringValue":"` + strings.Repeat("x", 201) + `"}}`),
			used(agentcli.Usage{})},
		"null in places": {`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[
			{"key":"model","value":null}]}]}]},{}]}`, nil},
		"an array of text": {
			call(`{"key":"input_tokens","value":{"arrayValue":{"values":[]}}}`), used(agentcli.Usage{}),
		},
	} {
		got, err := Events([]byte(c.body))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", name, got, err, c.want)
		}
	}
	for _, body := range []string{"", "[]", `{"resourceLogs":7}`, recorded[:300]} {
		if got, err := Events([]byte(body)); err == nil || got != nil {
			t.Errorf("%.40q: %+v, %v", body, got, err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(recorded))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := Events(body)
		for _, e := range all {
			u := e.Usage
			least := min(u.Input, u.Output, u.CacheRead, u.CacheWrite)
			if err != nil || least < 0 || !(u.Dollars >= 0 && u.Dollars < 1e9) {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}

func TestReceiver(t *testing.T) {
	var got []agentcli.Event
	who := token.Caller{Path: "t/a", Incarnation: 3}
	s := httptest.NewServer(New(
		func(secret string) (token.Caller, error) {
			switch secret {
			case "s":
				return who, nil
			case "pending":
				return token.Caller{}, token.ErrPending
			}
			return token.Caller{}, token.Stale(who)
		},
		func(from token.Caller, all []agentcli.Event) {
			if from != who {
				t.Errorf("from %+v", from)
			}
			got = append(got, all...)
		},
	))
	defer s.Close()
	zipped := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.String()
	}
	const kind, zip = "application/json", "gzip"
	huge := strings.Repeat(" ", maxBody+1)
	for name, c := range map[string]struct {
		method, path, secret, kind, coding, body string
		status                                   int
		says                                     string
		events                                   int
	}{
		"logs":             {"POST", "/v1/logs", "s", kind, "", recorded, 200, "{}", 1},
		"not decoded":      {"POST", "/v1/logs", "%20s", kind, "", recorded, 200, "{}", 1},
		"with a charset":   {"POST", "/v1/logs", "s", kind + "; charset=utf-8", "", recorded, 200, "{}", 1},
		"compressed":       {"POST", "/v1/logs", "s", kind, zip, zipped(recorded), 200, "{}", 1},
		"metrics":          {"POST", "/v1/metrics", "s", kind, "", `{"resourceMetrics":[]}`, 200, "{}", 0},
		"no token":         {"POST", "/v1/logs", "", kind, "", recorded, 401, "COPPICE_TOKEN", 0},
		"a stale token":    {"POST", "/v1/logs", "old", kind, "", recorded, 401, "COPPICE_TOKEN", 0},
		"a daemon starts":  {"POST", "/v1/logs", "pending", kind, "", recorded, 503, "taken over", 0},
		"protobuf":         {"POST", "/v1/logs", "s", "application/x-protobuf", "", "\n\x00", 415, "http/json", 0},
		"another coding":   {"POST", "/v1/logs", "s", kind, "br", "x", 415, "gzip or none", 0},
		"not gzip":         {"POST", "/v1/logs", "s", kind, zip, recorded, 400, "gzip", 0},
		"not JSON":         {"POST", "/v1/logs", "s", kind, "", "\x00\"", 400, "ExportLogsServiceRequest", 0},
		"huge":             {"POST", "/v1/logs", "s", kind, "", huge, 413, "more than", 0},
		"a bomb":           {"POST", "/v1/logs", "s", kind, zip, zipped(huge), 413, "more than", 0},
		"another path":     {"POST", "/v1/tasks", "s", kind, "", "{}", 404, "/v1/logs", 0},
		"only to be read":  {"GET", "/v1/logs", "s", kind, "", "", 405, "POST", 0},
		"a path with dots": {"POST", "/v1/../v1/logs", "s", kind, "", recorded, 404, "/v1/logs", 0},
	} {
		got = nil
		q, err := http.NewRequest(c.method, s.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		scheme := "Bearer "
		if strings.HasPrefix(c.secret, "%20") {
			scheme = "Bearer"
		}
		q.Header.Set("Authorization", scheme+c.secret)
		q.Header.Set("Content-Type", c.kind)
		q.Header.Set("Content-Encoding", c.coding)
		answer, err := s.Client().Do(q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		says := strings.Contains(string(text), c.says)
		if err != nil || answer.StatusCode != c.status || !says || len(got) != c.events {
			t.Errorf("%s: %s %s, %d events, %v", name, answer.Status, text, len(got), err)
		}
	}
}

package otlp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
)

// way carries requests to a handler; nil if it is not reached.
type way struct{ to http.Handler }

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return nil, err
	case w.to == nil:
		return nil, errors.New("no controller answers")
	}
	answer := httptest.NewRecorder()
	q := httptest.NewRequest(r.Method, r.URL.RequestURI(), bytes.NewReader(body))
	q.Header = r.Header
	w.to.ServeHTTP(answer, q)
	return answer.Result(), nil
}

// What exporters send to another machine reaches the receiver, which checks it as ever.
func TestForwarder(t *testing.T) {
	var got []agentcli.Event
	receiver := New(func(text string) (token.Caller, error) {
		if text != "good" {
			return token.Caller{}, errors.New("no agent has it")
		}
		return token.Caller{Path: "t/a"}, nil
	}, func(_ token.Caller, all []agentcli.Event) { got = append(got, all...) })
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "other "+r.URL.Path) })
	w := &way{Accept(receiver, other)}
	f := Forwarder(w, slog.New(slog.DiscardHandler))
	const logs = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[` +
		`{"key":"event.name","value":{"stringValue":"api_request"}},` +
		`{"key":"cost_usd","value":{"doubleValue":0.5}}]}]}]}]}`
	for _, tt := range []struct {
		name, path, secret, body string
		cut                      bool
		status                   int
	}{
		{"good", "/v1/logs", "good", logs, false, http.StatusOK},
		{"metrics", "/v1/metrics", "good", "{}", false, http.StatusOK},
		{"another token", "/v1/logs", "bad", logs, false, http.StatusUnauthorized},
		{"another path", "/v1/nodes", "good", logs, false, http.StatusNotFound},
		{"a path that leads out", "/../../v1/nodes", "good", logs, false, http.StatusNotFound},
		{"too long", "/v1/logs", "good", strings.Repeat(" ", maxBody+1), false, http.StatusRequestEntityTooLarge},
		{"no controller", "/v1/logs", "good", logs, true, http.StatusServiceUnavailable},
		{"again", "/v1/logs", "good", logs, false, http.StatusOK},
	} {
		if w.to = Accept(receiver, other); tt.cut {
			w.to = nil
		}
		q := httptest.NewRequest(http.MethodPost, "http://x/", strings.NewReader(tt.body))
		q.URL.Path = tt.path
		q.Header.Set("Authorization", "Bearer "+tt.secret)
		q.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		f.ServeHTTP(answer, q)
		if answer.Code != tt.status || strings.Contains(answer.Body.String(), "other") {
			t.Errorf("%s: %d %s, want %d", tt.name, answer.Code, answer.Body, tt.status)
		}
	}
	if len(got) != 2 || got[0].Usage.Dollars != 0.5 {
		t.Errorf("%+v", got)
	}
	answer := httptest.NewRecorder()
	w.to.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/nodes", http.NoBody))
	if answer.Body.String() != "other /v1/nodes" {
		t.Errorf("%s", answer.Body)
	}
}

// An environment of another machine is as if it was made on this one, and what a user has set stays.
func TestLocalize(t *testing.T) {
	plain := []string{"A=1", proc.EnvToken + "=secret", "B=2"}
	users := append(slices.Clone(plain), "OTEL_EXPORTER_OTLP_ENDPOINT=http://example.com", "OTEL_LOGS_EXPORTER=otlp")
	at := func(address string) []string { return append(Environ(agentcli.Claude, plain, address), "C=3") }
	for name, tt := range map[string]struct {
		env     []string
		address string
		want    []string
	}{
		"another address": {at("127.0.0.1:1"), "127.0.0.1:2", at("127.0.0.1:2")},
		"no receiver":     {at("127.0.0.1:1"), "", append(slices.Clone(plain), "C=3")},
		"nothing":         {plain, "127.0.0.1:2", plain},
		"a user":          {users, "127.0.0.1:2", users},
		"empty":           {nil, "127.0.0.1:2", nil},
		"cut off":         {at("127.0.0.1:1")[:6], "127.0.0.1:2", at("127.0.0.1:1")[:6]},
	} {
		if got := Localize(tt.env, tt.address); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

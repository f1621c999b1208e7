package far

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// What is wrong with an answer is an error, and what was known stays.
func TestHostileAnswers(t *testing.T) {
	f := newFar(t)
	follower := f.client.Follow(f.call(nil))
	f.write(one+".jsonl", f.begins(one), uses("a", 7))
	f.poll(f.client, follower, agentcli.Report{})
	for name, text := range map[string]string{
		"no JSON": "nonsense", "half": `{"version":1,"polls":[{"id":1,`, "version": `{"version":9}`,
		"huge": strings.Repeat(" ", maxAnswer) + `{"version":1}`,
	} {
		f.text = text
		follower.Poll(agentcli.Report{})
		if f.step(f.client) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, text := range map[string]string{
		"negative usage": `{"Models":{"m":{"input":-1}}}`, "negative count": `{"Calls":-1}`, "no report": `[]`,
		"too large a number": `{"Turns":1e99}`,
	} {
		f.text = `{"version":1,"polls":[{"id":1,"have":9,"report":` + text + `},{"id":77,"report":{}}]}`
		follower.Poll(agentcli.Report{})
		if err := f.step(f.client); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := follower.Report().Tokens(); got != 7 {
		t.Errorf("%d tokens", got)
	}
	f.text = ""
	f.write(one+".jsonl", uses("b", 5))
	f.poll(f.client, follower, agentcli.Report{})
	if got := follower.Report().Tokens(); got != 12 {
		t.Errorf("%d tokens", got)
	}
}

// What is wrong with a request is refused, with a reason.
func TestHostileRequests(t *testing.T) {
	f := newFar(t)
	many := func(n int, one string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
	}
	for _, tt := range []struct {
		method, body string
		status       int
		want         string
	}{
		{http.MethodGet, "", http.StatusNotFound, "expected POST"},
		{http.MethodPost, "", http.StatusBadRequest, "EOF"},
		{http.MethodPost, `{"version":2,"client":"x"}`, http.StatusBadRequest, "version 2"},
		{http.MethodPost, `{"version":1}`, http.StatusBadRequest, "ID of a client"},
		{http.MethodPost, `{"version":1,"client":"x","polls":` + many(maxPolls+1, `{"id":1}`) + `}`,
			http.StatusBadRequest,
			"expected at most"},
		{http.MethodPost, `{"version":1,"client":"x","drop":` + many(maxDrops+1, `1`) + `}`, http.StatusBadRequest,
			"expected at most"},
		{http.MethodPost, `{"version":1,"client":"x","polls":[{"id":1,"call":{"began":"2026-01-01T00:00:00Z","dir":"` +
			strings.Repeat("AAAA", maxCall) + `"}}]}`, http.StatusBadRequest, "description"},
		{http.MethodPost, `{"version":1,"client":"` + strings.Repeat("x", maxRequest) + `"}`, http.StatusBadRequest,
			"too large"},
		{http.MethodPost, `{"version":1,"client":"x","polls":[{"id":1},{"id":1}],"drop":[5]}`, http.StatusOK,
			`"unknown":true`},
		{http.MethodPost, `{"version":1,"client":"x","polls":[{"id":1,"call":{"cli":"nonsense",` +
			`"began":"2026-01-01T00:00:00Z","session":"../../x"},"output":{"session":"/etc/passwd"}}]}`, http.StatusOK,
			`"report":{`},
	} {
		w := httptest.NewRecorder()
		f.server.ServeHTTP(w, httptest.NewRequest(tt.method, Path, strings.NewReader(tt.body)))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%.100s: %d, %.200s; want %d, %s", tt.body, w.Code, w.Body, tt.status, tt.want)
		}
	}
	for i := range maxClients + 5 {
		c := f.newClient()
		c.id = fmt.Sprint("client ", i)
		f.poll(c, c.Follow(f.call(nil)), agentcli.Report{})
	}
	if n := len(f.server.clients); n != maxClients {
		t.Errorf("%d clients", n)
	}
	f.server.forgetBefore(time.Now())
	if n := len(f.server.clients); n != 0 {
		t.Errorf("%d clients that are idle", n)
	}
}

// A report that cannot be sent is unknown.
func TestEncodeReport(t *testing.T) {
	for _, r := range []agentcli.Report{
		{Text: strings.Repeat("x", maxReport)}, {Windows: []agentcli.Window{{Used: -1 / zero}}},
	} {
		got, err := parseReport(encodeReport(r))
		if err != nil || !reflect.DeepEqual(got, agentcli.Report{}) {
			t.Errorf("%.200v, %v", got, err)
		}
	}
}

var zero = 0.0

package fakemodel

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests sends bodies to each API. Each answer is one that a client can read.
func FuzzRequests(f *testing.F) {
	scenarios := []string{
		"normal", "tool", "loop", `call=note:{"a":1}`, "json=x", "quota", "context", "cut", "badjson", "errmid", "refusal",
	}
	wanted := object{"type": "object", "properties": object{"a": object{"enum": []any{1, "user"}}}}
	for i, a := range apis() {
		for j := range scenarios {
			f.Add(uint8(i), uint8(j), j%2 == 0, encode(a.streamed(a.main(), true)))
		}
		f.Add(uint8(i), uint8(0), true, encode(with(a.main(), a.result)))
		f.Add(uint8(i), uint8(1), false, encode(with(a.main(), a.schema(wanted))))
	}
	f.Add(uint8(1), uint8(3), true, `{"stream":true,"input":[],"tools":[{"type":"namespace","name":"c__",
		"tools":[{"name":"note"}]},{"type":"local_shell"}]}`)
	f.Add(uint8(0), uint8(3), true, `{"tools":[{"name":"ToolSearch"}],"messages":["mcp__c__note"]}`)
	f.Fuzz(func(t *testing.T, apiIndex, scenarioIndex uint8, stream bool, body string) {
		a := apis()[int(apiIndex)%len(apis())]
		scenario := scenarios[int(scenarioIndex)%len(scenarios)]
		s := New()
		path := "/s/" + url.PathEscape(scenario) + "/t" + a.path(stream)
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		got := a.read(w.Result())
		streamed := got.contentType == "text/event-stream"
		if got.readErr != nil || got.outOfOrder || got.broken != (streamed && scenario == "badjson") {
			t.Errorf("%s, %s: %s is answered by %+v: %s", a.name, scenario, body, got, w.Body)
		}
		if !streamed && got.complete == (got.status != http.StatusOK) {
			t.Errorf("%s, %s: %s is answered by %+v", a.name, scenario, body, got)
		}
		rows := s.Ledger("t")
		if len(rows) != 1 || rows[0].Status != got.status || got.complete && rows[0].Stream != streamed {
			t.Errorf("%s, %s: the ledger of %s has %+v", a.name, scenario, body, rows)
		}
	})
}

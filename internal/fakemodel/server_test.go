package fakemodel

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// statuses asks n times and returns the statuses, with "call" for a call of a tool.
func (c *client) statuses(n int, scenario, tag string) string {
	c.Helper()
	var all []string
	for range n {
		got := c.ask(apis()[0], false, scenario, tag, apis()[0].main())
		word := fmt.Sprint(got.status)
		if got.tool != "" {
			word = "call"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

func TestSteps(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	if got := c.statuses(6, "loop,auth*3,normal", "t"); got != "call 401 401 401 200 200" {
		t.Errorf("the steps are %s", got)
	}
	if got := c.statuses(1, "loop,auth*3,normal", "other"); got != "call" {
		t.Errorf("another tag begins with %s", got)
	}
	// A request on the side is answered as normal and takes no step, as do counts.
	a := apis()[0]
	c.ask(a, false, "loop,auth", "side", a.plain)
	c.do(http.MethodPost, "/s/loop,auth/side/v1/messages/count_tokens", object{})
	if got := c.statuses(2, "loop,auth", "side"); got != "call 401" {
		t.Errorf("after a request on the side the steps are %s", got)
	}
	// The step of one on the side is that of the next request.
	if got := c.ask(a, false, "loop,auth", "side", a.plain); got.status != http.StatusUnauthorized {
		t.Errorf("a request on the side is answered by %d", got.status)
	}
}

func TestConcurrentSteps(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { c.ask(apis()[0], true, "normal*4,auth*4", "t", apis()[0].main()) })
	}
	all.Wait()
	if sums := c.server.Sums("t"); sums.Requests != 8 || sums.Errors != 4 || sums.Input != 4*AnswerUsage().Input {
		t.Errorf("the sums are %+v", sums)
	}
	for i, row := range c.server.Ledger("") {
		if row.N != i+1 {
			t.Errorf("line %d has the number %d", i+1, row.N)
		}
	}
}

func TestControlledScenario(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	if got := c.statuses(2, "@", "t"); got != "200 200" {
		t.Errorf("without a scenario: %s", got)
	}
	if err := c.server.SetScenario("t", "auth,loop"); err != nil {
		t.Fatal(err)
	}
	if got := c.statuses(3, "@", "t"); got != "401 call call" {
		t.Errorf("after SetScenario: %s", got)
	}
	_, text := c.do(http.MethodPost, "/_ctl/t", []byte("e500,normal\n"))
	if want := `{"scenario":"e500,normal","tag":"t"}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if got := c.statuses(2, "@", "t"); got != "500 200" {
		t.Errorf("after /_ctl: %s", got)
	}
	if rows := c.server.Ledger("t"); rows[5].Scenario != "e500,normal" {
		t.Errorf("the ledger has %+v", rows[5])
	}
	if got := c.statuses(1, "@", "u"); got != "200" {
		t.Errorf("another tag: %s", got)
	}
	response, text := c.do(http.MethodPost, "/_ctl/t", []byte("nope"))
	if response.StatusCode != 400 || !strings.Contains(string(text), `unknown step \"nope\", expected one of normal, `) {
		t.Errorf("a wrong scenario: %s, %s", response.Status, text)
	}
	if got := c.statuses(1, "@", "t"); got != "200" {
		t.Errorf("a wrong scenario was set: %s", got)
	}
}

// The server tells of a plan what the next request for the model will show. That takes no step.
func TestPlan(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for scenario, used := range map[string]float64{"normal,quota": 50, "auth": 50, "quota=60,normal": 100} {
		for range 2 {
			response, text := c.do(http.MethodGet, "/s/"+scenario+"/t/api/oauth/usage", nil)
			var got struct {
				Hours struct {
					Used   float64   `json:"utilization"`
					Resets time.Time `json:"resets_at"`
				} `json:"five_hour"`
			}
			if err := json.Unmarshal(text, &got); err != nil || response.StatusCode != http.StatusOK ||
				got.Hours.Used != used || (time.Until(got.Hours.Resets) <= time.Minute) != (used == 100) {
				t.Errorf("%s: %s, %v", scenario, text, err)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.server.maxBody = 1000
	large := make([]byte, 1001)
	for _, test := range []struct {
		method, path string
		body         any
		headers      []string
		status       int
		text         string
	}{
		{"POST", "/s/nope/t/v1/messages", object{}, nil, 400, `unknown step \"nope\", expected one of normal, slow`},
		{"POST", "/s/quota=soon/t/v1/responses", object{}, nil, 400, "expected a number from 0 to 1000000000"},
		{"GET", "/s/nope/t/v1/models", nil, nil, 400, "unknown step"},
		{"POST", "/s/normal/t/v1/embeddings", object{}, nil, 404, "not_found_error"},
		{"GET", "/s/normal/t/v1/messages", nil, nil, 404, "not_found_error"},
		{"POST", "/s/normal/t", object{}, nil, 404, "not_found_error"},
		{"POST", "/s/normal", object{}, nil, 404, "expected /s/SCENARIO/TAG"},
		{"POST", "/s//t/v1/messages", object{}, nil, 404, "expected /s/SCENARIO/TAG"},
		{"POST", "/v1/messages", object{}, nil, 404, "expected /s/SCENARIO/TAG"},
		{"POST", "/_ledger", object{}, nil, 404, "expected /s/SCENARIO/TAG"},
		{"GET", "/_requests/a/b", nil, nil, 404, "expected /s/SCENARIO/TAG"},
		{"POST", "/s/normal/t/v1/messages", []byte("no gzip"), []string{"Content-Encoding", "gzip"},
			400, "decompressing"},
		{"POST", "/s/normal/t/v1/messages", compressed(large), []string{"Content-Encoding", "gzip"},
			413, "more than 1000 bytes"},
		{"POST", "/s/normal/t/v1/messages", large, nil, 413, "more than 1000 bytes"},
		{"POST", "/_ctl/t", large, nil, 413, "more than 1000 bytes"},
	} {
		response, text := c.do(test.method, test.path, test.body, test.headers...)
		if response.StatusCode != test.status || !strings.Contains(string(text), test.text) {
			t.Errorf("%s %s: %s, %.200q; want %d, %s", test.method, test.path, response.Status, text,
				test.status, test.text)
		}
	}
	if sums := c.server.Sums(""); sums.Other != sums.Requests || sums.Requests != 9 {
		t.Errorf("the sums are %+v", sums)
	}
}

// compressed returns a body in gzip.
func compressed(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(body)
	z.Close()
	return b.Bytes()
}

func TestBodies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body    []byte
		headers []string
		model   string
	}{
		"gzip":          {compressed([]byte(`{"model": "small"}`)), []string{"Content-Encoding", "gzip"}, "small"},
		"empty":         {nil, nil, ""},
		"not JSON":      {[]byte("{"), nil, ""},
		"two values":    {[]byte(`{"model": "a"} {}`), nil, ""},
		"not an object": {[]byte(`["model"]`), nil, ""},
		"wrong types":   {[]byte(`{"model": 1, "messages": {}, "tools": "x", "output_config": []}`), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			response, text := c.do(http.MethodPost, "/s/normal/t/v1/messages", test.body, test.headers...)
			if response.StatusCode != 200 || !strings.Contains(string(text), "A title") {
				t.Errorf("got %s, %s", response.Status, text)
			}
			if row := c.only("t"); row.Model != test.model || row.Kind != KindSide {
				t.Errorf("the ledger has %+v", row)
			}
		})
	}
}

func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, path := range []string{"/v1/messages/count_tokens?beta=true", "/v1beta/models/g:countTokens"} {
		_, text := c.do(http.MethodPost, "/s/hang/t"+path, object{})
		if want := `{"input_tokens":1000,"totalTokens":1000}`; string(text) != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
	}
	var models struct{ Data []struct{ ID string } }
	c.getJSON("/s/normal/t/v1/models", &models)
	if len(models.Data) != 3 || models.Data[0].ID != "fake-model" {
		t.Errorf("the models are %+v", models)
	}
	rows := c.server.Ledger("t")
	if len(rows) != 3 || rows[0].Kind != KindCount || rows[1].Kind != KindCount || rows[2].Kind != KindOther {
		t.Errorf("the ledger has %+v", rows)
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var observed []Request
	c.server.Observe(func(r Request) { observed = append(observed, r) })
	c.statuses(3, "normal,auth,normal=2", "a b")
	c.statuses(1, "normal", "b")
	var all, some []Request
	c.getJSON("/_ledger", &all)
	c.getJSON("/_ledger?tag=a+b", &some)
	if !reflect.DeepEqual(all, c.server.Ledger("")) || !reflect.DeepEqual(all, observed) || len(all) != 4 {
		t.Errorf("the ledger is %+v", all)
	}
	if !reflect.DeepEqual(some, c.server.Ledger("a b")) || len(some) != 3 {
		t.Errorf("the ledger of a tag is %+v", some)
	}
	var sums Sums
	c.getJSON("/_ledger?tag=a+b&sum=1", &sums)
	used := AnswerUsage().times(3)
	want := Sums{Requests: 3, Main: 3, Errors: 1, Usage: used, Billed: used.Input + used.Written + used.Output}
	if sums != want || sums != c.server.Sums("a b") {
		t.Errorf("the sums are %+v, want %+v", sums, want)
	}
	if _, text := c.do(http.MethodGet, "/_ledger?tag=none", nil); string(text) != "[]" {
		t.Errorf("the ledger of an unknown tag is %s", text)
	}
	_, text := c.do(http.MethodGet, "/_ledger?tag=b", nil)
	for _, field := range strings.Fields("n tag scenario step api path method model stream kind status sent " +
		"messages t input cached written output reasoning") {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("the ledger lacks %s: %s", field, text)
		}
	}
}

// Some clients start a tool when they have its call, before the answer ends.
func TestLedgerHasCallBeforeClient(t *testing.T) {
	t.Parallel()
	for _, a := range apis() {
		c := newClient(t)
		tag := a.name
		w := writer{httptest.NewRecorder(), func(text string) {
			for _, complete := range []string{"content_block_stop", "arguments.done", "finish_reason\":\"", "finishReason"} {
				if rows := c.server.Ledger(tag); strings.Contains(text, complete) && (len(rows) != 1 || !rows[0].Sent) {
					t.Errorf("%s: the client has a call, and the ledger %+v", a.name, rows)
				}
			}
		}}
		body := strings.NewReader(encode(a.streamed(a.main(), true)))
		c.server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/s/tool/"+tag+a.path(true), body))
		if rows := c.server.Ledger(tag); len(rows) != 1 || !rows[0].Stream {
			t.Errorf("%s: the ledger is %+v", a.name, rows)
		}
	}
}

// writer is a ResponseWriter that shows what it writes before.
type writer struct {
	*httptest.ResponseRecorder
	show func(text string)
}

func (w writer) Write(data []byte) (int, error) {
	w.show(string(data))
	return w.ResponseRecorder.Write(data)
}

func (w writer) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

func TestRequests(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for i := range keptRequests + 2 {
		c.do(http.MethodPost, "/s/normal/t/v1/messages", object{"i": i}, "X-Api-Key", "dummy")
	}
	c.do(http.MethodPost, "/s/normal/t/v1/messages?q", []byte("no JSON"))
	var all []struct {
		Path    string
		Headers map[string]string
		Body    map[string]int
	}
	c.getJSON("/_requests/t", &all)
	if len(all) != keptRequests || all[0].Body["i"] != 3 || all[0].Headers["x-api-key"] != "dummy" ||
		all[0].Headers["host"] == "" || all[49].Path != "/v1/messages" || len(all[49].Body) != 0 {
		t.Errorf("got %d requests: %+v", len(all), all)
	}
	c.getJSON("/_requests/none", &all)
	if len(all) != 0 {
		t.Errorf("an unknown tag has %+v", all)
	}
}

// What is escaped in a path separates nothing, also next to characters that should be escaped.
func TestEscapedPaths(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	a := apis()[0]
	const scenario = `call=note:{"text":"a/b?c"}*2,auth`
	for _, escaped := range []string{
		`call=note:{"text":"a%2Fb%3Fc"}*2,auth`,
		`call%3Dnote%3A%7B%22text%22%3A%22a%2Fb%3Fc%22%7D%2A2%2Cauth`,
	} {
		body := strings.NewReader(encode(a.main()))
		r := httptest.NewRequest(http.MethodPost, "/s/"+escaped+"/t%20u/v1/messages", body)
		w := httptest.NewRecorder()
		c.server.ServeHTTP(w, r)
		if got := a.read(w.Result()); got.args != `{"text":"a/b?c"}` {
			t.Errorf("%s: %+v", escaped, got)
		}
	}
	for _, row := range c.server.Ledger("t u") {
		if row.Scenario != scenario {
			t.Errorf("the ledger has %+v", row)
		}
	}
}

// A slow answer takes its time, and ends when the client leaves; then it was not sent.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, a := range apis() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := New()
				slow := func(ctx context.Context, tag string) (outcome, time.Duration) {
					body := strings.NewReader(encode(a.streamed(a.main(), true)))
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/s/slow=3/"+tag+a.path(true), body)
					w, began := httptest.NewRecorder(), time.Now()
					s.ServeHTTP(w, r)
					return a.read(w.Result()), time.Since(began)
				}
				got, took := slow(t.Context(), "whole")
				if !got.complete || got.outOfOrder || took != 3*time.Second ||
					got.text != "word0 word1 word2 "+Answer {
					t.Errorf("took %v: %+v", took, got)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
				defer cancel()
				got, took = slow(ctx, "left")
				if got.complete || took != 1500*time.Millisecond || got.text != "word0 word1 " {
					t.Errorf("took %v: %+v", took, got)
				}
				sent := []bool{s.Ledger("whole")[0].Sent, s.Ledger("left")[0].Sent}
				if !reflect.DeepEqual(sent, []bool{true, false}) {
					t.Errorf("sent: %v", sent)
				}
			})
		})
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	s := New()
	l, err := s.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New().Listen(l.Port()); err == nil {
		t.Error("a port was opened twice")
	}
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	base := l.URL(`call=note:{"text":"a/b"}`, "a b")
	want := fmt.Sprintf("http://127.0.0.1:%d/s/call=note:%%7B%%22text%%22:%%22a%%2Fb%%22%%7D/a%%20b", l.Port())
	if base != want {
		t.Errorf("the URL is %s, want %s", base, want)
	}
	a := apis()[0]
	response, err := c.Post(base+"/v1/messages", "application/json", strings.NewReader(encode(a.main())))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.read(response); got.args != `{"text":"a/b"}` || len(s.Ledger("a b")) != 1 {
		t.Errorf("got %+v", got)
	}
	response.Body.Close()
	// Close ends a request that hangs.
	s.Observe(func(Request) { go l.Close() })
	response, err = c.Post(l.URL("hang", "t")+"/v1/messages", "application/json", strings.NewReader("{}"))
	if err == nil {
		t.Errorf("got %s", response.Status)
	}
	l.Close()
}

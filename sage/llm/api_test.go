package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const key = "sk-very-secret-0123456789"

// completionOf returns a completion with this text.
func completionOf(text string) string {
	b, _ := json.Marshal(text)
	return fmt.Sprintf(`{"choices": [{"message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}]}`, b)
}

func serve(t *testing.T, h http.HandlerFunc) *API {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &API{URL: s.URL + "/v1", Model: "m", Key: NewSecret(key)}
}

func TestAPI(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want := `{"model":"m","messages":[{"role":"user","content":"Who? <é>"}],"temperature":0,"max_tokens":9}`
		var got, wanted any
		json.Unmarshal(body, &got)
		json.Unmarshal([]byte(want), &wanted)
		if fmt.Sprint(got) != fmt.Sprint(wanted) || r.Method != "POST" || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		io.WriteString(w, completionOf(" Ada\n"))
	})
	zero := 0.0
	a.Temperature, a.MaxTokens = &zero, 9
	answer, err := Checked(a, 0).Ask(testContext(t), Question{Prompt: "Who? <é>"})
	if err != nil || answer != "Ada" {
		t.Errorf("%q, %v", answer, err)
	}
}

// Any response of a server becomes an answer or an error that quotes it. The key is in neither.
func TestAPIAnswers(t *testing.T) {
	ok := http.StatusOK
	for name, c := range map[string]struct {
		status          int
		kind, body      string
		text, err, code string
	}{
		"parts":            {ok, "", `{"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}}]}`, "ab", "", ""},
		"usage in words":   {ok, "", `{"choices": [{"message": {"content": "a"}}], "usage": "many", "error": null}`, "a", "", ""},
		"html":             {ok, "text/html", "<html><body>Sign in " + key + "</body></html>", "", `not a chat completion but "text/html", which starts with "<html><body>Sign in [secret]</body></html>": is SAGE_LLM_URL right?`, ""},
		"nothing":          {ok, "application/json", "", "", "not a chat completion", ""},
		"two documents":    {ok, "", completionOf("a") + completionOf("b"), "", "not a chat completion", ""},
		"another document": {ok, "", `{"models": []}`, "", "holds no choices", ""},
		"an array":         {ok, "", `[]`, "", "not a chat completion", ""},
		"content is null":  {ok, "", `{"choices": [{"message": {"content": null}, "finish_reason": "tool_calls"}]}`, "", `the answer is empty (finish_reason "tool_calls")`, ""},
		"content is blank": {ok, "", completionOf(" \n"), "", "the answer is empty", ""},
		"content is a map": {ok, "", `{"choices": [{"message": {"content": {"a": 1}}}]}`, "", "the answer is empty", ""},
		"too long":         {ok, "", `{"choices": [{"message": {"content": "half"}, "finish_reason": "length"}]}`, "", "raise SAGE_MAX_TOKENS", ""},
		"filtered":         {ok, "", `{"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}`, "", "filter", ""},
		"refusal":          {ok, "", `{"choices": [{"message": {"content": null, "refusal": "I \u001b[31mcannot"}}]}`, "", `the model refuses: "I cannot"`, ""},
		"error in a 200":   {ok, "", `{"error": {"message": "no key ` + key + `", "code": 17, "type": "bad"}}`, "", "no key [secret]", "bad"},
		"flood":            {ok, "", strings.Repeat(" ", MaxAnswer+1) + completionOf("a"), "", "more than 8388608 bytes", ""},

		"wrong key":        {401, "", `{"error": {"message": "Incorrect API key provided: ` + key + `", "code": "invalid_api_key"}}`, "", "401 Unauthorized: Incorrect API key provided: [secret] (is SAGE_API_KEY right?)", "invalid_api_key"},
		"no such model":    {404, "", `{"error": "model 'm' not found"}`, "", "404 Not Found: model 'm' not found (are SAGE_LLM_URL and SAGE_MODEL right?)", ""},
		"html error":       {403, "text/html", "<h1>no\x1b]0;title\x07</h1>", "", "403 Forbidden: <h1>no</h1>", ""},
		"long error":       {400, "", `{"error": {"message": "` + strings.Repeat("é", 1<<20) + `"}}`, "", "400 Bad Request: éé", ""},
		"the money is out": {429, "", `{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}`, "", "429 Too Many Requests: You exceeded your current quota", "insufficient_quota"},
		"strange status":   {299, "", completionOf("a"), "", "299", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n++
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			a.Retries = 9 // none of which may be used
			text, err := a.Complete(testContext(t), "x")
			if n != 1 {
				t.Errorf("asked %d times", n)
			}
			if text != c.text || (err == nil) != (c.err == "") {
				t.Errorf("%q, %v", text, err)
			}
			if err == nil {
				return
			}
			if s := err.Error(); !strings.Contains(s, c.err) || strings.Contains(s, key) || strings.Contains(s, "\x1b") || len(s) > 5000 {
				t.Errorf("the error is %.300s\nwant %s", s, c.err)
			}
			var answered *APIError
			if errors.As(err, &answered) && (answered.Code != c.code || answered.Status != c.status) {
				t.Errorf("%+v, want code %q", answered, c.code)
			}
		})
	}
}

// The key does not follow a redirect.
func TestAPIRedirect(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	for _, status := range []int{301, 302, 307, 308} {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x?token="+key, status)
		})
		_, err := a.Complete(testContext(t), "x")
		if err == nil || !strings.Contains(err.Error(), `it redirects to "`+other.URL+`/x", which is not followed`) {
			t.Error(err)
		}
	}
}

// A connection that is lost at any point is retried.
func TestAPILostConnections(t *testing.T) {
	hijack := func(w http.ResponseWriter, answer string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, answer)
		c.Close()
	}
	for name, answer := range map[string]string{
		"at once":        "",
		"in the header":  "HTTP/1.1 200 OK\r\nContent-Le",
		"in the body":    "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + completionOf("a"),
		"in a chunk":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n{",
		"header's flood": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"a lie":          "SSH-2.0-OpenSSH_9\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			a := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if n++; n == 1 {
					hijack(w, answer)
					return
				}
				io.WriteString(w, completionOf("b"))
			})
			a.Retries = 1
			text, err := a.Complete(testContext(t), "x")
			if text != "b" || err != nil || n != 2 {
				t.Errorf("%q after %d requests, %v", text, n, err)
			}
		})
	}
	s := httptest.NewServer(nil)
	s.Close()
	a := &API{URL: s.URL + "?key=" + key, Model: "m", Key: NewSecret(key)}
	if _, err := a.Complete(testContext(t), "x"); !errors.Is(err, syscall.ECONNREFUSED) && !strings.Contains(fmt.Sprint(err), "refused") || strings.Contains(err.Error(), key) {
		t.Error(err)
	}
}

func TestAPIIsSlow(t *testing.T) {
	hang := make(chan struct{})
	n := 0
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		io.WriteString(w, `{"choices": [`)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	})
	defer close(hang)
	a.Retries, a.Timeout = 5, 50*time.Millisecond
	if _, err := a.Complete(testContext(t), "x"); err == nil || !strings.HasSuffix(err.Error(), "no answer within 50ms") || n != 1 {
		t.Errorf("%v after %d requests", err, n)
	}
	a.Timeout = 0
	because := errors.New("the agent is stopped")
	ctx, cancel := context.WithCancelCause(testContext(t))
	time.AfterFunc(20*time.Millisecond, func() { cancel(because) })
	if _, err := a.Complete(ctx, "x"); !errors.Is(err, because) {
		t.Error(err)
	}
	asked := n
	if _, err := a.Complete(ctx, "x"); !errors.Is(err, because) || n != asked {
		t.Error(n, err)
	}
}

// countedTrips answers requests without a network, for synctest bubbles.
type countedTrips struct {
	n int
	h func(n int, w http.ResponseWriter)
}

func (c *countedTrips) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	w := httptest.NewRecorder()
	c.h(c.n, w)
	return w.Result(), nil
}

func TestAPIRetries(t *testing.T) {
	type step struct {
		status int
		after  string // Retry-After
	}
	in := func(d time.Duration) string { // the time of a bubble is known
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for name, c := range map[string]struct {
		retries  int
		steps    []step
		tries    int
		err      string
		min, max time.Duration
	}{
		"server errors":     {3, []step{{500, ""}, {503, ""}, {529, ""}}, 4, "", 0, 7 * time.Second},
		"too many requests": {3, []step{{429, ""}}, 2, "", 0, time.Second},
		"seconds":           {3, []step{{429, "90"}, {503, "1.5"}}, 3, "", 91500 * time.Millisecond, 95 * time.Second},
		"a date":            {3, []step{{429, in(time.Minute)}}, 2, "", time.Minute, 61 * time.Second},
		"a date gone by":    {3, []step{{429, in(-time.Minute)}}, 2, "", 0, time.Second},
		"nonsense":          {3, []step{{429, "-5"}, {429, "1h"}, {429, "soon"}}, 4, "", 0, 7 * time.Second},
		"too long":          {3, []step{{429, "86400"}}, 1, "it asks to wait 24h0m0s, and the maximum is 10m0s", 0, 0},
		"for ever":          {3, []step{{429, "99999999999999999999999"}}, 2, "", 0, time.Second},
		"no longer":         {2, []step{{500, ""}, {502, ""}, {503, ""}}, 3, "503 Service Unavailable (tried 3 times)", 0, 3 * time.Second},
		"none":              {0, []step{{500, ""}}, 1, "500 Internal Server Error", 0, 0},
		"then a mistake":    {9, []step{{500, ""}, {400, ""}}, 2, "400 Bad Request", 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trips := &countedTrips{h: func(n int, w http.ResponseWriter) {
					if n > len(c.steps) {
						io.WriteString(w, completionOf("ok"))
						return
					}
					if s := c.steps[n-1]; s.after != "" {
						w.Header().Set("Retry-After", s.after)
					}
					w.WriteHeader(c.steps[n-1].status)
				}}
				a := &API{URL: DefaultURL, Model: "m", Retries: c.retries, Transport: trips}
				begun := time.Now()
				_, err := a.Complete(t.Context(), "x")
				if d := time.Since(begun); d < c.min || d > c.max+time.Microsecond {
					t.Errorf("took %v, want %v to %v", d, c.min, c.max)
				}
				if trips.n != c.tries || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("%d tries, %v; want %d, %s", trips.n, err, c.tries, c.err)
				}
			})
		})
	}
}

// The end of the context ends the delay before a retry. The error says what was retried.
func TestAPIWaitIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &API{URL: DefaultURL, Model: "m", Retries: 3, Transport: &countedTrips{h: func(_ int, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "500")
			w.WriteHeader(429)
		}}}
		because := errors.New("the agent is stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(because) })
		begun := time.Now()
		_, err := a.Complete(ctx, "x")
		if !errors.Is(err, because) || !strings.Contains(err.Error(), "429") || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestBackoffIsJittered(t *testing.T) {
	for try, most := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 4: 16 * time.Second, 5: 30 * time.Second, 1000: 30 * time.Second} {
		low, high := most, time.Duration(0)
		for range 1000 {
			p := backoff(try)
			low, high = min(low, p), max(high, p)
		}
		if low <= 0 || high > most || low > most/10 || high < most*9/10 {
			t.Errorf("pauses of try %d are from %v to %v, want 0 to %v", try, low, high, most)
		}
	}
}

func FuzzAPI(f *testing.F) {
	f.Add(200, completionOf("x"))
	f.Add(500, `{"error": {"message": "`+key+`"}}`)
	f.Add(200, `{"choices": [{"message": {"content": [{"type": "text"}]}}], "usage": {"prompt_tokens": 1e999}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 999 {
			return
		}
		a := &API{URL: DefaultURL, Model: "m", Key: NewSecret(key), Transport: &countedTrips{h: func(_ int, w http.ResponseWriter) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}}}
		text, err := a.Complete(context.Background(), "x")
		if err == nil && strings.TrimSpace(text) == "" {
			t.Fatalf("%q, %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Fatalf("the key is in %v", err)
		}
	})
}

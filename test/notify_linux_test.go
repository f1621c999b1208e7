package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/notify"
)

// hook is the server of a webhook.
type hook struct {
	url string

	mu       sync.Mutex
	messages []notify.Message
	fails    int // requests that are answered with an error
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var m notify.Message
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case h.fails > 0:
			h.fails--
			w.WriteHeader(http.StatusInternalServerError)
		case err != nil || json.Unmarshal(body, &m) != nil:
			t.Errorf("%v: %s", err, body)
		default:
			h.messages = append(h.messages, m)
		}
	}))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

func (h *hook) toml(name string, keys ...string) string {
	return fmt.Sprintf("[[notify]]\nname = %q\nvia = \"webhook\"\nurl = %q\ndigest = \"0s\"\n%s\n", name, h.url,
		strings.Join(keys, "\n"))
}

// told returns the states and texts of all needs that were told, in order.
func (h *hook) told() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.messages {
		for _, n := range m.Needs {
			all = append(all, n.State+": "+n.Text)
		}
	}
	return all
}

// awaitTold waits for so many needs, and expects those.
func (h *hook) awaitTold(t *testing.T, want ...string) {
	t.Helper()
	var told []string
	eventually(t, strings.Join(want, ", "), func() bool {
		told = h.told()
		return len(told) >= len(want)
	})
	if !slices.EqualFunc(told, want, strings.HasPrefix) {
		t.Fatalf("told of %q, want %q", told, want)
	}
}

// A person is told of a question once, also when the daemon is killed; and that it was killed.
func TestNotifyOnce(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.fails = 1
	f := newFleet(t, h.toml("hook"), tokenKeeperTOML("a"))
	f.do("up", "-d")
	f.agentAsks("a", "Deploy now?")
	h.awaitTold(t, "question: t/a asks: Deploy now?")
	m := h.messages[0]
	if m.Project != "t" || m.Kind != notify.KindNeeds || m.Title != "t: t/a asks: Deploy now?" ||
		m.Text != "- t/a asks: Deploy now?\n  coppice answer q-1" || m.Needs[0].Subject != "q-1" {
		t.Errorf("%+v", m)
	}
	f.awaitEvent(event.NotifyFailed, "", 0)
	f.awaitEvent(event.NotifySent, "", 0)
	f.crash()
	f.do("up", "-d")
	h.awaitTold(t, "question: t/a asks: Deploy now?", "was_down: the last daemon was killed or has crashed; its ")
	f.agentAsks("a", "And now?")
	h.awaitTold(t, "question: t/a asks: Deploy now?", "was_down: ", "question: t/a asks: And now?")
	f.do("down")
	f.do("up", "-d") // that daemon has ended in order
	f.wantAgentCode(0, "a", 2, "ask", "Really?", "--no-wait")
	h.awaitTold(t, "question: t/a asks: Deploy now?", "was_down: ", "question: t/a asks: And now?",
		"question: t/a asks: Really?")
}

// A question that is answered in quiet hours is not mentioned afterwards; changes of the file apply at once.
func TestNotifyQuiet(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	clock := func(d time.Duration) string { return time.Now().Add(d).Format("15:04") }
	quiet := fmt.Sprintf("quiet = \"%s-%s\"", clock(-2*time.Hour), clock(2*time.Hour))
	f := newFleet(t, h.toml("hook", quiet, `urgent = "stopped"`), tokenKeeperTOML("a"),
		agentTOML("b", "exit 3", `restart = "never"`))
	f.try("up", "-d") // it exits with 1, since b has failed
	h.awaitTold(t, "stopped: exit code 3")
	f.agentAsks("a", "Deploy now?")
	f.agentAsks("a", "Which one?")
	eventually(t, "two pending needs", func() bool { return strings.Contains(f.do("notify", "ls"), "pending 2") })
	f.do("answer", "q-1", "yes")
	f.edit(quiet+"\n", "")
	h.awaitTold(t, "stopped: exit code 3", "question: t/a asks: Which one?")
}

// A service is pinged while the daemon runs, also when the file names it later, and not after that.
func TestDeadman(t *testing.T) {
	t.Parallel()
	pings := make(chan string, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		pings <- q.Method + " " + q.URL.Path
	}))
	defer s.Close()
	f := newFleet(t, agentTOML("a", "exec sleep 1000"), fmt.Sprintf("[deadman]\nurl = \"%s/first\"\n", s.URL))
	f.do("up", "-d")
	if got := <-pings; got != "GET /first" {
		t.Errorf("%s", got)
	}
	f.edit("/first", "/second")
	if got := <-pings; got != "GET /second" {
		t.Errorf("%s", got)
	}
}

// The examples of docs/notifications.md work.
func TestNotifyPage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "notifications.md"))
	if err != nil {
		t.Fatal(err)
	}
	h, page := newHook(t), string(data)
	const url = "http://127.0.0.1:8080/coppice"
	if !strings.Contains(page, url) {
		t.Fatal("the page has another URL")
	}
	f := newFleet(t, strings.ReplaceAll(block(t, page, "toml"), url, h.url))
	f.do("up", "-d")
	h.awaitTold(t, "question: t/coder asks: Deploy now?")
	for line := range strings.Lines(block(t, page, "sh")) {
		f.do(strings.Fields(line)[1:]...)
	}
	var m notify.Message
	if text := f.awaitFile("night.ndjson"); json.Unmarshal([]byte(text), &m) != nil || m.Kind != notify.KindTest {
		t.Errorf("%s", text)
	}
	if out := f.do("notify", "ls"); !strings.Contains(out, "hook via webhook\n") ||
		!strings.Contains(out, "  on      was_down, store\n") || strings.Contains(out, "pending") {
		t.Errorf("%s", out)
	}
	if out := f.do("notify", "test", "hook"); out != "hook via webhook: sent\n" {
		t.Errorf("%s", out)
	}
	f.edit("cat >> night.ndjson", "echo no room >&2; exit 3")
	out := ""
	eventually(t, "a failure", func() bool {
		out, err = f.try("notify", "test")
		return err != nil
	})
	if !strings.Contains(out, "night via command: failed: sh: exit code 3: no room\n") ||
		!strings.Contains(out, "1 of 2 messages not delivered") {
		t.Errorf("%s", out)
	}
	f.wantFailure(3, []string{"notify", "test", "hok"}, `did you mean "hook"?`)

	sample, got := map[string]any{}, map[string]any{}
	if err := json.Unmarshal([]byte(block(t, page, "json")), &sample); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := json.Marshal(h.messages[0])
	if err != nil || json.Unmarshal(text, &got) != nil {
		t.Fatal(err)
	}
	for key, want := range sample {
		is := got[key]
		if key == "id" || key == "at" {
			continue
		}
		if s := strings.ReplaceAll(fmt.Sprint(want), "shop", "t"); fmt.Sprint(is) != s {
			t.Errorf("%s is %v, and %s on the page", key, is, s)
		}
	}
	if len(got) != len(sample) {
		t.Errorf("the page has %d keys, and the message %d", len(sample), len(got))
	}
}

// coppice doctor says why people were not told, and what the daemon lacks for that.
func TestDoctorOfNotify(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.fails = 1 << 20
	f := newFleet(t, h.toml("hook"), "[[notify]]\nname = \"chat\"\nvia = \"slack\"\nurl_env = \"DOCTOR_NO_SUCH_URL\"\n",
		agentTOML("a", "coppice agent ask 'Deploy?'; exec sleep 1000"))
	f.do("up", "-d")
	eventually(t, "what coppice doctor finds", func() bool {
		out, _ := f.try("doctor")
		return strings.Contains(out, "chat: the daemon has no variable DOCTOR_NO_SUCH_URL") &&
			strings.Contains(out, "hook: the last message was not delivered") &&
			strings.Contains(out, "coppice notify test hook")
	})
}

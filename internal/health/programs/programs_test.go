package programs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestRunsAny(t *testing.T) {
	long := "a-very-long-name-of-a-program"
	for _, c := range []struct {
		running, names string
		want           bool
	}{
		{"sh node claude", "claude", true},
		{"sh", "claude node", false},
		{"", "claude", false},
		{long[:15], long, true},
		{"claudette", "claude", false},
	} {
		if got := runsAny(strings.Fields(c.running), strings.Fields(c.names)); got != c.want {
			t.Errorf("%q among %q: %v", c.names, c.running, got)
		}
	}
}

// node answers requests in this process.
type node struct{ asked int }

func (n *node) RoundTrip(r *http.Request) (*http.Response, error) {
	n.asked++
	w := httptest.NewRecorder()
	Serve(w, r)
	return w.Result(), nil
}

// Processes are told apart, those that have ended are missing, and another node answers the same.
func TestPrograms(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sh", "-c", "echo up; read x; exit 0")
	in, err := sleeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := sleeper.StdoutPipe()
	if err == nil {
		err = sleeper.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); sleeper.Wait() })
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	pid := sleeper.Process.Pid
	all := []Wanted{{ended.Process.Pid, []string{"true"}}, {pid, []string{"claude", "sh"}}, {-1, []string{"sh"}}}
	want := map[int]bool{pid: true}
	if got, err := Here(all); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	n := new(node)
	for range maxWanted {
		all = append(all, Wanted{ended.Process.Pid, nil})
	}
	if got, err := There(t.Context(), n, all); err != nil || !maps.Equal(got, want) || n.asked != 2 {
		t.Errorf("%v, %v after %d requests, want %v after 2", got, err, n.asked, want)
	}
	all[1].Names = []string{"claude"}
	want[pid] = false
	if got, err := There(t.Context(), n, all); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestServeRefuses(t *testing.T) {
	for _, c := range []struct {
		method, body string
		status       int
	}{
		{http.MethodGet, "[]", http.StatusMethodNotAllowed},
		{http.MethodPost, "", http.StatusBadRequest},
		{http.MethodPost, `{"pid":1}`, http.StatusBadRequest},
		{http.MethodPost, `[{"pid":"1"}]`, http.StatusBadRequest},
		{http.MethodPost, "[" + strings.Repeat("{},", maxWanted) + "{}]", http.StatusBadRequest},
		{http.MethodPost, "[" + strings.Repeat(" ", maxBody) + "]", http.StatusBadRequest},
		{http.MethodPost, "[]", http.StatusOK},
	} {
		w := httptest.NewRecorder()
		Serve(w, httptest.NewRequestWithContext(t.Context(), c.method, Path, strings.NewReader(c.body)))
		if w.Code != c.status {
			t.Errorf("%s %.20q: %d, %s", c.method, c.body, w.Code, w.Body)
		}
	}
}

// answering is a node that gives one answer.
type answering func() (*http.Response, error)

func (f answering) RoundTrip(*http.Request) (*http.Response, error) { return f() }

func answer(status int, body []byte) answering {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(bytes.NewReader(body))}, nil
	}
}

func TestThereFails(t *testing.T) {
	for want, n := range map[string]http.RoundTripper{
		"no way":                       answering(func() (*http.Response, error) { return nil, errors.New("no way") }),
		`answers with Forbidden: "no"`: answer(http.StatusForbidden, []byte("no\n")),
		"is damaged":                   answer(http.StatusOK, []byte(`{"x":1}`)),
		"more than 4194304 bytes":      answer(http.StatusOK, bytes.Repeat([]byte(" "), maxBody+1)),
	} {
		_, err := There(context.Background(), n, []Wanted{{os.Getpid(), nil}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := There(context.Background(), answer(http.StatusOK, []byte("null")), []Wanted{{1, nil}}); err != nil {
		t.Error(err)
	}
}

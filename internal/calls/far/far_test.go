package far

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// IDs of sessions.
const (
	one = "01a2200f-2b0d-7290-a8af-7216c039fa2a"
	two = "02a2200f-2b0d-7290-a8af-7216c039fa2b"
)

// began is the start of the calls of the tests.
var began = time.Now().Add(-time.Hour)

// far is a node, whose project is in dir and whose user has a home, and a controller for which it is "/there".
type far struct {
	t         *testing.T
	home, dir string
	server    *Server
	client    *Client  // which the test drives, by step
	broken    error    // of the way to the node
	text      string   // if it is not empty, in place of what the node answers
	bodies    []string // of requests
}

func newFar(t *testing.T) *far {
	f := &far{t: t, home: t.TempDir(), dir: t.TempDir()}
	t.Setenv("HOME", f.home) // of the daemon of the node
	f.restart()
	t.Cleanup(func() { f.server.Close() })
	f.client = f.newClient()
	return f
}

// newClient returns a client that does nothing by itself.
func (f *far) newClient() *Client {
	c := &Client{
		o:  ClientOptions{Node: "b", Transport: f, Logger: slog.New(slog.DiscardHandler)},
		id: rand.Text(), kick: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	f.t.Cleanup(c.cancel)
	return c
}

// restart replaces the server.
func (f *far) restart() {
	if f.server != nil {
		f.server.Close()
	}
	f.server = NewServer(func(home, path string) string {
		if rest, ok := strings.CutPrefix(path, home); ok && home == "/there" {
			return f.dir + rest
		}
		return path
	})
}

// RoundTrip implements http.RoundTripper.
func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.bodies = append(f.bodies, string(body))
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), bytes.NewReader(body)))
	if f.text != "" {
		w.Body.Reset()
		w.Body.WriteString(f.text)
	}
	return w.Result(), nil
}

// step sends the next request of a client, and returns the error of the answer.
func (f *far) step(c *Client) error {
	req, asked := c.next()
	if req == nil {
		return nil
	}
	a, err := c.ask(req)
	if err != nil {
		c.again(asked, req.Drop)
		return err
	}
	c.take(asked, a)
	return nil
}

// call returns the description of a call of claude on the controller.
func (f *far) call(told func(Told)) Call {
	if told == nil {
		told = func(Told) {}
	}
	return Call{
		CLI: agentcli.Claude, Dir: "/there/work", Home: "/there", Stdin: "/there/in", Began: began, Told: told,
		Env: []string{"HOME=/there", "SECRET=hidden"}, Inherited: []string{"HOME", "PATH"},
	}
}

// here returns what follows the same call on the node.
func (f *far) here() *session.Follower {
	return session.Follow(session.Call{
		CLI: agentcli.Claude, Dir: filepath.Join(f.dir, "work"), Env: []string{"HOME=" + f.home}, Began: began,
	})
}

// write appends lines to a file of claude.
func (f *far) write(name string, lines ...string) {
	f.t.Helper()
	path := filepath.Join(f.home, ".claude/projects/-work", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.WriteString(strings.Join(lines, "")); err != nil {
		f.t.Fatal(err)
	}
}

func stamped() string { return began.Add(time.Second).UTC().Format("2006-01-02T15:04:05.000Z") }

// begins is the first line of a session in the directory of the call.
func (f *far) begins(id string) string {
	return fmt.Sprintf(`{"type":"user","timestamp":%q,"sessionId":%q,"cwd":%q}`+"\n", stamped(), id,
		filepath.Join(f.dir, "work"))
}

// uses is a line of a message that has used tokens.
func uses(id string, tokens int) string {
	return fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"id":%q,"model":"opus","usage":{"input_tokens":1,`+
		`"output_tokens":%d},"content":[{"type":"text","text":"%[2]s"}]}}`+"\n", stamped(), id, tokens-1)
}

// poll polls a call until it knows all.
func (f *far) poll(c *Client, one *Follower, out agentcli.Report) {
	f.t.Helper()
	for range 3 {
		one.Poll(out)
		if err := f.step(c); err != nil {
			f.t.Fatal(err)
		}
	}
}

// What is known of a call on another node is the same as on the node itself, whatever happens to the connection, to the
// daemon of the node and to the controller, and nothing is told twice.
func TestSameAsHere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFar(t)
		var told Told
		follow := func() *Follower {
			return f.client.Follow(f.call(func(more Told) { told.Answers += more.Answers }))
		}
		follower, n := follow(), 0
		var out agentcli.Report
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			id := rapid.SampledFrom([]string{one, one, one, two}).Draw(r, "session")
			switch rapid.SampledFrom([]string{
				"begin", "use", "use", "sub", "poll", "poll", "restart", "cut", "controller", "reported",
			}).Draw(r, "action") {
			case "begin":
				f.write(id+".jsonl", f.begins(id))
			case "use":
				n++
				f.write(id+".jsonl", f.begins(id), uses(fmt.Sprint("m", n), rapid.IntRange(1, 100).Draw(r, "tokens")))
			case "sub":
				n++
				f.write(id+"/subagents/agent-x.jsonl", f.begins(id), uses(fmt.Sprint("s", n), 5))
			case "poll":
				follower.Poll(out)
				f.step(f.client)
			case "restart":
				f.restart()
			case "cut":
				f.broken = errors.New("cut")
				follower.Poll(out)
				if f.step(f.client) == nil {
					r.Error("it has an answer")
				}
				f.broken = nil
			case "controller":
				follower.Close()
				f.client, told = f.newClient(), Told{}
				follower = follow()
			case "reported":
				out.Session = one
			}
		}
		here := f.here()
		here.Finish(out)
		done := make(chan struct{})
		go func() {
			defer close(done)
			follower.Finish(out)
		}()
		for range 100 {
			if err := f.step(f.client); err != nil {
				r.Fatal(err)
			}
			select {
			case <-done:
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
		<-done
		got, want := follower.Report(), here.Report()
		if !reflect.DeepEqual(normal(got), normal(want)) {
			r.Fatalf("got\n%+v\nand on the node\n%+v", got, want)
		}
	})
}

// normal returns a report as JSON, in which times are equal if they are the same.
func normal(r agentcli.Report) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What a call has told is told once, also by a node that reads its files from the start again, and an answer that is
// lost loses nothing.
func TestTold(t *testing.T) {
	f := newFar(t)
	var told Told
	follower := f.client.Follow(f.call(func(more Told) {
		told.Answers += more.Answers
		told.Failures += more.Failures
	}))
	want := func(tokens int64, answers, failures uint64) {
		t.Helper()
		f.poll(f.client, follower, agentcli.Report{Session: one})
		if got := follower.Report().Tokens(); got != tokens || told != (Told{Answers: answers, Failures: failures}) {
			t.Errorf("%d tokens, told %+v; want %d, %d, %d", got, told, tokens, answers, failures)
		}
	}
	f.write(one+".jsonl", f.begins(one), uses("a", 7))
	want(7, 2, 0) // the text, and the tokens
	f.restart()
	want(7, 2, 0)
	f.write(one+".jsonl", uses("b", 5))
	f.restart()
	want(12, 4, 0)
	f.write(one+".jsonl", uses("c", 1))
	f.text = "{"
	follower.Poll(agentcli.Report{Session: one})
	if f.step(f.client) == nil {
		t.Error("a lost answer is none")
	}
	f.text = ""
	want(13, 6, 0)
	if follower.Poll(agentcli.Report{}); follower.Poll(agentcli.Report{}) {
		t.Error("it has more, and nothing was written")
	}
}

// A node gets neither the secrets of an agent nor other variables, and finds its own directory and standard input.
func TestDescription(t *testing.T) {
	f := newFar(t)
	follower := f.client.Follow(f.call(nil))
	if follower.EndsItself() {
		t.Error("it ends by itself before the node has said so")
	}
	if err := os.WriteFile(filepath.Join(f.dir, "in"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.write(one+".jsonl", f.begins(one), uses("a", 7))
	f.poll(f.client, follower, agentcli.Report{})
	if got := follower.Report(); got.Tokens() != 7 || got.Session != one || !follower.EndsItself() {
		t.Errorf("%+v", got)
	}
	var req request
	if err := json.Unmarshal([]byte(f.bodies[0]), &req); err != nil {
		t.Fatal(err)
	}
	if env := req.Polls[0].Call.Env; len(env) != 1 || string(env[0]) != "HOME=/there" {
		t.Errorf("the node gets %q", env)
	}
	for _, body := range f.bodies[1:] {
		if strings.Contains(body, `"call"`) {
			t.Errorf("it is described again: %s", body)
		}
	}
	follower.Close()
	f.step(f.client)
	if c := f.server.clients[f.client.id]; len(c.calls) != 0 {
		t.Errorf("the node follows %d calls that are over", len(c.calls))
	}
}

// Calls in the same directory are told apart by their sessions only, those of an earlier controller do not count.
func TestShared(t *testing.T) {
	f := newFar(t)
	f.write(one+".jsonl", f.begins(one), uses("a", 7))
	before := f.newClient()
	old := before.Follow(f.call(nil))
	f.poll(before, old, agentcli.Report{})
	a := f.client.Follow(f.call(nil))
	f.poll(f.client, a, agentcli.Report{})
	if got := a.Report().Tokens(); got != 7 {
		t.Errorf("%d tokens", got)
	}
	b := f.client.Follow(f.call(nil))
	f.poll(f.client, b, agentcli.Report{})
	f.poll(f.client, a, agentcli.Report{})
	if a.Report().Tokens() != 0 || b.Report().Tokens() != 0 {
		t.Errorf("a file was guessed: %+v, %+v", a.Report(), b.Report())
	}
	b.Close()
	f.restart()
	f.poll(f.client, a, agentcli.Report{})
	if got := a.Report().Tokens(); got != 0 {
		t.Errorf("after a restart of the node, a file was guessed: %d tokens", got)
	}
	f.poll(f.client, a, agentcli.Report{Session: one})
	if got := a.Report().Tokens(); got != 7 {
		t.Errorf("%d tokens of the session that is known", got)
	}
}

// The end of a call waits for a node in bounded time, not at all for one that is lost, and never blocks a Poll.
func TestUnreachable(t *testing.T) {
	hangs := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	fails := func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }
	for name, way := range map[string]roundTrip{"hangs": hangs, "fails": fails} {
		synctest.Test(t, func(t *testing.T) {
			c := NewClient(ClientOptions{Node: "b", Transport: way, Logger: slog.New(slog.DiscardHandler)})
			defer c.Close()
			f := c.Follow(Call{CLI: agentcli.Claude, Told: func(Told) {}})
			began := time.Now()
			if f.Poll(agentcli.Report{}) || time.Since(began) != 0 {
				t.Errorf("%s: a poll has waited %v", name, time.Since(began))
			}
			f.Finish(agentcli.Report{})
			if took := time.Since(began); took < errorPause || took > 2*patience {
				t.Errorf("%s: the end has waited %v", name, took)
			}
			lost := c.Follow(Call{CLI: agentcli.Claude, Told: func(Told) {}})
			began = time.Now()
			lost.GiveUp()
			lost.Finish(agentcli.Report{})
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: the end of a lost one has waited %v", name, took)
			}
			lost.Close()
			f.Close()
			f.Close()
		})
	}
}

// The end of a call is known once its node answers again, which then forgets the call.
func TestFinishAgain(t *testing.T) {
	f := newFar(t)
	f.write(one+".jsonl", f.begins(one), uses("a", 7))
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		node := NewServer(f.server.localize)
		defer node.Close()
		c := NewClient(ClientOptions{Node: "b", Logger: slog.New(slog.DiscardHandler), Transport: roundTrip(
			func(r *http.Request) (*http.Response, error) {
				if time.Since(at) < 2*time.Second {
					return nil, errors.New("no route")
				}
				w := httptest.NewRecorder()
				node.ServeHTTP(w, r)
				return w.Result(), nil
			})})
		defer c.Close()
		call := f.call(nil)
		call.Began = time.Time{} // of the clock outside
		follower := c.Follow(call)
		follower.Finish(agentcli.Report{Session: one})
		if took := time.Since(at); follower.Report().Tokens() != 7 || took > 2*time.Second+errorPause {
			t.Errorf("%+v after %v", follower.Report(), took)
		}
		at = time.Now()
		follower.Close()
		time.Sleep(2*time.Second + errorPause)
		synctest.Wait()
		node.mu.Lock()
		defer node.mu.Unlock()
		if n := len(node.clients[c.id].calls); n != 0 {
			t.Errorf("the node follows %d calls that are over", n)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return r(q) }

// A client asks for all of its calls in few requests, and for each of them.
func TestManyCalls(t *testing.T) {
	f := newFar(t)
	f.write(one+".jsonl", f.begins(one), uses("a", 7))
	var all []*Follower
	for range 3*maxPolls + 1 {
		all = append(all, f.client.Follow(f.call(nil)))
	}
	for _, f := range all {
		f.Poll(agentcli.Report{Session: one})
		f.Poll(agentcli.Report{Session: one})
	}
	for range 4 {
		if err := f.step(f.client); err != nil {
			t.Fatal(err)
		}
	}
	for len(f.client.queue) > 0 { // the node had no time
		f.step(f.client)
	}
	for i, f := range all {
		if got := f.Report().Tokens(); got != 7 {
			t.Fatalf("call %d has %d tokens", i, got)
		}
	}
}

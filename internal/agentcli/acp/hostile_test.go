package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

var _ = script("babbles", func(f *fake) int {
	p := f.prompted()
	f.line("Debugger attached.")
	f.line("")
	f.line("\xff\xfe{}")
	f.line(`{"jsonrpc":"2.0","method":"session/upd`)
	f.line(`[{"jsonrpc":"2.0","id":3,"result":{}}]`)
	f.line(`"text"`)
	f.line(`{"a":` + strings.Repeat("[", 20_000) + `}`)
	f.line(`{}`)
	f.line(`{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}`)
	f.line(`{"jsonrpc":"2.0","id":"3","result":{"stopReason":"end_turn"}}`)
	f.line(`{"jsonrpc":"2.0","id":3.0,"result":{"stopReason":"end_turn"}}`)
	f.line(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
	f.line(`{"jsonrpc":"2.0","id":{},"result":1}`)
	f.line(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`)
	f.line(`{"jsonrpc":"2.0","method":"session/update"}`)
	f.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":[]}}`)
	f.update(`{"sessionUpdate":"tool_call","toolCallId":7,"title":{},"status":[]}`)
	f.update(`{"sessionUpdate":"agent_message_chunk","content":"text"}`)
	f.update(`{"sessionUpdate":"usage_update","cost":{"amount":-1e300,"currency":"USD"},"_meta":[]}`)
	f.update(`{"sessionUpdate":"usage_update","cost":7,"_meta":{"_claude/rateLimit":{"status":7}}}`)
	f.result(p, `{"stopReason":"end_turn"}`)
	f.result(p, `{"stopReason":"refusal"}`)
	f.result(f.expect("session/prompt"), `{"stopReason":"end_turn"}`)
	io.WriteString(f.out, "no end of the line")
	return f.rest()
})

// What is no message, and replies to nothing, are counted and change nothing.
func TestBabble(t *testing.T) {
	a := must(t, "babbles", Options{})
	for range 2 {
		if r, err := a.Prompt(t.Context(), "s1", "go"); r.StopReason != EndTurn || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if got := a.Stats(); got != (Stats{NotMessages: 6, Stray: 8}) {
		t.Errorf("%+v", got)
	}
	a.Close()
	if got := a.Stats(); got.NotMessages != 7 {
		t.Errorf("%+v", got)
	}
	if v := a.verdict(""); v.Kind != outcome.Completed {
		t.Errorf("%+v", v)
	}
}

var _ = script("long", func(f *fake) int {
	p := f.prompted()
	f.say(strings.Repeat("x", 15<<20))
	f.result(p, `{"stopReason":"end_turn"}`)
	f.expect("session/prompt")
	f.line(`{"jsonrpc":"2.0","method":"session/update","params":{"x":"` + strings.Repeat("x", maxLine) + `"}}`)
	return f.rest()
})

// A line may have 16 MiB. A longer one ends the connection with an error that says so.
func TestLongLines(t *testing.T) {
	a := must(t, "long", Options{})
	if _, err := a.Prompt(t.Context(), "s1", "go"); err != nil {
		t.Fatal(err)
	}
	if n := len(a.Report().Text); n != 1<<20 {
		t.Errorf("%d bytes of an answer are kept", n)
	}
	const expected = "the agent has written a line of more than 16 MiB"
	if _, err := a.Prompt(t.Context(), "s1", "go"); err == nil || err.Error() != "session/prompt: "+expected {
		t.Error(err)
	}
	<-a.Done()
	if v := a.verdict("signal: broken pipe"); v.Obstacle != outcome.Crash || v.Reason != expected {
		t.Errorf("%+v", v)
	}
}

var _ = script("crashes", func(f *fake) int {
	f.prompted()
	f.say("I begin")
	return 3
})

// An agent that exits in the middle is an error that says how.
func TestExit(t *testing.T) {
	a := must(t, "crashes", Options{})
	_, err := a.Prompt(t.Context(), "s1", "go")
	if !errors.Is(err, ErrEnded) || err.Error() != "session/prompt: the agent has ended: exit status 3" {
		t.Error(err)
	}
	<-a.Done()
	if err := a.Err(); err == nil || err.Error() != "the agent has ended: exit status 3" {
		t.Error(err)
	}
	for _, err := range []error{a.Cancel(t.Context(), "s1"), a.CloseSession(t.Context(), "s1")} {
		if !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
	}
	if v := a.verdict("exit code 3"); v.Obstacle != outcome.Crash || v.Reason != "exit code 3" {
		t.Errorf("%+v", v)
	}
	a.Close()
	if _, err := a.New(t.Context(), "/work", nil); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

var _ = script("floods", func(f *fake) int {
	p := f.prompted()
	out := bufio.NewWriterSize(f.out, 1<<20)
	text := strings.Repeat("x", 1000)
	flood := newFake(f.in, out)
	for range 12_000 {
		flood.say(text)
	}
	for i := range 1000 {
		flood.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"none"}`, i))
	}
	flood.line(`{"jsonrpc":"2.0","id":"last","method":"session/request_permission","params":` + makeCall + `}`)
	out.Flush()
	for string(f.next().ID) != `"last"` {
	}
	f.result(p, `{"stopReason":"end_turn"}`)
	return f.rest()
})

// A flood of messages is read although the events are not, and uses bounded memory.
func TestFlood(t *testing.T) {
	hold, got, asked := make(chan bool), make(chan agentcli.Event, 100_000), make(chan bool)
	a := must(t, "floods", Options{Event: func(e agentcli.Event) {
		<-hold
		got <- e
	}, Permit: func(context.Context, PermissionRequest) string {
		close(asked)
		return "yes"
	}})
	ended := make(chan error, 1)
	go func() {
		_, err := a.Prompt(t.Context(), "s1", "go")
		ended <- err
	}()
	<-asked
	a.events.mu.Lock()
	size := a.events.size
	a.events.mu.Unlock()
	if size > maxQueued {
		t.Errorf("events of %d bytes wait", size)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	a.Close()
	close(got)
	n, last := 0, agentcli.Event{}
	for e := range got {
		n, last = n+1, e
	}
	s := a.Stats()
	if s.Dropped == 0 || n+s.Dropped != 12_003 || last.Kind != agentcli.Result {
		t.Errorf("%d events, %+v, the last: %+v", n, s, last)
	}
}

var _ = script("deaf", func(f *fake) int {
	f.begin(everything)
	f.result(f.expect("session/new"), `{"sessionId":"s1"}`)
	for i := range 5000 { // it asks, and does not read
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"none"}`, i))
	}
	f.line(`{"jsonrpc":"2.0","id":"last","method":"session/request_permission","params":` + makeCall + `}`)
	killed := make(chan os.Signal, 1)
	signal.Notify(killed, syscall.SIGTERM)
	<-killed
	return 0
})

// An agent that does not read its input blocks nothing but what is to be sent.
func TestDeaf(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	a := must(t, "deaf", Options{Grace: 10 * time.Millisecond, Permit: func(context.Context, PermissionRequest) string {
		cancel(errors.New("enough"))
		return ""
	}})
	_, err := a.Prompt(ctx, "s1", strings.Repeat("x", 1<<20))
	if err == nil || err.Error() != "session/prompt: enough" {
		t.Error(err)
	}
	a.Close()
	if err := a.Err(); !errors.Is(err, ErrClosed) || a.Stats().Unanswered < 1000 {
		t.Errorf("%v, %+v", err, a.Stats())
	}
}

var _ = script("stays", func(f *fake) int {
	f.prompted()
	os.Stdout.Close()
	return f.rest()
})

// An agent that closes its output and stays is not waited for.
func TestClosedOutput(t *testing.T) {
	a := must(t, "stays", Options{Grace: 10 * time.Millisecond})
	_, err := a.Prompt(t.Context(), "s1", "go")
	if !errors.Is(err, ErrEnded) ||
		!strings.HasSuffix(err.Error(), "it has closed its output, but its process still runs") {
		t.Error(err)
	}
}

// Close waits for an agent that has something to say, and not for one that stays.
func TestClose(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(f *fake, over <-chan bool)
		takes time.Duration
	}{
		"says something": {func(f *fake, _ <-chan bool) {
			<-time.After(3 * time.Second)
			f.say("bye")
		}, 3 * time.Second},
		"stays": {func(_ *fake, over <-chan bool) { <-over }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heard, over := false, make(chan bool)
				defer close(over)
				c2, err := inProcess(t.Context(), func(f *fake) int {
					defer c.end(f, over)
					f.prompted()
					return f.rest()
				}, Options{Event: func(e agentcli.Event) { heard = heard || e.Text == "bye" }})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c2.New(t.Context(), "/", nil); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error)
				go func() {
					_, err := c2.Prompt(t.Context(), "s1", "go")
					ended <- err
				}()
				synctest.Wait()
				if _, err := c2.Prompt(t.Context(), "s1", "go"); err == nil || err.Error() !=
					`session "s1" is still working on a prompt; wait for its end, or cancel it` {
					t.Error(err)
				}
				begin := time.Now()
				go c2.Close()
				c2.Close()
				if took := time.Since(begin); took != c.takes || heard != (name == "says something") {
					t.Errorf("after %v: %v", took, heard)
				}
				if err := <-ended; !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				if err := c2.Err(); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// A request without an answer ends with its context. A late answer does not count as another one.
func TestNoReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := inProcess(t.Context(), func(f *fake) int {
			f.begin(everything)
			late := f.expect("session/new")
			load := f.expect("session/load")
			<-time.After(time.Hour)
			f.result(late, `{"sessionId":"s1"}`)
			f.result(load, `{}`)
			f.result(f.expect("session/new"), `{"sessionId":"s2"}`)
			return f.rest()
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.New(ctx, "/", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Load(ctx, "s3", "/", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if id, err := c.New(t.Context(), "/", nil); id != "s2" || err != nil {
			t.Error(id, err)
		}
		for _, id := range []string{"s1", "s3"} {
			if _, err := c.Prompt(t.Context(), id, "go"); err == nil || err.Error() != `unknown session "`+id+`"` {
				t.Error(err)
			}
		}
	})
}

// discard is the input of an agent that does not exist.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// No input of any form harms the client: it reads all of it, or says that a line is too long.
func FuzzRead(f *testing.F) {
	const began = `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}` + "\n"
	for _, seed := range []string{
		began + `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s0","update":{"sessionUpdate":` +
			`"agent_message_chunk","content":{"type":"text","text":"x"}}}}` + "\n" +
			`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":` + makeCall + "}\n",
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"x","data":{"errorKind":"rate_limit"}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s0","update":{` +
			`"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":1,"currency":"USD"},` +
			`"_meta":{"_claude/rateLimit":{"status":"rejected"}}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s0","update":{"sessionUpdate":"tool_call",` +
			`"toolCallId":"c","title":"x","status":"completed"}}}` + "\n\n[]\n{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var events int
		c := newClient(discard{io.Discard}, io.NopCloser(bytes.NewReader(b)), Options{
			Event: func(agentcli.Event) { events++ }, Grace: time.Second,
			Permit: func(_ context.Context, r PermissionRequest) string { return r.Option(AllowOnce) },
		})
		c.begin(&session{id: "s0"})
		s, err := c.turn("s0")
		if err != nil {
			t.Fatal(err)
		}
		reply := func(result json.RawMessage, failed *Error) { c.endTurn(s, result, failed) }
		c.conn.pending[3] = &pending{id: 3, method: "session/prompt", reply: make(chan message, 1), handle: reply}
		c.start()
		<-c.Done()
		c.Close()
		r := c.Report()
		if r.Tokens() < 0 || r.Tokens() > 0 && !r.Known || events < 2 && c.Stats().Dropped == 0 {
			t.Fatalf("%+v, %d events", r, events)
		}
		agentcli.Classify(agentcli.End{CLI: agentcli.ACP, Output: r})
		lines := lineReader{r: bufio.NewReaderSize(bytes.NewReader(b), 16)}
		var all []byte
		for {
			line, err := lines.next()
			all = append(all, line...)
			if err != nil {
				break
			}
			all = append(all, '\n')
		}
		if !bytes.Equal(all, b) {
			t.Fatalf("%q was read as %q", b, all)
		}
	})
}

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a server whose client writes and reads lines.
type wire struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Scanner
	done chan error
}

// serve starts a server. It acts by act; nil is a daemon that takes all.
func serve(t *testing.T, act func(context.Context) error) *wire {
	t.Helper()
	in, w := io.Pipe()
	r, out := io.Pipe()
	c := &wire{t: t, in: w, out: bufio.NewScanner(r), done: make(chan error, 1)}
	c.out.Buffer(nil, 16<<20)
	go func() {
		c.done <- Serve(context.Background(), Options{
			Version: "test", In: in, Out: out, Logger: slog.New(slog.DiscardHandler),
			Tools: AgentTools(func(ctx context.Context, _ time.Duration,
				_ func(context.Context, *api.Client) error) error {
				if act != nil {
					return act(ctx)
				}
				return nil
			}),
		})
		out.Close()
	}()
	t.Cleanup(func() {
		w.Close()
		go io.Copy(io.Discard, r)
		if err := <-c.done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		r.Close()
	})
	return c
}

func (w *wire) send(lines ...string) {
	w.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(w.in, l+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// reply is any answer.
type reply struct {
	ID     any
	Error  *struct{ Code int }
	Result *struct {
		IsError         bool
		ProtocolVersion string
		Content         []struct{ Text string }
	}
}

func (r reply) String() string {
	switch {
	case r.Error != nil:
		return fmt.Sprint(r.ID, " error ", r.Error.Code)
	case r.Result != nil && r.Result.IsError:
		return fmt.Sprint(r.ID, " failed: ", r.Result.Content[0].Text)
	case r.Result != nil && len(r.Result.Content) > 0:
		return fmt.Sprint(r.ID, " ", r.Result.Content[0].Text)
	}
	return fmt.Sprint(r.ID)
}

func (w *wire) receive() (r reply) {
	w.t.Helper()
	if !w.out.Scan() {
		w.t.Fatalf("no answer: %v", w.out.Err())
	}
	if err := json.Unmarshal(w.out.Bytes(), &r); err != nil {
		w.t.Fatalf("%q is no message: %v", w.out.Bytes(), err)
	}
	return r
}

func (w *wire) want(want string) {
	w.t.Helper()
	if got := w.receive().String(); !strings.HasPrefix(got, want) {
		w.t.Errorf("answer %q, want %q", got, want)
	}
}

const (
	hello    = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	greeting = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func (w *wire) begin() {
	w.t.Helper()
	w.send(hello)
	w.want("hello")
	w.send(greeting)
}

// use is a call of a tool.
func use(id any, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

const done = `{"kind":"completed"}`

// Nothing that a client sends ends the server, and what comes next is answered.
func TestHostile(t *testing.T) {
	w := serve(t, nil)
	w.begin()
	deep := strings.Repeat("[", 100_000)
	for _, test := range []struct{ name, line, want string }{
		{"garbage", "\x00\xff garbage", "<nil> error -32700"},
		{"half an object", `{"jsonrpc":"2.0","id":1`, "<nil> error -32700"},
		{"nothing of JSON-RPC", `{}`, "<nil> error -32600"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "<nil> error -32600"},
		{"a batch", "[" + use(1, "outcome", done) + "]", "<nil> error -32600"},
		{"an id that is none", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "<nil> error -32600"},
		{"a method that is none", `{"jsonrpc":"2.0","id":1,"method":7}`, "<nil> error -32600"},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"x/y"}`, "1 error -32601"},
		{"a method that waits", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`, "1 error -32601"},
		{"initialised twice", hello, "hello"},
		{"an unknown tool", use(1, "rm", `{}`), "1 error -32602"},
		{"no parameters", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, "1 error"},
		{"parameters of another type", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, "1 error"},
		{"no arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"outcome"}}`, "1 failed: arguments: required"},
		{"null as arguments", use(1, "outcome", `null`), "1 failed: arguments: required"},
		{"arguments of another type", use(1, "outcome", `[]`), "1 failed: arguments: "},
		{"an argument of another type", use(1, "outcome", `{"kind":7}`), "1 failed: arguments: "},
		{"an unknown argument", use(1, "outcome", `{"kind":"completed","colour":"red"}`), "1 failed: arguments: "},
		{"an unknown kind", use(1, "outcome", `{"kind":"failed"}`), "1 failed: arguments: "},
		{"deep", use(1, "outcome", deep+strings.Repeat("]", len(deep))), "<nil> error"},
		{"deep and open", deep, "<nil> error -32700"},
		{"huge", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 3*maxMessage) + `"}`, "<nil> error -32600"},
		{"not UTF-8", use(1, "outcome", "{\"kind\":\"completed\",\"summary\":\"\xff\xfe\"}"), "1 recorded"},
		{"an id of another kind", use(`"a\u0000b"`, "outcome", done), "a\x00b recorded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.t = t
			w.send("", test.line)
			w.want(test.want)
			w.send(use(2, "outcome", done))
			w.want("2 recorded")
		})
	}
	w.t = t
	// Answers without a request are passed over.
	for range 1000 {
		w.send(greeting, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, `{"jsonrpc":"2.0","id":5,"result":{}}`)
	}
	w.send(use(3, "outcome", done))
	w.want("3 recorded")
}

// 10,000 calls at once are all answered, and few are under way at a time.
func TestManyCalls(t *testing.T) {
	const many = 10_000
	var mu sync.Mutex
	running, most := 0, 0
	w := serve(t, func(context.Context) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	})
	w.begin()
	go func() {
		for i := range many {
			io.WriteString(w.in, use(i, "outcome", done)+"\n")
		}
	}()
	seen := map[any]bool{}
	for range many {
		r := w.receive()
		if r.Result == nil || r.Result.IsError || seen[r.ID] {
			t.Fatalf("answer %v", r)
		}
		seen[r.ID] = true
	}
	if most > maxCalls {
		t.Errorf("%d calls were under way", most)
	}
}

// Calls that are stuck do not keep others from an answer, and can be cancelled.
func TestStuckCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		w := serve(t, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-stuck:
				return nil
			}
		})
		w.begin()
		go func() {
			for i := range maxCalls + 3 {
				io.WriteString(w.in, use(i, "outcome", done)+"\n")
			}
		}()
		for i := range 3 {
			w.want(fmt.Sprint(maxCalls+i, " failed: 32 calls are under way"))
		}
		w.send(use(0, "outcome", done))
		w.want("<nil> error -32600") // the id is in use
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		w.want("7 failed: cancelled")
		close(stuck)
		for range maxCalls - 1 {
			if r := w.receive(); r.Result == nil || r.Result.IsError {
				t.Errorf("answer %v", r)
			}
		}
	})
}

// Who does not read the answers is not read either.
func TestDeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, nil)
		w.begin()
		taken := 0
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := range 1000 {
				if _, err := io.WriteString(w.in, use(i, "outcome", done)+"\n"); err != nil {
					return
				}
				taken++
			}
		}()
		time.Sleep(time.Hour)
		w.in.Close()
		<-ended
		if taken > maxCalls+2 { // one that is refused, and one that waits for that
			t.Errorf("%d calls were taken", taken)
		}
	})
}

// What came before the end of the input is answered; what waits is cancelled.
func TestEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, nil)
		w.begin()
		go func() {
			io.WriteString(w.in, use(1, "outcome", done)+"\n"+use(2, "outcome", done)) // without a newline
			w.in.Close()
		}()
		got := w.receive().String() + ", " + w.receive().String()
		if got != "1 recorded, 2 recorded" && got != "2 recorded, 1 recorded" {
			t.Errorf("answers %s", got)
		}

		cancelled := make(chan error, 1)
		w = serve(t, func(ctx context.Context) error {
			<-ctx.Done()
			cancelled <- context.Cause(ctx)
			return ctx.Err()
		})
		w.begin()
		w.send(use(1, "outcome", done))
		w.in.Close()
		if err := <-cancelled; !errors.Is(err, io.EOF) {
			t.Errorf("cancelled because of %v", err)
		}
	})
}

// Who waits is shown that the call is under way, if they ask for it.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, func(ctx context.Context) error {
			select {
			case <-time.After(25 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.begin()
		w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"outcome","arguments":` + done + `,"_meta":{"progressToken":"p"}}}`)
		for _, want := range []float64{10, 20} {
			w.out.Scan()
			var m struct {
				Method string
				Params struct {
					ProgressToken string
					Progress      float64
				}
			}
			if err := json.Unmarshal(w.out.Bytes(), &m); err != nil || m.Method != "notifications/progress" || m.Params.ProgressToken != "p" || m.Params.Progress != want {
				t.Errorf("%s, %v, want progress %v", w.out.Bytes(), err, want)
			}
		}
		w.want("1 recorded")
	})
}

// A tool that panics says so, and the server goes on.
func TestPanic(t *testing.T) {
	calls := 0
	w := serve(t, func(context.Context) error {
		if calls++; calls == 1 {
			panic("oh")
		}
		return nil
	})
	w.begin()
	w.send(use(1, "outcome", done))
	w.want("1 failed: internal error")
	w.send(use(2, "outcome", done))
	w.want("2 recorded")
}

// What the daemon says is a result that models see, with what to do.
func TestFailures(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("%w: incarnation 1 of t/a", token.ErrStale): "1 failed: incarnation is over: incarnation 1 of t/a. This session belongs to an incarnation of the agent that has ended",
		fmt.Errorf("%w here", api.ErrDown):                     "1 failed: no daemon is running here. The daemon of coppice does not answer; try again later",
		errors.New("full \xff"):                                "1 failed: full \uFFFD",
	} {
		w := serve(t, func(context.Context) error { return err })
		w.begin()
		w.send(use(1, "outcome", done))
		w.want(want)
	}
}

// A line has a bound, and the rest of one that is too long is passed over.
func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", maxMessage)
	r := bufio.NewReader(strings.NewReader("a\n\n" + long + "\n" + long + "x\n" + long + long + long + "\nb"))
	for i, want := range []string{"a", "", long} {
		if l := readLine(r); l.err != nil || strings.TrimSuffix(string(l.text), "\n") != want {
			t.Errorf("line %d: %d bytes, %v", i, len(l.text), l.err)
		}
	}
	for range 2 {
		if l := readLine(r); l.err != errTooLong {
			t.Errorf("%d bytes, %v", len(l.text), l.err)
		}
	}
	if l := readLine(r); string(l.text) != "b" {
		t.Errorf("%q, %v", l.text, l.err)
	}
	if l := readLine(r); l.err != io.EOF {
		t.Errorf("%q, %v", l.text, l.err)
	}
}

// Whatever comes in, the connection ends with its input and not before.
func FuzzConn(f *testing.F) {
	f.Add([]byte(hello + "\n" + greeting + "\n" + use(1, "outcome", done)))
	f.Add([]byte("[]\n{}\nnull\n\xff\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newConn(bytes.NewReader(data), io.Discard)
		defer c.Close()
		lines := bytes.Count(data, []byte("\n")) + 1
		for n := 0; ; n++ {
			m, err := c.Read(t.Context())
			if err == io.EOF {
				return
			}
			if err != nil || n > lines {
				t.Fatalf("message %d of %d lines: %v, %v", n, lines, m, err)
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
				if err := c.Write(t.Context(), &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

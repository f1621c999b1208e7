package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// fakeEnv has the test binary be an agent: it names what the agent does.
const fakeEnv = "COPPICE_FAKE_AGENT"

func TestMain(m *testing.M) {
	if name := os.Getenv(fakeEnv); name != "" {
		f := newFake(os.Stdin, os.Stdout)
		script, ok := scripts[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "unknown script %q\n", name)
			os.Exit(70)
		}
		os.Exit(script(f))
	}
	goleak.VerifyTestMain(m)
}

// fake is an agent that follows a script.
type fake struct {
	in  *bufio.Reader
	out io.Writer
}

func newFake(in io.Reader, out io.Writer) *fake { return &fake{bufio.NewReader(in), out} }

// received is a message of the client.
type received struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// next reads a message. At the end of the input it ends the process, or the goroutine with a panic that
// inProcess recovers.
func (f *fake) next() (r received) {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		if f.out == os.Stdout {
			os.Exit(0)
		}
		panic(io.EOF)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		panic(err)
	}
	return r
}

// expect reads a message with a method.
func (f *fake) expect(method string) received {
	r := f.next()
	if r.Method != method {
		f.line(`{"jsonrpc":"2.0","method":"test/failed","params":{}}`)
		fmt.Fprintf(os.Stderr, "%s %s, expected %s\n", r.Method, r.Params, method)
		os.Exit(71)
	}
	return r
}

func (f *fake) line(text string) { io.WriteString(f.out, text+"\n") }

func (f *fake) result(to received, result string) {
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, to.ID, result))
}

func (f *fake) fail(to received, err string) {
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, to.ID, err))
}

func (f *fake) update(update string) {
	f.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":` + update + `}}`)
}

func (f *fake) say(text string) {
	f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + quote(text) + `}}`)
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// ask sends a request and returns the answer.
func (f *fake) ask(id, method, params string) received {
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, quote(method), params))
	return f.next()
}

const everything = `{"protocolVersion":1,"agentInfo":{"name":"fake","version":"1.2.3"},"agentCapabilities":` +
	`{"loadSession":true,"sessionCapabilities":{"resume":{},"close":{},"list":null}},"authMethods":[]}`

// begin answers initialize.
func (f *fake) begin(result string) { f.result(f.expect("initialize"), result) }

// prompted answers initialize and session/new, and returns the first prompt.
func (f *fake) prompted() received {
	f.begin(everything)
	f.result(f.expect("session/new"), `{"sessionId":"s1","configOptions":[{"id":"model","category":"model",`+
		`"currentValue":"model-1"}]}`)
	return f.expect("session/prompt")
}

// rest reads until the input ends.
func (f *fake) rest() int {
	for {
		f.next()
	}
}

// agent is an agent at work.
type agent struct {
	*Client
	t *testing.T

	recording sync.Mutex
	recorded  []agentcli.Event
}

// run starts the test binary as an agent that follows a script, and connects to it.
func run(t *testing.T, script string, o Options) (*agent, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fakeEnv+"="+script, "GORACE=atexit_sleep_ms=0")
	return runCommand(t, cmd, o)
}

func runCommand(t *testing.T, cmd *exec.Cmd, o Options) (*agent, error) {
	t.Helper()
	agentIn, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, agentOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = agentIn, agentOut
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	agentIn.Close()
	agentOut.Close()
	exit, waited := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(waited)
		text := ""
		if err := cmd.Wait(); err != nil {
			text = err.Error()
		}
		exit <- text
	}()
	a := &agent{t: t}
	o.Exit = exit
	each := o.Event
	o.Event = func(e agentcli.Event) {
		a.record(e)
		if each != nil {
			each(e)
		}
	}
	t.Cleanup(func() {
		if a.Client != nil {
			a.Close()
		}
		cmd.Process.Kill()
		<-waited
	})
	a.Client, err = Dial(t.Context(), stdin, stdout, o)
	return a, err
}

func (a *agent) record(e agentcli.Event) {
	a.recording.Lock()
	defer a.recording.Unlock()
	a.recorded = append(a.recorded, e)
}

// seen returns the events so far, one a line.
func (a *agent) seen() string {
	a.recording.Lock()
	defer a.recording.Unlock()
	var b strings.Builder
	for _, e := range a.recorded {
		b.WriteString(describe(e) + "\n")
	}
	return b.String()
}

var kindNames = map[agentcli.EventKind]string{agentcli.Session: "session", agentcli.Turn: "turn",
	agentcli.Message: "message", agentcli.Tool: "tool", agentcli.Permission: "denied", agentcli.Tokens: "tokens",
	agentcli.Limit: "limit", agentcli.Failed: "failed", agentcli.Result: "result", agentcli.Unknown: "unknown"}

func describe(e agentcli.Event) string {
	s := kindNames[e.Kind]
	for _, part := range []string{e.Session, e.Version, e.Name, e.Call, e.Tool, e.Failure.Code} {
		if part != "" {
			s += " " + part
		}
	}
	if e.Text+e.Failure.Text != "" {
		s += fmt.Sprintf(" %q", e.Text+e.Failure.Text)
	}
	for flag, set := range map[string]bool{"+": e.Delta, "done": e.Done, "ok": e.OK, "bad": e.Failed} {
		if set && flag != "ok" {
			s += " " + flag
		}
	}
	if e.OK {
		s += " ok"
	}
	for model, u := range e.Models {
		s += fmt.Sprintf(" %s %d %d %d %d %.2f", model, u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Dollars)
	}
	for _, w := range e.Windows {
		s += fmt.Sprintf(" %s %.2f %s %v", w.Name, w.Used, w.Resets.UTC().Format(time.DateTime), w.Rejected)
	}
	return s
}

// must starts an agent and begins a session.
func must(t *testing.T, script string, o Options) *agent {
	t.Helper()
	a, err := run(t, script, o)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := a.New(t.Context(), "/work", nil); err != nil || id != "s1" {
		t.Fatalf("%q, %v", id, err)
	}
	return a
}

// verdict classifies the end of the agent.
func (a *agent) verdict(exit string) agentcli.Verdict {
	return agentcli.Classify(agentcli.End{CLI: agentcli.ACP, Exit: exit, Output: a.Report(), Now: time.Now(),
		Local: time.UTC})
}

// inProcess connects to an agent in this process.
func inProcess(ctx context.Context, script func(*fake) int, o Options) (*Client, error) {
	stdin, stdout := pipes(script)
	return Dial(ctx, stdin, stdout, o)
}

// pipes starts an agent in this process, and returns its input and output.
func pipes(script func(*fake) int) (io.WriteCloser, io.ReadCloser) {
	agentIn, stdin := io.Pipe()
	stdout, agentOut := io.Pipe()
	go func() {
		defer agentOut.Close()
		defer agentIn.Close()
		defer func() {
			if p := recover(); p != nil && p != io.EOF {
				panic(p)
			}
		}()
		script(newFake(agentIn, agentOut))
	}()
	return stdin, stdout
}

package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// harness is a Manager whose surroundings write down what it tells them.
type harness struct {
	*Manager
	t      *testing.T
	before []string // lines that are in the log already
	output error    // of reading the output
	far    *far.Client
	lines  chan string

	mu   sync.Mutex
	said []string
	runs callfile.Records
}

func newHarness(t *testing.T) *harness {
	h := &harness{t: t, lines: make(chan string)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h.Manager = New(Options{
		Logger: slog.New(slog.DiscardHandler), Quotas: h, Output: h.read,
		Far:    func(string) *far.Client { return h.far },
		Go:     func(f func(context.Context)) { go f(ctx) },
		Append: func(e event.Event) { h.say("%s %s: %s", e.Type, e.Path, e.Message) },
		Runs: func(string) callfile.Records {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.runs
		},
		Progress: func(path string, incarnation uint64, r agentcli.Record) {
			if r.Tokens != nil {
				h.say("progress %s %d: %d", path, incarnation, *r.Tokens)
			}
		},
	})
	return h
}

func (h *harness) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

// Refused is part of Quotas.
func (h *harness) Refused(path string, r agentcli.Record) { h.say("refused %s: %s", path, r.Reason) }

// Told is part of Quotas.
func (h *harness) Told(path string, windows []agentcli.Window) { h.say("told %s: %+v", path, windows) }

// Answered is part of Quotas.
func (h *harness) Answered(path string, _ time.Time) { h.say("answered %s", path) }

func (h *harness) setRuns(r callfile.Records) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = r
}

// want expects what was said since the last call.
func (h *harness) want(all ...string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.said, all) {
		h.t.Errorf("%q, expected %q", h.said, all)
	}
	h.said = nil
}

// read is Options.Output.
func (h *harness) read(
	ctx context.Context, _ token.Caller, _ time.Time, s runtime.Session, line func(string),
) error {
	for _, l := range h.before {
		line(l)
	}
	for s != nil && h.output == nil {
		select {
		case l := <-h.lines:
			line(l)
		case <-s.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return h.output
}

// writes has the agent write lines.
func (h *harness) writes(lines ...string) {
	for _, l := range lines {
		h.lines <- l
	}
}

// fakeProcess is a process that a test ends.
type fakeProcess struct {
	*fakeSession
	env    []string
	failed error
}

type fakeSession struct {
	runtime.Session
	started time.Time
	done    chan struct{}
}

func newProcess(env ...string) *fakeProcess {
	return &fakeProcess{fakeSession: &fakeSession{started: time.Now(), done: make(chan struct{})}, env: env}
}

func (s *fakeSession) Done() <-chan struct{} { return s.done }
func (s *fakeSession) end()                  { close(s.done) }

func (s *fakeSession) Observe() runtime.Observation {
	return runtime.Observation{StartedAt: s.started, Life: runtime.Alive}
}

func (p *fakeProcess) Session() runtime.Session { return p.fakeSession }
func (p *fakeProcess) Environ() agent.Env       { return agent.Env{Vars: p.env} }

func (p *fakeProcess) Fail(reason error, _ syscall.Signal) bool {
	if p.failed != nil {
		return false
	}
	p.failed = reason
	return true
}

const (
	begins = `{"type":"system","subtype":"init","session_id":"session-1"}`
	says   = `{"type":"assistant","message":{"id":"m","model":"opus","content":[{"type":"text","text":"yes"}],` +
		`"usage":{"input_tokens":5,"output_tokens":2}}}`
	retries = `{"type":"system","subtype":"api_retry","attempt":1,"error_status":401,"error":"authentication_failed"}`
	ends    = `{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"output_tokens":9}}`
)

var (
	who    = token.Caller{Path: "t/a", Incarnation: 3}
	claude = spec.Agent{Command: []string{"claude", "-p"}, Dir: "/"}
)

// exported is an export of claude about a call.
var exported = []agentcli.Event{
	{Kind: agentcli.Tokens, Model: "m", ID: "r", Usage: agentcli.Usage{Output: 12, Dollars: 1}},
}

// What a command line reports while it runs is passed on: what it has used, that the model answers, and that its
// account does not serve it if that lasts.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := newHarness(t), newProcess()
		h.before = []string{begins}
		h.Exported(who, exported) // before it is followed
		h.Follow(who, p, &claude)
		time.Sleep(time.Second)
		h.want()
		h.writes(retries)
		time.Sleep(quota.Patience / 2)
		h.writes(says)
		time.Sleep(quota.Patience)
		h.want("answered t/a", "progress t/a 3: 7")
		h.writes(retries)
		time.Sleep(quota.Patience / 2)
		h.want("progress t/a 3: 7") // it has repeated a call
		time.Sleep(time.Minute)
		h.want("refused t/a: the login or key is not accepted (authentication_failed)")
		p.end()
		synctest.Wait()
		r, err := h.Ended(agent.End{Who: who, Agent: &claude, Exit: supervisor.Exit{Kind: supervisor.Normal}})
		if err != nil || *r.Tokens != 7 || r.Obstacle != outcome.Authentication {
			t.Errorf("%+v, %v", r, err)
		}
		h.Forget(who)
		if len(h.followers) > 0 {
			t.Errorf("%v", h.followers)
		}
	})
}

// What claude tells of the limits of its account is passed on, each time that it has changed.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := newHarness(t), newProcess()
		h.Follow(who, p, &claude)
		h.writes(`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1795866487,` +
			`"rateLimitType":"five_hour","utilization":0.6}}`)
		time.Sleep(time.Second)
		h.want(fmt.Sprintf("told t/a: [{Name:five_hour Used:0.6 Resets:%v Rejected:false}]", time.Unix(1795866487, 0)))
		h.writes(retries) // which tells nothing of them
		time.Sleep(time.Second / 2)
		h.want()
		p.end()
		synctest.Wait()
	})
}

// A command line that stays after its end, or whose model is silent, is ended; nothing else is.
func TestFailStale(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "in")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*spec.Agent)) *spec.Agent {
		a := claude
		change(&a)
		return &a
	}
	script := func(a *spec.Agent) { a.Command, a.CLI = []string{"./x"}, agentcli.Claude }
	fromFile := func(a *spec.Agent) { a.Stdin = "/etc/passwd" }
	for name, c := range map[string]struct {
		a     *spec.Agent
		line  string
		after time.Duration
		want  agentcli.Stop
	}{
		"it stays":              {&claude, ends, call.Linger + 3*time.Second, agentcli.AfterItsEnd},
		"it has just ended":     {&claude, ends, call.Linger - time.Second, ""},
		"the model is silent":   {&claude, begins, aidefile.DefaultSilence + 3*time.Second, agentcli.Silent},
		"the model thinks":      {&claude, begins, aidefile.DefaultSilence - time.Second, ""},
		"a terminal":            {with(func(a *spec.Agent) { a.Terminal = true }), "", time.Hour, ""},
		"tmux":                  {with(func(a *spec.Agent) { a.Runtime = spec.Tmux }), "", time.Hour, ""},
		"a script":              {with(script), ends, time.Hour, ""},
		"more work may come":    {with(func(a *spec.Agent) { a.Stdin = fifo }), ends, time.Hour, ""},
		"its work is in a file": {with(fromFile), ends, time.Minute, agentcli.AfterItsEnd},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, p := newHarness(t), newProcess()
			h.Follow(who, p, c.a)
			if c.line != "" {
				h.writes(c.line)
			}
			time.Sleep(c.after)
			synctest.Wait()
			if got := call.StopOf(p.failed); got != c.want {
				t.Errorf("%s: %q (%v), expected %q", name, got, p.failed, c.want)
			}
			said := slices.Contains(h.said,
				"agent.condemned t/a: t/a is ended as a failure: the model was silent for 15m0s")
			if said != (c.want == agentcli.Silent) {
				t.Errorf("%s: %q", name, h.said)
			}
			p.end()
			exit := supervisor.Exit{Kind: supervisor.Failure, Err: p.failed}
			r, err := h.Ended(agent.End{Who: who, Agent: c.a, Exit: exit})
			if err != nil || c.want == agentcli.AfterItsEnd && r.Kind != outcome.Completed ||
				c.want == agentcli.Silent && r.Obstacle != outcome.Timeout {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		})
	}
}

// Of an agent with a terminal the file of its session is read, with what earlier incarnations have left ignored.
func TestFollowFile(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "projects", "p", "session-1.jsonl")
	write := func(at time.Time, tokens int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprintf(f, `{"type":"assistant","sessionId":"session-1","cwd":%q,"timestamp":%q,`+
			`"message":{"id":"m%d","model":"opus","usage":{"output_tokens":%[3]d}}}`+"\n",
			home, at.UTC().Format(time.RFC3339Nano), tokens)
	}
	synctest.Test(t, func(t *testing.T) {
		h, p := newHarness(t), newProcess("CLAUDE_CONFIG_DIR="+home)
		a := claude
		a.Dir, a.Terminal = home, true
		h.Launch(who, &a)
		p.started = time.Now().Add(time.Minute) // the runtime says so too late
		h.Follow(who, p, &a)
		write(time.Now(), 20)
		// The times of files are not those of the test.
		if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxPause)
		h.want("answered t/a", "progress t/a 3: 20")
		write(time.Now(), 7)
		time.Sleep(maxPause)
		h.want("answered t/a", "progress t/a 3: 27")
		write(time.Now(), 5)
		p.end()
		synctest.Wait()
		exit := supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Signal: syscall.SIGKILL}}
		r, err := h.Ended(agent.End{Who: who, Agent: &a, Exit: exit})
		if err != nil || *r.Tokens != 32 || r.UsageFrom != agentcli.FromSession || r.Obstacle != outcome.Crash {
			t.Errorf("%+v, %v", r, err)
		}
		// The next incarnation has not begun a session.
		h.Forget(who)
		time.Sleep(time.Minute)
		h.Launch(who, &a)
		p = newProcess("CLAUDE_CONFIG_DIR=" + home)
		h.Follow(who, p, &a)
		p.end()
		if r, err := h.Ended(agent.End{Who: who, Agent: &a, Exit: exit}); err != nil || r.Tokens != nil {
			t.Errorf("the next one: %+v, %v", r, err)
		}
	})
}

// Two agents run in the same directory, and one of them begins a session: whose it is cannot be known.
func TestFollowSharedPlace(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		a := claude
		a.Dir, a.Terminal = home, true
		all := map[token.Caller]*fakeProcess{}
		for _, path := range []string{"t/a", "t/b"} {
			p, who := newProcess("HOME="+home), token.Caller{Path: path, Incarnation: 1}
			all[who] = p
			h.Launch(who, &a)
			h.Follow(who, p, &a)
		}
		dir := filepath.Join(home, ".claude", "projects", "p")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"type":"assistant","sessionId":"session-1","cwd":%q,"timestamp":%q,`+
			`"message":{"id":"m","model":"opus","usage":{"output_tokens":5}}}`+"\n", home,
			time.Now().UTC().Format(time.RFC3339Nano))
		if err := os.WriteFile(filepath.Join(dir, "session-1.jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.want()
		for who, p := range all {
			p.end()
			if r, err := h.Ended(agent.End{Who: who, Agent: &a}); err != nil || r.Tokens != nil {
				t.Errorf("%s: %+v, %v", who.Path, r, err)
			}
		}
	})
}

// What a run has used is known from its output, also if it was stopped, or nobody has followed it. If the output cannot
// be read, nothing is known.
func TestEnded(t *testing.T) {
	lost := supervisor.Exit{Kind: supervisor.Lost, Err: agent.ErrLost}
	for name, c := range map[string]struct {
		followed bool
		exit     supervisor.Exit
		asked    bool
		output   error
		tokens   int64 // -1: not known
		obstacle outcome.ObstacleKind
	}{
		"by itself": {
			true, supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}, false, nil, 7,
			outcome.Crash,
		},
		"stopped":        {true, supervisor.Exit{Kind: supervisor.ShutDown}, true, nil, 7, outcome.OtherObstacle},
		"not followed":   {false, lost, false, nil, 7, outcome.Crash},
		"without output": {true, supervisor.Exit{}, false, errors.New("gone"), -1, ""},
		"nothing at all": {false, supervisor.Exit{}, false, errors.New("gone"), -1, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, p := newHarness(t), newProcess()
			h.before, h.output = []string{says}, c.output
			if c.followed {
				h.Follow(who, p, &claude)
			}
			p.end()
			began, at := time.Now().Add(-time.Hour), time.Now()
			r, err := h.Ended(agent.End{
				Who: who, Agent: &claude, Exit: c.exit, Asked: c.asked, Began: began, At: at,
			})
			if !errors.Is(err, c.output) || r.CLI != agentcli.Claude || r.Obstacle != c.obstacle || !r.Ended.Equal(at) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
			if (r.Tokens == nil) != (c.tokens < 0) || r.Tokens != nil && *r.Tokens != c.tokens {
				t.Errorf("%s: %v tokens", name, r.Tokens)
			}
		})
	}
}

// All agents share what is known of their homes.
func TestHomes(t *testing.T) {
	m := New(Options{})
	for _, began := range []time.Time{{}, time.Now()} {
		if s := m.newFiles(&claude, agent.Env{}, began, nil); s.call.Homes != &m.homes {
			t.Errorf("a call has homes of its own: %+v", s.call)
		}
	}
}

// What is known of a command line on another node is what its files there tell. When the node is lost, it stays.
func TestFar(t *testing.T) {
	const ahead = time.Hour // the clock of the controller
	home, dir := t.TempDir(), t.TempDir()
	write := func(lines ...string) {
		t.Helper()
		path := filepath.Join(home, ".claude/projects/x/11a2200f-2b0d-7290-a8af-7216c039fa2a.jsonl")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		for _, line := range lines {
			now := time.Now().Add(-ahead).UTC().Format(time.RFC3339Nano)
			fmt.Fprintf(out, `{"sessionId":"11a2200f-2b0d-7290-a8af-7216c039fa2a","cwd":%q,"timestamp":%q,%s`+"\n",
				dir, now, line[1:])
		}
	}
	synctest.Test(t, func(t *testing.T) {
		node := far.NewServer(func(_, path string) string { return path })
		defer node.Close()
		n := &nodeOf{to: node}
		h, p := newHarness(t), newProcess("HOME="+home)
		h.far = far.NewClient(far.ClientOptions{Node: "b", Transport: n, Logger: slog.New(slog.DiscardHandler)})
		defer h.far.Close()
		a := claude
		a.Dir, a.Terminal = dir, true
		h.Launch(who, &a)
		p.started = p.started.Add(-ahead)
		write(`{"type":"assistant","message":{"id":"0","usage":{"output_tokens":100}}}`)
		h.Follow(who, p, &a)
		time.Sleep(2 * maxPause)
		h.want("answered t/a", "progress t/a 3: 100")
		write(says)
		time.Sleep(2 * maxPause)
		h.want("answered t/a", "progress t/a 3: 107")
		n.setLost(true)
		write(`{"type":"assistant","message":{"id":"9","usage":{"output_tokens":1}}}`)
		time.Sleep(time.Minute)
		h.want()
		n.setLost(false)
		time.Sleep(2 * maxPause)
		h.want("answered t/a", "progress t/a 3: 108")
		n.setLost(true)
		p.end()
		synctest.Wait()
		lost := supervisor.Exit{Kind: supervisor.Lost, Err: runtime.ErrNodeLost}
		at := time.Now()
		r, err := h.Ended(agent.End{Who: who, Agent: &a, Exit: lost, Began: p.started, Env: p.Environ()})
		if err != nil || r.Tokens == nil || *r.Tokens != 108 || time.Since(at) != lostTime {
			t.Errorf("%+v, %v, after %v", r, err, time.Since(at))
		}
		h.Forget(who)
		n.setLost(false)
		r, err = h.Ended(agent.End{Who: who, Agent: &a, Began: p.started, Env: p.Environ()}) // for another controller
		if err != nil || r.Tokens == nil || *r.Tokens != 108 {
			t.Errorf("%+v, %v", r, err)
		}
		a.Terminal = false
		h.output = errors.New("the node has not answered")
		r, err = h.Ended(agent.End{Who: who, Agent: &a, Began: p.started, Env: p.Environ()})
		if !errors.Is(err, h.output) || r.Tokens == nil || *r.Tokens != 108 {
			t.Errorf("without its output: %+v, %v", r, err)
		}
	})
}

// nodeOf reaches a node, unless it is lost.
type nodeOf struct {
	to   http.Handler
	mu   sync.Mutex
	lost bool
}

func (n *nodeOf) setLost(lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = lost
}

// RoundTrip implements http.RoundTripper.
func (n *nodeOf) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost {
		return nil, errors.New("it does not answer")
	}
	w := httptest.NewRecorder()
	n.to.ServeHTTP(w, r)
	return w.Result(), nil
}

// The output of an incarnation whose node is lost, or has left, is not waited for.
func TestLost(t *testing.T) {
	for _, why := range []error{runtime.ErrNodeLost, runtime.ErrDeadline} {
		synctest.Test(t, func(t *testing.T) {
			h, p := newHarness(t), newProcess()
			h.far = far.NewClient(far.ClientOptions{
				Node: "b", Transport: &nodeOf{lost: true}, Logger: slog.New(slog.DiscardHandler),
			})
			defer h.far.Close()
			h.Follow(who, p, &claude)
			h.writes(says)
			time.Sleep(time.Second)
			at := time.Now() // its session goes on, for the reader of its output
			r, err := h.Ended(agent.End{
				Who: who, Agent: &claude, Exit: supervisor.Exit{Kind: supervisor.Lost, Err: why},
			})
			if !errors.Is(err, errNotRead) || r.Tokens == nil || *r.Tokens != 7 || time.Since(at) != lostTime {
				t.Errorf("%v: %+v, %v, after %v", why, r, err, time.Since(at))
			}
			h.Forget(who)
			p.end()
		})
	}
}

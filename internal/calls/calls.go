// Package calls follows the command lines of language models that agents run, while they run: what they have used so
// far, whether their account serves them, and whether they still work. Agents may run on other nodes of a fleet.
//
// An agent with pipes is read by its output and by the files of its session. Of an agent with a terminal or in tmux
// only the files are read, since its output is a screen. Some agents follow their calls themselves, such as the run of
// an Aidefile, and report them in a file.
package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// Process is the process of a running incarnation.
type Process interface {
	Session() runtime.Session
	// Environ returns the environment of the incarnation.
	Environ() agent.Env
	// Fail ends the incarnation as a failure with a reason; see agent.Process.
	Fail(reason error, sig syscall.Signal) bool
}

// Quotas are the accounts of agents.
type Quotas interface {
	// Refused takes note that the account of an agent that goes on does not serve it.
	Refused(path string, r agentcli.Record)
	// Told takes note of what a command line tells of the limits of its account.
	Told(path string, windows []agentcli.Window)
	// Answered takes note that the model has answered an incarnation that began at a time.
	Answered(path string, began time.Time)
}

// Options connect a Manager with the rest of the daemon.
type Options struct {
	Logger *slog.Logger
	Append func(event.Event) // writes to the event log
	Quotas Quotas
	// Output calls line with each line that an incarnation has written since a time, and then with each that it
	// writes, until it ends. If session is nil it has ended.
	Output func(
		ctx context.Context, who token.Caller, since time.Time, session runtime.Session, line func(string),
	) error
	// Far returns the other node of a fleet on which the last incarnation of an agent was started; nil if that is this
	// one. It may be nil: there is no fleet.
	Far func(path string) *far.Client
	// Runs returns what is known of the last run of an agent that reports its calls itself.
	Runs func(path string) callfile.Records
	// Progress is called with what an incarnation has used and done so far, when that has changed. The record has no
	// verdict.
	Progress func(path string, incarnation uint64, r agentcli.Record)
	// Go runs a function in the background, with a context that ends with the daemon.
	Go func(func(context.Context))
}

// Manager follows the calls of all agents. New makes it.
type Manager struct {
	opts  Options
	homes session.Homes

	mu        sync.Mutex
	launched  map[token.Caller]time.Time // before the process was started
	followers map[token.Caller]*follower
	runs      map[token.Caller]*run
}

// New returns a Manager that follows nothing yet.
func New(o Options) *Manager {
	return &Manager{
		opts: o, launched: map[token.Caller]time.Time{}, followers: map[token.Caller]*follower{},
		runs: map[token.Caller]*run{},
	}
}

// Launch notes that an incarnation is about to start: no file of its session is older.
func (m *Manager) Launch(who token.Caller, _ *spec.Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.launched[who] = time.Now()
}

// Forget drops what is known of an incarnation that has ended, or could not start.
func (m *Manager) Forget(who token.Caller) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.launched, who)
	if f := m.followers[who]; f != nil {
		f.files.close()
	}
	delete(m.followers, who)
	delete(m.runs, who)
}

// Exported takes note of what an incarnation has exported of its use over OTLP.
func (m *Manager) Exported(who token.Caller, all []agentcli.Event) {
	m.mu.Lock()
	f, r := m.followers[who], m.runs[who]
	m.mu.Unlock()
	if f != nil {
		f.call.Export(all)
	}
	if r != nil {
		r.export(all)
	}
}

// startMargin is by how much the start of a process may be earlier than the time that its runtime has recorded. It is
// used for incarnations of earlier daemons, and of other nodes, whose clocks may differ.
const startMargin = 100 * time.Millisecond

// Follow follows an incarnation until it has ended.
func (m *Manager) Follow(who token.Caller, p Process, a *spec.Agent) {
	if a.ReportsCalls() {
		r := &run{m: m, who: who, process: p}
		m.mu.Lock()
		m.runs[who] = r
		m.mu.Unlock()
		m.opts.Go(r.follow)
		return
	}
	cli := a.CommandLine()
	if cli == agentcli.Plain || cli == agentcli.ACP {
		return
	}
	at := m.far(who.Path)
	m.mu.Lock()
	began, ok := m.launched[who]
	if o := p.Session().Observe(); (!ok || at != nil) && !o.StartedAt.IsZero() {
		began = o.StartedAt.Add(-startMargin)
	}
	f := newFollower(m, who, p, a, began, at)
	for _, other := range m.followers {
		if at == nil && other.place == f.place { // the other node knows its own
			other.shared.Store(true)
			f.shared.Store(true)
		}
	}
	m.followers[who] = f
	m.mu.Unlock()
	m.opts.Go(f.run)
}

func (m *Manager) far(path string) *far.Client {
	if m.opts.Far == nil {
		return nil
	}
	return m.opts.Far(path)
}

// HasScreen reports whether the output of an agent is a screen for people.
func HasScreen(a *spec.Agent) bool { return a.Terminal || a.Runtime == spec.Tmux }

const (
	// endTime bounds how long the rest of the output of an incarnation that has ended may take to be read.
	endTime = time.Minute
	// lostTime bounds how long its node may take to tell the rest, if that leaves the fleet or is lost.
	lostTime = time.Second
)

// Ended returns what is known of an incarnation that has ended. After an error, nothing is, except of one on another
// node, which may be lost: then it is what was known before.
func (m *Manager) Ended(e agent.End) (agentcli.Record, error) {
	m.mu.Lock()
	f := m.followers[e.Who]
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	known, end := ctx, func() {}
	node := m.far(e.Who.Path)
	if errors.Is(e.Exit.Err, runtime.ErrNodeLost) || node != nil && errors.Is(e.Exit.Err, runtime.ErrDeadline) {
		known, end = context.WithTimeout(ctx, lostTime)
	}
	defer end()
	var c *call.Call
	var s *sessionFiles
	var err error
	if f == nil {
		s = m.newFiles(e.Agent, e.Env, e.Began, node)
		defer s.close()
		c = s.newCall(e.Agent.Command)
		if !HasScreen(e.Agent) {
			err = m.opts.Output(known, e.Who, e.Began, nil, lines(c))
		}
	} else {
		c, s = f.call, f.files
		err = f.wait(known)
	}
	if known != ctx {
		defer context.AfterFunc(known, s.giveUp)()
	}
	if err != nil && !s.isFar() {
		return agentcli.Record{CLI: e.Agent.CommandLine(), Ended: e.At}, err
	}
	c.Finish()
	r := endOf(c, e).Record()
	r.Began, r.Ended = e.Began, e.At
	return r, err
}

var errNotRead = errors.New("its output was not read in time")

// endOf returns what is known of the end of a call.
func endOf(c *call.Call, e agent.End) agentcli.End {
	stopped := call.StopOf(e.Exit.Err)
	if e.Asked {
		stopped = agentcli.ByOperator
	}
	return c.Exited(e.Exit, stopped)
}

// lines returns a function that adds lines to a call. They are of both streams.
func lines(c *call.Call) func(string) {
	return func(line string) {
		text := []byte(line + "\n")
		c.Write(text)
		c.WriteError(text)
	}
}

// fail ends an incarnation that is stale.
func (m *Manager) fail(who token.Caller, p Process, reason error) {
	if !p.Fail(reason, 0) {
		return
	}
	if errors.Is(reason, call.ErrLingers) { // no failure
		m.opts.Logger.Info("a command line has reported its end and stays; ending its process", "path", who.Path)
		return
	}
	m.opts.Append(event.Event{
		Type: event.AgentCondemned, Path: who.Path, Incarnation: who.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s is ended as a failure: %v", who.Path, reason),
	}.With(map[string]any{"cause": "silence", "reason": reason.Error()}))
}

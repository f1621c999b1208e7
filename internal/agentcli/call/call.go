// Package call follows a call of a command line of a language model while it goes on: what it writes, and the files
// that it keeps of its session. Run runs the program of a call to its end.
package call

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Linger bounds the time for which a process may stay after its command line has reported its end.
const Linger = 10 * time.Second

// ErrLingers is the reason to end a call that has reported its end.
var ErrLingers = errors.New("it has reported its end, and its process stays")

// SilentError is the reason to end a call whose model says nothing.
type SilentError struct{ After time.Duration }

func (e *SilentError) Error() string { return fmt.Sprintf("the model was silent for %v", e.After) }

// StopOf returns why a call was stopped, given the error of Stale or Run for which it was; NotStopped for other errors.
func StopOf(err error) agentcli.Stop {
	if s, ok := errors.AsType[*StoppedError](err); ok {
		return s.Stop
	}
	if errors.Is(err, ErrLingers) {
		return agentcli.AfterItsEnd
	}
	if _, ok := errors.AsType[*SilentError](err); ok {
		return agentcli.Silent
	}
	return agentcli.NotStopped
}

// Call is a call that goes on. Write, WriteError and Add may be called at any time; the other methods belong to one
// goroutine.
type Call struct {
	call   session.Call
	vendor agentcli.CLI // see agentcli.Vendor
	script bool         // it runs a program that is none of a command line
	more   chan struct{}
	files  Files
	polled time.Time

	mu        sync.Mutex
	out, errs agentcli.Stream
	exported  agentcli.Stream // over OTLP
	last      time.Time       // when it has written, here or into a file of its session
}

// Files follows the files of a session, as a session.Follower does.
type Files interface {
	Poll(out agentcli.Report) bool
	Finish(out agentcli.Report)
	Report() agentcli.Report
}

// New returns a Call that runs a command. Of an agent that speaks the Agent Client Protocol, the session files are
// those of its vendor.
func New(argv []string, c session.Call) *Call {
	return NewWith(argv, c, func(c session.Call) Files { return session.Follow(c) })
}

// NewWith is New with another way to follow the files of the session.
func NewWith(argv []string, c session.Call, follow func(session.Call) Files) *Call {
	files, vendor := c, c.CLI
	if c.CLI == agentcli.ACP {
		vendor = agentcli.Vendor(argv)
		files.CLI = vendor
	}
	return &Call{
		call: c, vendor: vendor, script: agentcli.Detect(argv) == agentcli.Plain && c.CLI != agentcli.ACP,
		more: make(chan struct{}, 1), files: follow(files),
		out:  agentcli.Stream{CLI: c.CLI, Each: c.Each},
		errs: agentcli.Stream{CLI: vendor, Source: agentcli.FromStderr, Each: c.Each},
		last: time.Now(),
	}
}

// Write reads more of the standard output. It never fails.
func (c *Call) Write(p []byte) (int, error) { return c.write(&c.out, p) }

// Add adds what an agent reports over the Agent Client Protocol.
func (c *Call) Add(e agentcli.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote()
	c.out.Add(e)
}

// WriteError reads more of the standard error. It never fails.
func (c *Call) WriteError(p []byte) (int, error) { return c.write(&c.errs, p) }

func (c *Call) write(to *agentcli.Stream, p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote()
	return to.Write(p)
}

// wrote notes a sign of life. c.mu is held.
func (c *Call) wrote() {
	c.last = time.Now()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// Export adds what the command line exports of its use over OTLP.
func (c *Call) Export(all []agentcli.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range all {
		c.exported.Add(e)
	}
	c.wrote()
}

// More returns a channel that holds a token if the call has written something since the last receive.
func (c *Call) More() <-chan struct{} { return c.more }

// minPoll is the least time between two looks at the files of a session.
const minPoll = 50 * time.Millisecond

// Poll reads what the files of the session have more, if that was not done just now, and reports whether they had
// anything.
func (c *Call) Poll() bool {
	if time.Since(c.polled) < minPoll {
		return false
	}
	more := c.files.Poll(c.Report())
	c.polled = time.Now()
	if more {
		c.mu.Lock()
		c.last = c.polled
		c.mu.Unlock()
	}
	return more
}

// Finish reads the rest after the end of the call.
func (c *Call) Finish() {
	c.mu.Lock()
	c.out.Close()
	c.errs.Close()
	c.mu.Unlock()
	c.files.Finish(c.Report())
}

// Report returns what the call has reported so far on its standard output.
func (c *Call) Report() agentcli.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Report()
}

// End returns what is known of the call if it ends now. exit is how its process has ended, empty for an exit code
// of 0; stopped is why it was stopped.
func (c *Call) End(exit string, code int, stopped agentcli.Stop) agentcli.End {
	c.mu.Lock()
	defer c.mu.Unlock()
	return agentcli.End{
		CLI: c.call.CLI, Vendor: c.vendor, Exit: exit, Code: code, Stopped: stopped, Now: time.Now(),
		Output: c.out.Report(), Stderr: c.errs.Report(), Session: c.files.Report(), Exported: c.exported.Report(),
	}
}

// Exited returns what is known of the call, whose process has ended. stopped is why it was stopped.
func (c *Call) Exited(exit supervisor.Exit, stopped agentcli.Stop) agentcli.End {
	how, code := "", 0
	if exit.Kind != supervisor.Normal {
		how = exit.String()
	}
	if e, ok := errors.AsType[*proc.ExitError](exit.Err); ok {
		code = max(0, e.Code)
	}
	return c.End(how, code, stopped)
}

// Interrupted returns the record of the call as if it was killed now, together with the process that follows it, and
// why its account does not serve it; nil if it does, or that is not known.
func (c *Call) Interrupted() (record agentcli.Record, refused *agentcli.Record) {
	end := c.End("it was killed with its run", 0, agentcli.NotStopped)
	if r, ok := end.Refusal(); ok {
		refused = &r
	}
	record = end.Record()
	record.Began = c.call.Began
	return record, refused
}

// Counts returns what the call has used and done so far. The record is without a verdict.
func (c *Call) Counts() agentcli.Record {
	r := c.End("", 0, agentcli.NotStopped).Counts()
	r.Began = c.call.Began
	return r
}

// Quiet returns for how long the call has written nothing.
func (c *Call) Quiet() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.last)
}

// Stale returns the reason to end a call that has written nothing for a time: ErrLingers if it has reported its end,
// a SilentError if no tool works and its model is silent. It returns nil where silence means nothing: of a command that
// is not known, such as a script that goes on with something else, and of one that reports nothing on the way. opencode
// does not tell when a tool begins.
func (c *Call) Stale(linger, silence time.Duration) error {
	report, quiet := c.Report(), c.Quiet()
	if c.script || c.call.CLI == agentcli.Plain || !report.Seen {
		return nil
	}
	if report.Ended && quiet > linger {
		return ErrLingers
	}
	if c.call.CLI != agentcli.Opencode && report.Working == 0 && quiet > silence {
		return &SilentError{silence}
	}
	return nil
}

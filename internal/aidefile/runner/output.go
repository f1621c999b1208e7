package runner

import (
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
)

// output collects the output of a call of the command: its reports about itself and the end of its
// text. follow, finish and what returns a record belong to one goroutine.
type output struct {
	mu     sync.Mutex
	stream agentcli.Stream
	errors agentcli.Stream // of standard error
	tail   []byte
	last   time.Time     // when it has written, here or into the file of its session
	more   chan struct{} // holds a token when it has written since that was looked at

	session  *session.Follower
	followed time.Time // when the session was looked at last
}

// newOutput returns the output of a call.
func newOutput(call session.Call) *output {
	return &output{
		stream: agentcli.Stream{CLI: call.CLI}, errors: agentcli.Stream{CLI: call.CLI, Source: agentcli.FromStderr},
		last: time.Now(), more: make(chan struct{}, 1), session: session.Follow(call),
	}
}

// minFollow is the least time between two looks at the file of a session.
const minFollow = 50 * time.Millisecond

// follow reads what the file of the session has more.
func (o *output) follow() {
	if time.Since(o.followed) < minFollow {
		return
	}
	if o.session.Poll(o.report()) {
		o.mu.Lock()
		o.last = time.Now()
		o.mu.Unlock()
	}
	o.followed = time.Now()
}

// wrote notes that the command has written. Needs mu.
func (o *output) wrote() {
	o.last = time.Now()
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// quiet returns for how long the command has written nothing.
func (o *output) quiet() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.last)
}

// maxTail bounds the text that is kept for a summary, in bytes.
const maxTail = 1 << 20

func (o *output) Write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream.Write(p)
	o.wrote()
	o.tail = append(o.tail, p...)
	if len(o.tail) > 2*maxTail {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-maxTail:]...)
	}
}

// writeError adds to standard error.
func (o *output) writeError(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errors.Write(p)
	o.wrote()
}

// finish ends the output.
func (o *output) finish() {
	o.mu.Lock()
	o.stream.Close()
	o.errors.Close()
	o.mu.Unlock()
	o.session.Finish(o.report())
}

// end returns what is known of the end of the call. exit is how its process has ended, empty for an exit code of 0;
// stopped is why it was stopped.
func (o *output) end(exit string, code int, stopped agentcli.Stop) agentcli.End {
	o.mu.Lock()
	defer o.mu.Unlock()
	return agentcli.End{
		CLI: o.stream.CLI, Exit: exit, Code: code, Stopped: stopped, Now: time.Now(),
		Output: o.stream.Report(), Stderr: o.errors.Report(), Session: o.session.Report(),
	}
}

func (o *output) report() agentcli.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stream.Report()
}

// answer returns the text that the command reports as its answer, or else all its text.
func (o *output) answer() string {
	if o == nil {
		return ""
	}
	if text := o.report().Text; text != "" {
		return text
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ToValidUTF8(string(o.tail), "\uFFFD")
}

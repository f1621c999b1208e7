package far

import (
	"maps"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Call describes a call on another node. Paths are those of this machine; the node finds its own.
type Call struct {
	CLI agentcli.CLI
	Env []string // of which the node gets what session.Variables returns
	// Inherited are the names of variables of which the node has those of its own; see proc.Move.
	Inherited []string
	Dir       string
	Home      string    // the directory of the project
	Stdin     string    // a file; empty if there is none
	Began     time.Time // by the clock of the node
	Session   string    // see session.Call
	// Told is called with what the call has told since the last call, before Report has it. It must not be slow.
	Told func(Told)
}

// Follower follows the files of a call on another node. It is safe for concurrent use.
type Follower struct {
	c    *Client
	id   uint64
	call Call
	over chan struct{} // closed when nothing follows

	queued, closed bool // guarded by Client.mu

	mu        sync.Mutex
	output    output
	described bool // the node should know the call
	finish    bool
	have      uint64 // version of the report
	report    agentcli.Report
	told      Told
	ends      bool
	shared    bool
	changed   bool // since the last Poll
	isOver    bool
}

// Follow returns a Follower of a call, which the caller closes.
func (c *Client) Follow(call Call) *Follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	f := &Follower{c: c, id: c.last, call: call, over: make(chan struct{})}
	if describe(call).size() > maxCall {
		f.end() // nothing is known of it
	}
	return f
}

// Close ends the work of a Follower.
func (f *Follower) Close() {
	f.GiveUp()
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.c.drops = append(f.c.drops, f.id)
		f.c.rouse()
	}
}

// GiveUp says that the node is lost: nothing more will be known.
func (f *Follower) GiveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
}

// end notes that nothing follows. f.mu is held.
func (f *Follower) end() {
	if !f.isOver {
		f.isOver = true
		close(f.over)
	}
}

// Poll has the node look for what was written since the last call, and reports whether something is known that was not
// at the last call. out is what the call has reported so far on its standard output.
func (f *Follower) Poll(out agentcli.Report) bool {
	f.mu.Lock()
	more, isOver := f.changed, f.isOver
	f.changed, f.output = false, outputOf(out)
	f.mu.Unlock()
	if !isOver {
		f.c.want(f)
	}
	return more
}

const (
	// finishTimeout bounds the time in which a node reads the rest of the files of a call.
	finishTimeout = 30 * time.Second
	// patience bounds the time in which a node has to answer anything, when a call has ended.
	patience = askTimeout + errorPause
)

// Finish has the node read the rest after the end of the call. If it does not answer in time, the report stays as it
// is.
func (f *Follower) Finish(out agentcli.Report) {
	f.mu.Lock()
	isOver := f.isOver
	f.output, f.finish = outputOf(out), true
	f.mu.Unlock()
	if isOver {
		return
	}
	f.c.want(f)
	late := time.NewTimer(finishTimeout)
	defer late.Stop()
	silent := time.NewTicker(patience)
	defer silent.Stop()
	for {
		select {
		case <-f.over:
			return
		case <-silent.C:
			if !f.c.hasAnswered(patience) {
				return
			}
		case <-late.C:
			return
		case <-f.c.ctx.Done():
			return
		}
	}
}

// Report returns what the files have of the call, as far as it is known.
func (f *Follower) Report() agentcli.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.report
	r.Models, r.Unknown = maps.Clone(r.Models), maps.Clone(r.Unknown)
	return r
}

// EndsItself is the function of this name, for the standard input of the call on its node. It reports false until the
// node has answered.
func (f *Follower) EndsItself() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends
}

// poll returns what to ask the node.
func (f *Follower) poll() poll {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := poll{ID: f.id, Output: f.output, Shared: f.shared, Finish: f.finish, Have: f.have}
	if !f.described {
		p.Call = describe(f.call)
	}
	return p
}

// take takes an answer of the node. It reports whether the node has to be asked again at once.
func (f *Follower) take(p *polled) (again bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Unknown {
		if !f.described {
			return false, errUnasked
		}
		f.described, f.have = false, 0
		return true, nil
	}
	if p.Busy {
		return f.finish && !f.isOver, nil
	}
	report := f.report
	if p.Report != nil {
		if report, err = parseReport(p.Report); err != nil {
			return f.finish && !f.isOver, err
		}
		f.changed = true
	}
	if more := f.told.update(p.Told); more != (Told{}) {
		f.call.Told(more)
	}
	f.report, f.have = report, p.Have
	f.described, f.ends, f.shared = true, p.EndsItself, f.shared || p.Shared
	if p.Finished {
		f.end()
	}
	return f.finish && !f.isOver, nil
}

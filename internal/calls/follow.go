package calls

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/calls/far"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// follower follows an incarnation that is a command line.
type follower struct {
	m       *Manager
	who     token.Caller
	process Process
	call    *call.Call
	files   *sessionFiles
	pipes   bool      // its output is read
	started time.Time // of the call; zero if it is not known
	began   time.Time // when it was followed first

	place  string      // of its files
	shared atomic.Bool // with another agent that runs, or has run, at the same time

	refusal refusal
	told    atomic.Bool // something of its account
	limits  atomic.Bool // the state of its limits
	answer  atomic.Bool // of the model

	last  agentcli.Record // that Progress was told
	looks schedule

	ended chan struct{} // closed when all output was read
	done  chan struct{} // closed when the call has no other user
	left  chan struct{} // closed when the rest of the output is not waited for
	leave func()        // closes left
	err   error         // of the output; valid after ended
}

// newFollower returns a follower of an incarnation on another node, or on this one if at is nil.
func newFollower(
	m *Manager, who token.Caller, p Process, a *spec.Agent, started time.Time, at *far.Client,
) *follower {
	f := &follower{
		m: m, who: who, process: p, pipes: !HasScreen(a), started: started, began: time.Now(),
		ended: make(chan struct{}), done: make(chan struct{}), left: make(chan struct{}),
	}
	f.leave = sync.OnceFunc(func() { close(f.left) })
	f.files = m.newFiles(a, p.Environ(), started, at)
	f.files.call.Shared, f.files.told = f.shared.Load, f.tell
	f.place, f.call = f.files.call.Place(), f.files.newCall(a.Command)
	return f
}

// tell notes what the call has told.
func (f *follower) tell(t far.Told) {
	if t.Limits > 0 {
		f.limits.Store(true)
	}
	if t.Limits > 0 || t.Failures > 0 {
		f.told.Store(true)
	}
	if t.Answers > 0 {
		f.answer.Store(true)
	}
}

// lookPause is the least time between two looks at what a call has reported.
const lookPause = 100 * time.Millisecond

// run follows the incarnation until it has ended.
func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	if f.pipes {
		f.m.opts.Go(f.read)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	more, looked := f.call.More(), time.Time{}
	for {
		select {
		case <-more:
			more = nil // until the next look
			timer.Reset(time.Until(looked.Add(lookPause)))
			f.looks.wrote()
			continue
		case <-timer.C:
		case <-f.over():
			return
		case <-f.left:
			return
		case <-ctx.Done():
			return
		}
		more, looked = f.call.More(), time.Now()
		timer.Reset(f.look(looked))
	}
}

// over is closed when the incarnation has ended, and all that it has written was read.
func (f *follower) over() <-chan struct{} {
	if f.pipes {
		return f.ended
	}
	return f.process.Session().Done()
}

// wait waits until the call has no other user, and returns why its output was not read to the end, if it was not until
// ctx is done. It belongs to the end of the incarnation.
func (f *follower) wait(ctx context.Context) error {
	select {
	case <-f.done:
	case <-ctx.Done():
		f.leave()
		if !f.files.isFar() { // a look at files of this machine may take as long as it likes
			return errNotRead
		}
		<-f.done
	}
	if !f.pipes {
		return nil
	}
	select {
	case <-f.ended:
		return f.err
	default:
		return errNotRead
	}
}

// read reads the output of the incarnation until it has ended.
func (f *follower) read(ctx context.Context) {
	defer close(f.ended)
	s := f.process.Session()
	f.err = f.m.opts.Output(ctx, f.who, f.started, s, lines(f.call))
	if f.err == nil || ctx.Err() != nil {
		return
	}
	f.m.opts.Logger.Warn("cannot follow the output of a command line", "path", f.who.Path, "error", f.err)
	select {
	case <-s.Done():
	case <-ctx.Done():
	}
}

// look takes note of what the call has reported, and returns when to look again.
func (f *follower) look(now time.Time) time.Duration {
	if f.looks.due(now) {
		f.looks.looked(now, f.call.Poll())
	}
	path := f.who.Path
	counts := f.call.Counts() // first: what is in them was told as an event before
	if f.answer.Swap(false) {
		f.m.opts.Quotas.Answered(path, f.began)
	}
	again := f.looks.next.Sub(now)
	if told := f.told.Swap(false); told || f.refusal.waits() {
		end := f.call.End("", 0, agentcli.NotStopped)
		if f.limits.Swap(false) && end.CLI == agentcli.Claude { // the windows of others have no names for people
			f.m.opts.Quotas.Told(path, end.Output.Windows)
		}
		r, refused := end.Refusal()
		due := f.refusal.update(now, told, refused)
		if due {
			f.m.opts.Quotas.Refused(path, r)
		}
		if f.refusal.waits() {
			again = min(again, lookPause)
		}
	}
	if !reflect.DeepEqual(counts, f.last) {
		f.last = counts
		f.m.opts.Progress(path, f.who.Incarnation, counts)
	}
	if !f.pipes || !f.files.endsItself() {
		return again
	}
	if err := f.call.Stale(call.Linger, aidefile.DefaultSilence); err != nil {
		f.m.fail(f.who, f.process, err)
	}
	return again
}

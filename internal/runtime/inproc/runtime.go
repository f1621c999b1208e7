// Package inproc runs agents that are functions of this process, such as the agents of Sage
// programs. They do not outlive the process, so there is never a running one to adopt. Only
// their output is kept, in a log for each slot.
package inproc

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options configure a Runtime.
type Options struct {
	// Dir is the directory of the slots. It is created with the first line of output.
	Dir string
	// Output, if not nil, is called for each line of output. While it blocks, the agent waits.
	Output func(path string, incarnation uint64, line proc.Line)
}

// Runtime is a runtime.Runtime for agents that are functions. Open creates it.
type Runtime struct {
	*slots.Kept
	dir    string
	output func(string, uint64, proc.Line)

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot // by path
	wg     sync.WaitGroup   // running incarnations
}

var _ runtime.Runtime = (*Runtime)(nil)

// slot is the place of one agent.
type slot struct {
	said *said
	last *session // guarded by Runtime.mu
}

// Open creates a Runtime. It creates no files.
func Open(o Options) (*Runtime, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	return &Runtime{Kept: slots.NewKept(dir), dir: dir, output: o.Output, slots: map[string]*slot{}}, nil
}

// Kind returns "inproc".
func (r *Runtime) Kind() string { return spec.InProcess.String() }

// Start starts an incarnation and returns when it is ready: immediately, or after a call of
// Ready if the launch says so. An incarnation that was killed and has not ended is abandoned. A
// function cannot be forced to end, so its successor runs next to it.
func (r *Runtime) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	if l.Run == nil {
		return nil, fmt.Errorf("%s runs nothing: %w", l.Path, runtime.ErrUnsupported)
	}
	if l.Paths != nil {
		return nil, fmt.Errorf("limiting where %s may write: %w", l.Path, runtime.ErrUnsupported)
	}
	s, err := r.begin(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := s.AwaitReady(ctx); err != nil {
		if ctx.Err() != nil { // the start is given up
			s.Stop()
			select {
			case <-s.done:
			case <-time.After(l.Grace):
				s.Kill()
			}
		}
		return nil, err
	}
	return s, nil
}

// begin creates the session of an incarnation and starts its goroutine.
func (r *Runtime) begin(ctx context.Context, l runtime.Launch) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, slots.ErrClosed
	}
	at, err := r.slot(l.Path)
	if err != nil {
		return nil, err
	}
	if last := at.last; last != nil {
		switch {
		case last.lives() && !last.killed.Load():
			return nil, fmt.Errorf("%s: %w", l.Path, runtime.ErrBusy)
		case l.Incarnation <= last.launch.Incarnation && !l.ResetNumbering:
			return nil, fmt.Errorf("%s, incarnation %d: %w", l.Path, l.Incarnation, runtime.ErrStale)
		}
	}
	at.said.begin(l.Incarnation, l.Log)
	s := &session{launch: l, said: at.said, started: time.Now(), ready: make(chan struct{}), done: make(chan struct{})}
	if !l.Ready.Notify {
		close(s.ready)
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.cancel = cancel
	at.last = s
	r.wg.Go(func() { s.live(life) })
	return s, nil
}

// slot returns the slot of an agent. Needs mu.
func (r *Runtime) slot(path string) (*slot, error) {
	if at := r.slots[path]; at != nil {
		return at, nil
	}
	dir, err := slots.Dir(r.dir, path)
	if err != nil {
		return nil, err
	}
	at := &slot{said: &said{file: filepath.Join(dir, logfile.Name)}}
	r.slots[path] = at
	return at, nil
}

// Say records a line of output of the agent at path. If that has no slot, the line goes to the
// nearest agent above it, with the rest of the path as a prefix.
func (r *Runtime) Say(path string, stream proc.Stream, text string) {
	r.mu.Lock()
	owner := path
	at := r.slots[owner]
	for at == nil || at.last == nil {
		i := strings.LastIndexByte(owner, '/')
		if i < 0 {
			r.mu.Unlock()
			return
		}
		owner = owner[:i]
		at = r.slots[owner]
	}
	incarnation := at.last.launch.Incarnation
	r.mu.Unlock()
	if owner != path {
		text = path[len(owner)+1:] + ": " + text
	}
	at.said.append(text)
	if r.output == nil {
		return
	}
	now := time.Now()
	for line := range strings.SplitSeq(text, "\n") {
		r.output(owner, incarnation, proc.Line{Time: now, Stream: stream, Text: strings.ToValidUTF8(line, "\uFFFD")})
	}
}

// Adopt returns the last incarnation of an agent since this process began.
func (r *Runtime) Adopt(_ context.Context, path string) (runtime.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.slots[path]; at != nil && at.last != nil {
		return at.last, nil
	}
	return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
}

// Ready is part of runtime.Runtime.
func (r *Runtime) Ready(_ context.Context, path string, incarnation uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.slots[path]
	switch {
	case at == nil || at.last == nil:
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	case at.last.launch.Incarnation != incarnation:
		return fmt.Errorf("%s, incarnation %d: %w", path, incarnation, runtime.ErrStale)
	case !at.last.lives():
		return fmt.Errorf("%s: %w", path, runtime.ErrEnded)
	}
	if !slots.IsClosed(at.last.ready) {
		close(at.last.ready)
	}
	return nil
}

// List is part of runtime.Runtime. It does not list slots of other processes.
func (r *Runtime) List(context.Context) ([]runtime.Observation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []runtime.Observation
	for _, at := range r.slots {
		if at.last != nil {
			all = append(all, at.last.Observe())
		}
	}
	return all, nil
}

// Log is part of runtime.Runtime.
func (r *Runtime) Log(path string) (string, error) { return slots.LogFile(r.dir, path) }

// Remove deletes a slot with its log.
func (r *Runtime) Remove(_ context.Context, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.slots[path]
	if at != nil && at.last != nil && at.last.lives() {
		return fmt.Errorf("%s: %w", path, runtime.ErrBusy)
	}
	delete(r.slots, path)
	dir, err := slots.Dir(r.dir, path)
	if err != nil {
		return err
	}
	return r.Discard(dir, path)
}

// Close stops all agents and waits for them, for a limited time.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed = true
	left := 0
	for _, at := range r.slots {
		if at.last != nil && at.last.lives() {
			at.last.Stop()
			left++
		}
	}
	r.mu.Unlock()
	if left == 0 {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(supervisor.DefaultShutdown):
		return fmt.Errorf("%d agents in this process do not end", left)
	}
}

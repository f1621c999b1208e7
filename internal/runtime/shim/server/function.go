package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

var errStopped = errors.New("asked to stop")

// process is the incarnation of a slot: an OS process or a Function.
type process interface {
	PID() int
	Identity() (proc.Identity, error)
	Done() <-chan struct{}
	Exit() supervisor.Exit    // valid after Done is closed
	Drained() <-chan struct{} // closed after the last output
	Stop()
	Kill()
	// End stops the process, and kills it after grace.
	End(grace time.Duration) bool
	Signal(sig syscall.Signal) error
	Write(data []byte) (int, error)
	Resize(size proc.Size) error
	TerminalSize() (proc.Size, error)
}

// Function is an incarnation that is a function of the shim.
type Function struct {
	launch runtime.Launch
	slot   *slot
	cancel context.CancelCauseFunc

	printing sync.Mutex
	out      proc.Output

	once  sync.Once // closes ready
	ready chan struct{}

	ending sync.Mutex
	failed error           // why the whole program ends; guarded by ending
	exit   supervisor.Exit // set before done is closed
	done   chan struct{}
}

var _ process = (*Function)(nil)

// Times after which a function that does not end is left to itself. Its successor may then run next
// to it.
const (
	killTime = 5 * time.Second // after it was killed
	lastTime = time.Second     // after its program has failed, whose process ends soon
	// Both together, after it was killed at the deadline of the node, are less than a second.
	functionTime = 200 * time.Millisecond // until its program fails
	expiredTime  = 500 * time.Millisecond // after that
)

// beginFunction is fork for an agent of the program.
func (run *incarnation) beginFunction(l *runtime.Launch) (
	p process, await func(context.Context) error, err error,
) {
	s := run.slot
	switch {
	case s.shim.program == nil || s.shim.key != l.Program.Key:
		return nil, nil, fmt.Errorf("%s is an agent of %s, and this shim has those of %s", l.Path, l.Program.Key,
			s.shim.key)
	case l.Paths != nil:
		return nil, nil, fmt.Errorf("limiting where %s may write: %w", l.Path, runtime.ErrUnsupported)
	}
	life, cancel := context.WithCancelCause(context.Background())
	f := &Function{
		launch: *l, slot: s, cancel: cancel, out: s.output.sinks(run, s.drained),
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	if !l.Ready.Notify {
		f.Ready()
	}
	go func() {
		defer cancel(nil)
		f.over(exitOf(life, s.shim.program, f))
	}()
	return f, f.await, nil
}

func exitOf(ctx context.Context, p Program, f *Function) (exit supervisor.Exit) {
	exit = supervisor.Exit{Kind: supervisor.Panicked, Err: supervisor.ErrGoexit} // stands unless Run returns
	defer func() {
		if v := recover(); v != nil {
			exit.Err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	switch err := p.Run(ctx, f); {
	case err == nil:
		return supervisor.Exit{Kind: supervisor.Normal}
	case errors.Is(err, supervisor.ErrShutdown), ctx.Err() != nil && errors.Is(err, context.Canceled):
		return supervisor.Exit{Kind: supervisor.ShutDown}
	default:
		return supervisor.Exit{Kind: supervisor.Failure, Err: err}
	}
}

// over ends the incarnation, unless it has ended.
func (f *Function) over(exit supervisor.Exit) {
	f.ending.Lock()
	defer f.ending.Unlock()
	if f.hasEnded() {
		return
	}
	if f.failed != nil && exit.Kind != supervisor.Normal {
		exit = supervisor.Exit{Kind: supervisor.Failure, Err: f.failed}
	}
	f.exit = exit
	close(f.done)
}

// fail ends the incarnation because its program may not go on.
func (f *Function) fail(err error, within time.Duration) {
	f.ending.Lock()
	f.failed = err
	f.ending.Unlock()
	f.cancel(supervisor.ErrKilled)
	time.AfterFunc(within, func() { f.over(supervisor.Exit{Kind: supervisor.Killed}) })
}

func (f *Function) hasEnded() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// Path returns the path of the agent.
func (f *Function) Path() string { return f.launch.Path }

// Incarnation returns the number of the incarnation.
func (f *Function) Incarnation() uint64 { return f.launch.Incarnation }

// Env returns the environment of a command in place of the function.
func (f *Function) Env() []string { return f.launch.Env }

// Ready reports that the incarnation is ready.
func (f *Function) Ready() { f.once.Do(func() { close(f.ready) }) }

// Print writes text and a line end to a stream. It waits while a reader of each line is slow.
func (f *Function) Print(s proc.Stream, text string) {
	f.printing.Lock()
	defer f.printing.Unlock()
	if f.hasEnded() { // its successor has the log
		return
	}
	f.out.Lines(s, []byte(text+"\n"))
	if !f.out.Wanted() {
		return
	}
	now := time.Now()
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.ToValidUTF8(line, "\uFFFD")
		for len(line) > proc.MaxLine {
			n := proc.MaxLine
			for !utf8.RuneStart(line[n]) {
				n--
			}
			f.out.Line(proc.Line{Time: now, Stream: s, Text: line[:n], More: true})
			line = line[n:]
		}
		f.out.Line(proc.Line{Time: now, Stream: s, Text: line})
	}
}

// Adopt makes a command one of the incarnation: what it leaves behind ends with it.
func (f *Function) Adopt(cmd *proc.Command) {
	cmd.Reaper, cmd.Mark = &f.slot.shim.reaper, f.slot.mark
	cmd.Env = append(slices.Clip(cmd.Env), f.slot.marker())
}

// await returns when the incarnation is ready. It has no other bound than ctx.
func (f *Function) await(ctx context.Context) error {
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.done:
	}
	select {
	case <-f.ready:
		return nil
	default:
	}
	if f.exit.Err == nil {
		return fmt.Errorf("%w: %v", supervisor.ErrNotReady, f.exit)
	}
	return f.exit.Err
}

// PID returns 0: the process is not that of the agent alone.
func (f *Function) PID() int { return 0 }

// Identity returns the zero value, as PID does.
func (f *Function) Identity() (proc.Identity, error) { return proc.Identity{}, nil }

func (f *Function) Done() <-chan struct{}    { return f.done }
func (f *Function) Drained() <-chan struct{} { return f.done }

func (f *Function) Exit() supervisor.Exit {
	if f.hasEnded() {
		return f.exit
	}
	return supervisor.Exit{}
}

func (f *Function) Stop() { f.cancel(errStopped) }

// Kill asks once more, since a function cannot be forced to end.
func (f *Function) Kill() {
	f.cancel(supervisor.ErrKilled)
	time.AfterFunc(killTime, func() {
		f.over(supervisor.Exit{Kind: supervisor.Killed, Err: fmt.Errorf("%w, and did not end within %v",
			supervisor.ErrKilled, killTime)})
	})
}

func (f *Function) End(grace time.Duration) bool {
	f.Stop()
	select {
	case <-f.done:
		return true
	case <-time.After(grace):
	}
	f.Kill()
	<-f.done
	return true
}

// Signal handles SIGTERM, SIGINT and SIGQUIT like Stop, and SIGKILL like Kill.
func (f *Function) Signal(sig syscall.Signal) error {
	switch {
	case f.hasEnded():
		return os.ErrProcessDone
	case sig == syscall.SIGKILL:
		f.Kill()
	case sig == syscall.SIGTERM, sig == syscall.SIGINT, sig == syscall.SIGQUIT:
		f.Stop()
	default:
		return f.unsupported("process that could be sent " + sig.String())
	}
	return nil
}

func (f *Function) Write([]byte) (int, error) { return 0, f.unsupported("terminal to type into") }

func (f *Function) Resize(proc.Size) error { return f.unsupported("terminal") }

func (f *Function) TerminalSize() (proc.Size, error) { return proc.Size{}, f.unsupported("terminal") }

func (f *Function) unsupported(what string) error {
	return fmt.Errorf("%s is an agent of a program and has no %s: %w", f.launch.Path, what, runtime.ErrUnsupported)
}

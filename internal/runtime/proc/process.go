package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Process is one incarnation of an agent: a running process group and its output. It implements
// supervisor.Process. Start creates it.
type Process struct {
	pid     int
	stop    syscall.Signal
	os      *leader
	out     *recorder
	streams []*stream // one for a terminal, else stdout and stderr
	reaper  *Reaper

	terminal bool
	input    *os.File // for Write: the terminal, which its stream closes, or a pipe; may be nil
	inputMu  sync.Mutex

	killed  context.Context // done when Kill was called
	cancel  context.CancelFunc
	done    chan struct{}
	drained chan struct{}
	exit    supervisor.Exit // set before done is closed

	// mu guards the fields below and the pid itself: while it is held and reaped is false, pid
	// and the group's id refer to this process.
	mu      sync.Mutex
	reaped  bool
	asked   Asked
	escaped []Identity // descendants outside of the group, seen before a signal was sent
}

var _ supervisor.Process = (*Process)(nil)

// errLost is the Err of a Lost exit.
var errLost = errors.New("another process collected its exit status")

// Start runs the command. When it returns, the program has been loaded (execve succeeded); after
// an error nothing runs. Errors that another try cannot cure wrap ErrCommand.
func Start(cmd Command, out Output) (*Process, error) {
	if err := cmd.Check(); err != nil {
		return nil, err
	}
	file := cmd.Argv[0]
	if !strings.Contains(file, "/") {
		var err error
		if file, err = LookPath(file, cmd.Dir, cmd.Env); err != nil {
			return nil, err
		}
	}

	awaitProgram(cmd.Dir, file)
	rules, err := cmd.Paths.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCommand, err)
	}
	defer rules.Close()

	var opened []*os.File // closed if the start fails
	fail := func(err error) (*Process, error) {
		for _, f := range opened {
			f.Close()
		}
		return nil, err
	}
	p := &Process{
		stop:    cmd.stopSignal(),
		reaper:  cmd.Reaper,
		out:     newRecorder(out),
		done:    make(chan struct{}),
		drained: make(chan struct{}),
	}
	var child [3]*os.File
	switch {
	case cmd.Terminal != nil:
		master, tty, err := openTerminal(*cmd.Terminal)
		if err != nil {
			return fail(err)
		}
		opened = append(opened, master)
		defer tty.Close()
		p.input, p.terminal = master, true
		child = [3]*os.File{tty, tty, tty}
		p.streams = []*stream{newStream(Stdout, master, p.out)}
	case cmd.Input:
		w, r, err := openPipe(false)
		if err != nil {
			return fail(fmt.Errorf("making a pipe for stdin: %w", err))
		}
		opened = append(opened, w)
		defer r.Close()
		p.input, child[0] = w, r
	case cmd.Stdin != nil:
		child[0] = cmd.Stdin
	default:
		null, err := openNull()
		if err != nil {
			return nil, fmt.Errorf("opening stdin: %w", err)
		}
		defer null.Close()
		child[0] = null
	}
	for i, kind := range []Stream{Stdout, Stderr} {
		if p.terminal {
			break
		}
		r, w, err := openPipe(true)
		if err != nil {
			return fail(fmt.Errorf("making a pipe for %v: %w", kind, err))
		}
		opened = append(opened, r, w)
		defer w.Close()
		child[i+1] = w
		p.streams = append(p.streams, newStream(kind, r, p.out))
	}
	if err := cmd.chownFiles(child); err != nil {
		return fail(err)
	}
	l, err := startLeader(file, &cmd, child, rules)
	if err != nil {
		return fail(cmd.explain(file, err))
	}
	p.os, p.pid = l, l.pid

	var open atomic.Int32
	open.Store(int32(len(p.streams)))
	for _, s := range p.streams {
		go func() {
			s.pump()
			if open.Add(-1) == 0 {
				close(p.drained)
			}
		}()
	}
	p.killed, p.cancel = context.WithCancel(context.Background())
	go p.watch()
	return p, nil
}

// chownFiles gives the terminal or pipes that were created for the process to its user, because
// a program may open them again, for example as /dev/stdout.
func (c *Command) chownFiles(child [3]*os.File) error {
	if c.User == nil {
		return nil
	}
	for i, f := range child {
		if i == 0 && c.Terminal == nil && !c.Input {
			continue // a file of the caller
		}
		if err := f.Chown(int(c.User.UID), -1); err != nil {
			return fmt.Errorf("giving %s to user %s: %w", f.Name(), c.User.Name, err)
		}
	}
	return nil
}

// PID returns the pid of the leader, which is also the id of its group. After Done is closed it
// may be reused: see Identity.
func (p *Process) PID() int { return p.pid }

// Done is closed when the leader has ended, nothing of its group is left, and their output has
// been read. If Output.Line blocks, it does not wait for the output for more than 100 ms. After
// Stop, the rest of the group may run until Kill is called. Otherwise it is killed at once.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the leader ended; it is valid after Done is closed. Err is an *ExitError
// unless the exit was clean or requested.
func (p *Process) Exit() supervisor.Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return supervisor.Exit{}
	}
}

// Wait waits for Done and returns the exit.
func (p *Process) Wait() supervisor.Exit {
	<-p.done
	return p.exit
}

// Drained is closed after the last call of Output.Line. That is with Done or at most a second
// later, unless Output.Line itself takes longer.
func (p *Process) Drained() <-chan struct{} { return p.drained }

// LastOutput returns the last lines so far, oldest first.
func (p *Process) LastOutput() []string { return p.out.tail() }

// Identity identifies the process, also for another run of this program. It returns
// os.ErrProcessDone once the process has been reaped.
func (p *Process) Identity() (Identity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return Identity{}, os.ErrProcessDone
	}
	return Identify(p.pid)
}

// Signal sends a signal to the leader alone. It returns os.ErrProcessDone once the leader has
// been reaped.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	p.asked.Note(sig)
	return p.os.signal(sig)
}

// Stop sends the stop signal to the whole group, and to descendants outside of the group when
// the leader has ended. Suspended processes are continued, so that the signal takes effect. The
// caller calls Kill after the grace period.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.asked.Stop = true
	p.asked.Note(p.stop)
	p.noteEscaped()
	p.signalGroup(p.stop)
	p.signalGroup(syscall.SIGCONT)
}

// Kill sends SIGKILL to the group and to the descendants that left it.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.asked.Kill = true
	p.asked.Note(syscall.SIGKILL)
	p.cancel()
	p.noteEscaped()
	p.signalGroup(syscall.SIGKILL)
}

// End calls Stop and, after the grace period, Kill. It reports whether the process has ended.
func (p *Process) End(grace time.Duration) bool {
	p.Stop()
	if p.EndsWithin(grace) {
		return true
	}
	p.Kill()
	return p.EndsWithin(supervisor.KillGrace)
}

// EndsWithin waits for the end of the process, at most for d, and reports whether it has ended.
func (p *Process) EndsWithin(d time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(d):
		return false
	}
}

// signalGroup signals each process of the group and the leader exactly once, because a second
// SIGTERM makes some programs exit immediately. Needs mu.
func (p *Process) signalGroup(sig syscall.Signal) {
	err := syscall.Kill(-p.pid, sig)
	if group, _ := syscall.Getpgid(p.pid); err != nil || group != p.pid {
		p.os.signal(sig) // the leader has left its group
	}
}

// noteEscaped records the descendants outside of the group. They can be found by their parents
// only, which are about to die. Needs mu.
func (p *Process) noteEscaped() {
	family, err := descendants(p.pid)
	if err != nil {
		return // without /proc, escaped processes cannot be found
	}
	for _, m := range family {
		if m.group != p.pid {
			p.escaped = append(p.escaped, m.Identity)
		}
	}
}

// watch handles the exit. The order matters: while the leader is a zombie its id is in use, so
// the group that is waited for and killed is certainly its own.
func (p *Process) watch() {
	defer p.cancel()
	ours := p.os.await()
	if ours {
		p.awaitRest()
	}
	p.mu.Lock()
	if ours {
		syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	var ok bool
	p.reaper.reap(p.pid, func() { status, ok = p.os.reap() })
	p.reaped = true
	asked, escaped := p.asked, p.escaped
	p.mu.Unlock()

	for _, id := range escaped {
		id.killTree()
	}
	if p.input != nil && !p.terminal {
		p.input.Close()
	}
	flush(p.streams)
	if ok {
		p.exit = Classify(status, asked, p.out.tail)
	} else {
		p.exit = supervisor.Exit{Kind: supervisor.Lost, Err: errLost}
	}
	close(p.done)
}

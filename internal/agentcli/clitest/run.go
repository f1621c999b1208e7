package clitest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// stopGrace is the time from the stop signal to SIGKILL. A machine with much to do needs some of it.
const stopGrace = time.Minute

// Run is a run of a command line.
type Run struct {
	home    *Home
	process *proc.Process
	began   time.Time
	stopped agentcli.Stop
	report  func() agentcli.Report // of standard output
	files   *session.Follower      // of the session

	mu     sync.Mutex
	output agentcli.Stream
	stderr agentcli.Stream
	raw    [2]bytes.Buffer // what it has written, for a test that fails
}

// Start starts a run with a prompt. It continues a session if one is named. Each event of its output is passed to
// each, one at a time.
func (h *Home) Start(t testing.TB, resume, prompt string, each func(agentcli.Event)) *Run {
	t.Helper()
	if h.kind.CLI() == agentcli.ACP {
		return h.startACP(t, resume, prompt, each)
	}
	stdin, err := os.Open(h.promptFile(t, prompt))
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	r := h.newRun(resume, each)
	r.report = r.output.Report
	r.start(t, proc.Command{Argv: h.command(resume), Stdin: stdin}, r.write)
	return r
}

func (h *Home) newRun(resume string, each func(agentcli.Event)) *Run {
	cli := h.kind.CLI()
	r := &Run{
		home: h, began: time.Now(), output: agentcli.Stream{CLI: cli, Each: each},
		stderr: agentcli.Stream{CLI: cli, Source: agentcli.FromStderr},
	}
	if cli == agentcli.ACP {
		cli = agentcli.Claude // works below it, and keeps a file of its session
	}
	r.files = session.Follow(session.Call{CLI: cli, Env: h.environ(), Dir: h.work, Began: r.began, Session: resume})
	return r
}

// start starts the process. What it writes to standard output goes to write.
func (r *Run) start(t testing.TB, cmd proc.Command, write func([]byte)) {
	t.Helper()
	cmd.Dir, cmd.Env = r.home.work, r.home.environ()
	var err error
	r.process, err = proc.Start(cmd, proc.Output{Raw: func(s proc.Stream, p []byte) {
		r.mu.Lock()
		r.raw[s-proc.Stdout].Write(p)
		if s == proc.Stderr {
			r.stderr.Write(p)
		}
		r.mu.Unlock()
		if s == proc.Stdout {
			write(p)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.process.Kill()
		<-r.process.Done()
		<-r.process.Drained()
	})
}

// write reads standard output.
func (r *Run) write(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output.Write(p)
}

// Stop stops the run as Coppice does it: a signal to its group, and SIGKILL if it does not end.
func (r *Run) Stop(why agentcli.Stop) {
	r.stopped = why
	r.process.End(stopGrace)
}

// Kill kills the run and all that it has started, as a machine without memory may.
func (r *Run) Kill() { r.process.Kill() }

// Done is closed when the process has ended.
func (r *Run) Done() <-chan struct{} { return r.process.Done() }

// End waits for the end of the process, kills what it has left behind, and returns what is known of its end.
func (r *Run) End(t testing.TB) agentcli.End {
	t.Helper()
	<-r.process.Done()
	<-r.process.Drained()
	if err := r.home.sweep(); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	r.output.Close()
	r.stderr.Close()
	r.mu.Unlock()
	exit := r.process.Exit()
	end := agentcli.End{
		CLI: r.home.kind.CLI(), Stopped: r.stopped, Output: r.report(), Stderr: r.stderr.Report(),
		Now: time.Now(), Local: time.UTC,
	}
	r.files.Finish(end.Output)
	end.Session = r.files.Report()
	if exit.Kind != supervisor.Normal {
		end.Exit = exit.String()
	}
	if e, ok := errors.AsType[*proc.ExitError](exit.Err); ok {
		end.Code = max(0, e.Code)
	}
	return end
}

// String returns what the run has written, for a test that fails.
func (r *Run) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("process: %v\n", r.process.Exit())
	for i, name := range []string{"output", "standard error"} {
		out := r.raw[i].Bytes()
		text += fmt.Sprintf("%s:\n%s\n", name, out[max(0, len(out)-8<<10):])
	}
	return text
}

// Tool is a command for a tool of a command line that runs until it is killed.
type Tool struct {
	fifo string
	both *os.File // for reading and writing, so that reading does not end before the command has begun
}

// NewTool makes a Tool whose file is in the directory in which runs work, where every command line lets it write.
func (h *Home) NewTool(t testing.TB) *Tool {
	t.Helper()
	tool := &Tool{fifo: filepath.Join(h.work, "tool")}
	err := syscall.Mkfifo(tool.fifo, 0o600)
	if err == nil {
		tool.both, err = os.OpenFile(tool.fifo, os.O_RDWR, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tool.both.Close() })
	return tool
}

// Command returns the command. It has the file open as long as it runs.
func (c *Tool) Command() string { return "exec 3>" + c.fifo + " && echo up >&3 && sleep 100000" }

// Runs returns a channel that is closed when the command runs.
func (c *Tool) Runs() <-chan struct{} {
	up := make(chan struct{})
	go func() {
		var b [3]byte
		if n, _ := c.both.Read(b[:]); n > 0 {
			close(up)
		}
	}()
	return up
}

// AwaitEnd returns when the command and all that it has started have ended.
func (c *Tool) AwaitEnd(t testing.TB, limit time.Duration) {
	t.Helper()
	read, err := os.OpenFile(c.fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	c.both.Close()
	if err := read.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	var b [3]byte
	for {
		if n, err := read.Read(b[:]); n == 0 {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the command of the tool runs on")
			}
			return
		}
	}
}

package shim

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
)

// shimEnv lists the variables that a shim inherits. It needs few, and the agent has its own.
var shimEnv = []string{"TMPDIR", "XDG_RUNTIME_DIR", "GORACE", "GOCOVERDIR"}

// startShim starts a shim, for a program or for processes, and returns a connection to it.
func (r *Runtime) startShim(ctx context.Context, key string, program *spec.Program) (*conn, error) {
	fail := func(err error) (*conn, error) {
		return nil, fmt.Errorf("starting a shim: %w", err)
	}
	var opened []*os.File
	defer func() {
		for _, f := range opened {
			f.Close()
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fail(err)
	}
	opened = append(opened, null)
	last, err := private.OpenFile(filepath.Join(r.Dir, wire.ShimLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return fail(err)
	}
	opened = append(opened, last)
	ours, theirs, err := socketPair()
	if err != nil {
		return fail(err)
	}
	opened = append(opened, theirs)

	files := []*os.File{null, null, last, theirs}
	// ps shows whose agents the shim has.
	argv := []string{"coppice", "shim", server.RunArg, plaintext.Line(fmt.Sprintf("%.200s", key))}
	env := Environ()
	if program != nil {
		bundle, err := pipeOf(program.Bundle)
		if err != nil {
			ours.Close()
			return fail(err)
		}
		opened, files = append(opened, bundle), append(files, bundle)
		argv, env = append(argv, server.ProgramArg), os.Environ()
		if program.Trace != nil {
			argv, files = append(argv, server.TraceArg), append(files, program.Trace)
		}
	}
	child, err := proc.Detach(r.exe, argv, env, r.Dir, files)
	if err != nil {
		ours.Close()
		return fail(err)
	}
	reaped := r.Background(func() { // while the runtime is open
		select {
		case <-child.Done():
		case <-r.Ctx.Done():
			child.Release()
			<-child.Done()
		}
	})
	if !reaped {
		child.Release()
	}
	for _, f := range files[server.ConnFD:min(len(files), server.TraceFD)] {
		f.Close() // before greeting, so that the end of the shim is noticed
	}
	c, err := greet(ctx, ours, "")
	if err != nil {
		ended := exitHint(child) // first, since the log is complete then
		return nil, fmt.Errorf("starting a shim (%s%s): %w", ended, r.logHint(child.PID), err)
	}
	return c, nil
}

// Environ returns the environment of a shim whose agents are processes, or of another small process next to the daemon.
func Environ() []string {
	env := []string{"GOMAXPROCS=1"}
	for _, kv := range os.Environ() {
		for _, name := range shimEnv {
			if strings.HasPrefix(kv, name+"=") {
				env = append(env, kv)
			}
		}
	}
	return env
}

// pipeOf returns a pipe with a text. What is not read when its reading ends are closed is lost.
func pipeOf(text []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		w.Write(text) // fails if the process ends before it has read all
		w.Close()
	}()
	return r, nil
}

// exitTimeout bounds the wait for the exit of a shim that could not be greeted. It closes its
// connection a moment before it has ended.
const exitTimeout = time.Second

// exitHint returns how a shim ended, or "" if it still runs.
func exitHint(shim *proc.Detached) string {
	select {
	case <-shim.Done():
	case <-time.After(exitTimeout):
		return ""
	}
	if exit := shim.Exit(); exit != nil {
		return exit.Error() + "; "
	}
	return ""
}

// maxShimLog bounds what is read of the log of a shim.
const maxShimLog = 1 << 20

// logHint quotes the last line of a shim in the log of all shims, or names the log.
func (r *Runtime) logHint(pid int) string {
	name := filepath.Join(r.Dir, wire.ShimLog)
	text, err := private.ReadFile(name, maxShimLog)
	said := ""
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, server.Signature(pid)) {
			said = strings.TrimSpace(line)
		}
	}
	if err == nil && said != "" {
		return fmt.Sprintf("it says %.300q in %s", plaintext.Line(said), name)
	}
	return name + " may say more"
}

func socketPair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock() // a child that inherits an end would hide that the other one was closed
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("creating a socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "shim"), os.NewFile(uintptr(fds[1]), "shim")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

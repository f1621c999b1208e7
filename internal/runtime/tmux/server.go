package tmux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

const (
	socketName    = "tmux"        // of the server, in the directory of the slots
	serverFile    = "server.json" // identity of the server that was started last
	callTimeout   = 3 * time.Second
	checkInterval = 3 * time.Second // between two checks of the server, while agents run
	wakeInterval  = time.Second     // between two requests to create the socket again
	maxCalls      = 8               // parallel calls of tmux
	exitTimeout   = time.Second     // for a server without sessions to end
)

// ErrTmux is wrapped by errors that only another tmux can cure.
var ErrTmux = errors.New("tmux cannot be used")

// Oldest supported version of tmux.
const (
	minMajor = 3
	minMinor = 2
)

// Version returns the version of tmux. The error wraps ErrTmux, with a remedy, if tmux is not
// installed or too old.
func Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", "-V").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: it is not installed or not in PATH: install it (apt install tmux, dnf install "+
			"tmux, brew install tmux) or use another runtime", ErrTmux)
	}
	if err != nil {
		return "", fmt.Errorf("tmux -V: %w", err)
	}
	version := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(out)), "tmux"))
	if tooOld(version) {
		return "", fmt.Errorf("%w: version %.40q is too old, %d.%d or later is needed", ErrTmux, version, minMajor,
			minMinor)
	}
	return version, nil
}

// tooOld reports whether a version such as 3.3a or next-3.5 is too old. Other versions, such as
// master or openbsd-7.4, count as new.
func tooOld(version string) bool {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "next-"), ".")
	minor := rest
	if i := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
		minor = rest[:i]
	}
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		return false
	}
	return a < minMajor || a == minMajor && b < minMinor
}

// check ensures, once, that tmux is usable.
func (r *Runtime) check(ctx context.Context) error {
	r.mu.Lock()
	checked := r.checked
	r.mu.Unlock()
	if checked {
		return nil
	}
	if _, err := Version(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checked = true
	return nil
}

// command returns a call of tmux. The path of the socket is relative to the directory, because
// the whole path may be too long for a socket address.
func (r *Runtime) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", socketName, "-f", os.DevNull}, args...)...)
	cmd.Dir = r.Dir
	for _, kv := range proc.Environ(nil, proc.Self{}) {
		// People get the environment of the server in windows that they open.
		if !strings.HasPrefix(kv, proc.EnvPrefix) && !strings.HasPrefix(kv, "TERM=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "TERM="+viewerTerm)
	cmd.WaitDelay = time.Second
	return cmd
}

// errHangs means that the server runs, but processes no commands.
var errHangs = fmt.Errorf("no response within %v", callTimeout)

// tmux runs commands of tmux and returns their output. They take callTimeout at most, and fail
// immediately while the server is known to hang.
func (r *Runtime) tmux(ctx context.Context, in io.Reader, args ...string) (string, error) {
	select { // the server processes one command after the other anyway
	case r.calls <- struct{}{}:
		defer func() { <-r.calls }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs {
		return "", fmt.Errorf("tmux %s: %w", args[0], errHangs)
	}
	return r.call(ctx, in, args...)
}

// call calls tmux in any case. After a failure the server is checked.
func (r *Runtime) call(ctx context.Context, in io.Reader, args ...string) (string, error) {
	tctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := r.command(tctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	err := cmd.Run()
	switch {
	case err == nil:
		r.noteAnswer(nil)
		return out.String(), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	select {
	case r.checkNow <- struct{}{}:
	default:
	}
	r.wake()
	switch {
	case tctx.Err() != nil:
		err := fmt.Errorf("tmux %s: %w", args[0], errHangs)
		r.noteAnswer(err)
		return "", err
	case errs.Len() > 0:
		return "", fmt.Errorf("tmux %s: %.300s", args[0], plaintext.Line(strings.TrimSpace(errs.String())))
	}
	return "", fmt.Errorf("tmux %s: %w", args[0], err)
}

// paneInfo is the state of a pane in tmux.
type paneInfo struct {
	session       string
	id            string
	pid           int
	dead          bool // its process has closed the terminal
	ended         bool // its process has ended, and tmux knows how
	status        int  // exit code; -1 if unknown
	signal        syscall.Signal
	at            time.Time // of the end, in seconds; zero if unknown
	screen        bool      // its program draws on the screen instead of writing lines
	width, height int
	attached      int // clients
}

const paneFormat = "#{pid}|#{pane_id}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}|" +
	"#{pane_dead_time}|" +
	"#{alternate_on}|#{cursor_flag}|#{window_width}|#{window_height}|#{session_attached}|#{session_name}"

// answer is the server's answer about its panes, or why there is none.
type answer struct {
	server int // its pid; 0 if unknown
	all    []paneInfo
	err    error
}

func (a answer) pane(id string) *paneInfo {
	for i := range a.all {
		if a.all[i].id == id {
			return &a.all[i]
		}
	}
	return nil
}

// session returns the pane of a session.
func (a answer) session(name string) *paneInfo {
	for i := range a.all {
		if a.all[i].session == name {
			return &a.all[i]
		}
	}
	return nil
}

// panes asks the server about the panes that a filter selects; an empty filter selects all.
func (r *Runtime) panes(ctx context.Context, filter string) answer {
	// The first line always exists, and has the pid of the server.
	args := []string{"display-message", "-p", "#{pid}", ";", "list-panes", "-a", "-F", paneFormat}
	if filter != "" {
		args = append(args, "-f", filter)
	}
	out, err := r.tmux(ctx, nil, args...)
	if err != nil {
		return answer{err: err}
	}
	a, err := parsePanes(out)
	if err != nil {
		return answer{err: err}
	}
	return a
}

// parsePanes parses the output of the commands of panes.
func parsePanes(out string) (answer, error) {
	var a answer
	first, rest, _ := strings.Cut(out, "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid <= 0 {
		return a, fmt.Errorf("unexpected process id from tmux: %.40q", first)
	}
	a.server = pid
	for line := range strings.Lines(rest) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 13)
		if len(f) != 13 {
			return answer{}, fmt.Errorf("unexpected pane from tmux: %.200q", line)
		}
		p := paneInfo{id: f[1], status: -1, session: f[12]}
		var errs [6]error
		number := func(i int, s string) int {
			n, err := strconv.Atoi(s)
			errs[i] = err
			return n
		}
		p.pid = number(0, f[2])
		p.width, p.height = number(1, f[9]), number(2, f[10])
		p.attached = number(3, f[11])
		if f[4] != "" {
			p.status, p.ended = number(4, f[4]), true
		}
		if f[5] != "" {
			p.signal, p.ended = signalOf(f[5]), true
		}
		if f[6] != "" {
			p.at = time.Unix(int64(number(5, f[6])), 0)
		}
		p.dead = f[3] == "1"
		p.screen = !p.dead && f[8] == "0" || f[7] == "1"
		if err := errors.Join(errs[:]...); err != nil {
			return answer{}, fmt.Errorf("unexpected pane from tmux: %.200q: %w", line, err)
		}
		a.all = append(a.all, p)
	}
	return a, nil
}

// signalOf parses a signal, which is a number or, depending on the C library, a name.
func signalOf(s string) syscall.Signal {
	if n, err := strconv.Atoi(s); err == nil {
		return syscall.Signal(n)
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG"))
}

// wake makes a server create its socket again if that was removed. In other cases it does
// nothing.
func (r *Runtime) wake() {
	if _, err := os.Lstat(filepath.Join(r.Dir, socketName)); err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, err := r.lastServer(); err == nil && time.Since(r.lastWake) > wakeInterval {
		r.lastWake = time.Now() // not repeatedly, because creating the socket drops connecting clients
		id.Signal(syscall.SIGUSR1)
	}
}

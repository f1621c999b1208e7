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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

const testTimeout = runtimetest.Timeout

// slotsDir returns a directory that is emptied after the test; then no server is left.
func slotsDir(t testing.TB) string {
	t.Helper()
	needTmux(t)
	dir := filepath.Join(t.TempDir(), "slots 100% #{pid} 'x';")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		r, err := Open(Options{Dir: dir})
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		all, err := r.List(ctx)
		if err != nil {
			t.Error(err)
		}
		for _, o := range all {
			s, err := r.Adopt(ctx, o.Path)
			if err != nil {
				t.Errorf("adopt %s: %v", o.Path, err)
				continue
			}
			s.Kill()
			wait(t, "the end of "+o.Path, s.Done())
			if err := r.Remove(ctx, o.Path); err != nil {
				t.Error(err)
			}
		}
		if id, err := r.lastServer(); err == nil {
			if err := id.AwaitDeath(ctx); err != nil {
				t.Errorf("the tmux server is left behind: %v", err)
				id.Signal(syscall.SIGKILL)
			}
		}
	})
	return dir
}

func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func wait(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatalf("%s did not come within %v", what, testTimeout)
	}
}

func sh(path string, n uint64, script string) runtime.Launch {
	return runtime.Launch{
		Path: path, Incarnation: n, SpecHash: fmt.Sprint("f", n),
		Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: append(proc.Environ(nil, proc.Self{Agent: path, Incarnation: n}), runtimetest.Env()),
		Grace: 10 * time.Second, Terminal: true,
	}
}

const forever = "exec sleep 100000"

func start(t testing.TB, r *Runtime, l runtime.Launch) *session {
	t.Helper()
	s, err := r.Start(ctxOf(t), l)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

func exit(t testing.TB, s runtime.Session) supervisor.Exit {
	t.Helper()
	wait(t, "the end", s.Done())
	return s.Exit()
}

// until waits for a line of output with this prefix.
func until(t testing.TB, s runtime.Session, prefix string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	got := ""
	err := follow(ctx, s, 1000, func(line string) {
		if line = plaintext.Line(line); got == "" && strings.HasPrefix(line, prefix) {
			got = line
			cancel()
		}
	})
	if got == "" {
		lines, _ := s.Peek(context.Background(), 10)
		t.Fatalf("no line begins with %q (%v), there is %q", prefix, err, lines)
	}
	return got
}

// awaitLife waits until a session is observed as alive, dead or unknown.
func awaitLife(t testing.TB, s runtime.Session, want runtime.Life) runtime.Observation {
	t.Helper()
	late := time.After(testTimeout)
	for { // observations cannot be waited for
		o := s.Observe()
		if o.Life == want {
			return o
		}
		select {
		case <-late:
			t.Fatalf("observed %+v", o)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func code(e supervisor.Exit) int {
	var ee *proc.ExitError
	if errors.As(e.Err, &ee) {
		return ee.Code
	}
	return 0
}

// command runs tmux as a person would.
func command(t testing.TB, r *Runtime, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctxOf(t), "tmux", append([]string{"-S", socketName}, args...)...)
	cmd.Dir = r.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func TestServerKilled(t *testing.T) {
	r := open(t, slotsDir(t))
	var all []*session
	for i := range 3 {
		all = append(all, start(t, r, sh(fmt.Sprint("app/", i), 1, "trap '' HUP TERM; echo up; while :; do sleep 1; done")))
	}
	start1 := start(t, r, sh("app/gone", 1, "exit 4"))
	if e := exit(t, start1); code(e) != 4 {
		t.Errorf("exit = %v", e)
	}
	until(t, all[0], "up")
	all[0].rec.Server.Signal(syscall.SIGKILL)
	for _, s := range all {
		if e := exit(t, s); e.Kind != supervisor.Lost {
			t.Errorf("exit = %v", e)
		}
		if proc.Observe(s.rec.Agent) != proc.Dead {
			t.Errorf("agent %d has survived its server", s.rec.Agent.PID)
		}
	}
	other := open(t, r.Dir)
	list, err := other.List(ctxOf(t))
	if err != nil || len(list) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, o := range list {
		if o.Life != runtime.Dead || o.Path == "app/gone" && code(o.Exit) != 4 {
			t.Errorf("listed %+v", o)
		}
	}
	for i := range 3 { // all at once, which makes one new server
		all[i] = start(t, r, sh(fmt.Sprint("app/", i), 2, forever))
		if all[i].rec.Server != all[0].rec.Server {
			t.Error("there are two servers")
		}
	}
}

// The server is killed while no daemon runs.
func TestServerKilledUnwatched(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, forever))
	r.Close()
	s.rec.Server.Signal(syscall.SIGKILL)
	// The agent may end first, because the server closes its terminals before it ends.
	for _, id := range []proc.Identity{s.rec.Server, s.rec.Agent} {
		if err := id.AwaitDeath(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, dir)
	listed := func(unrecorded bool) {
		list, err := r.List(ctxOf(t))
		if err != nil || len(list) != 1 || list[0].Life != runtime.Dead || list[0].Exit.Kind != supervisor.Lost ||
			list[0].Unrecorded != unrecorded {
			t.Errorf("listed %+v, %v; want a lost agent, unrecorded: %v", list, err, unrecorded)
		}
	}
	listed(true)
	a, err := r.Adopt(ctxOf(t), "app/a")
	if err != nil {
		t.Fatal(err)
	}
	listed(false)
	if e := exit(t, a); e.Kind != supervisor.Lost {
		t.Errorf("exit = %v", e)
	}
}

func TestServerStopped(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, forever))
	ending := start(t, r, sh("app/b", 1, "read x; exit 5"))
	server := s.rec.Server
	server.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { server.Signal(syscall.SIGCONT) })
	begin := time.Now()
	o := awaitLife(t, s, runtime.Unknown)
	if d := time.Since(begin); d > checkInterval+callTimeout+2*time.Second {
		t.Errorf("unknown after %v", d)
	}
	if o.Detail == "" {
		t.Error("the reason is missing")
	}
	list, err := r.List(ctxOf(t))
	if err != nil || len(list) != 2 || list[0].Life != runtime.Unknown || list[1].Life != runtime.Unknown {
		t.Errorf("listed %+v, %v", list, err)
	}
	for _, path := range []string{"app/a", "app/new"} {
		if _, err := r.Start(ctxOf(t), sh(path, 2, forever)); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("start of %s: %v", path, err)
		}
	}
	other := open(t, r.Dir) // has never seen it respond
	if list, err := other.List(ctxOf(t)); err != nil || len(list) < 2 || list[0].Life != runtime.Unknown {
		t.Errorf("listed %+v, %v", list, err)
	}
	if _, err := r.Adopt(ctxOf(t), "app/a"); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("adopt: %v", err)
	}
	if err := r.Remove(ctxOf(t), "app/a"); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("remove: %v", err)
	}
	if err := ending.Write(ctxOf(t), []byte("x\n")); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("write: %v", err)
	}
	// An agent can be killed meanwhile, but it is unknown how it ended.
	ending.Kill()
	if err := ending.rec.Agent.AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	awaitLife(t, ending, runtime.Unknown)
	if ending.hasEnded() {
		t.Error("it has ended for certain, and that could not be known")
	}
	server.Signal(syscall.SIGCONT)
	awaitLife(t, s, runtime.Alive)
	for {
		list, err := other.List(ctxOf(t))
		if err != nil || ctxOf(t).Err() != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(o runtime.Observation) bool { return o.Path == "app/a" })
		if list[i].Life == runtime.Alive {
			break
		}
	}
	if e := exit(t, ending); e.Kind != supervisor.Killed || !errors.Is(e.Err, supervisor.ErrKilled) {
		t.Errorf("exit = %v", e)
	}
	start(t, r, sh("app/new", 2, forever))
	start(t, r, sh("app/b", 2, forever))
	s.Stop()
	if e := exit(t, s); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v", e)
	}
}

func TestSocketRemoved(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, forever))
	if err := os.Remove(filepath.Join(r.Dir, socketName)); err != nil {
		t.Fatal(err)
	}
	list, err := r.List(ctxOf(t))
	if err != nil || len(list) != 1 || list[0].Life == runtime.Dead {
		t.Errorf("listed %+v, %v", list, err)
	}
	for { // until the server has created it again
		other, err := r.Start(ctxOf(t), sh("app/b", 1, forever))
		if err == nil {
			if other.(*session).rec.Server != s.rec.Server {
				t.Error("there are two servers")
			}
			return
		}
		if !errors.Is(err, runtime.ErrUnknown) {
			t.Fatal(err)
		}
	}
}

// An earlier state of the server refuses no start.
func TestOldAnswer(t *testing.T) {
	r := open(t, slotsDir(t))
	a := r.panes(ctxOf(t), "0")
	if a.err == nil {
		t.Fatal("there is a server")
	}
	start(t, r, sh("app/a", 1, forever))
	if err := r.checkServer(ctxOf(t), a); err != nil {
		t.Error(err)
	}
}

func TestPersonTypes(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, `echo up; while read x; do echo "got $x"; done; exit 3`))
	until(t, s, "up")
	argv, dir, err := r.AttachCommand("app/a")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TERM=xterm")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	screen := make(chan struct{})
	go func() { defer close(screen); io.Copy(io.Discard, terminal) }()
	terminal.WriteString("hello\n")
	until(t, s, "got hello")
	// What the daemon writes arrives although the person scrolls.
	command(t, r, "copy-mode", "-t", s.rec.Pane)
	if err := s.Write(ctxOf(t), []byte("from the daemon\n")); err != nil {
		t.Fatal(err)
	}
	until(t, s, "got from the daemon")
	command(t, r, "send-keys", "-t", s.rec.Pane, "-X", "cancel")
	terminal.WriteString("\x04")
	if e := exit(t, s); code(e) != 3 {
		t.Errorf("exit = %v", e)
	}
	// The client stays attached, and sees the next incarnation.
	s = start(t, r, sh("app/a", 2, `stty size; read x; exit 6`))
	if got := until(t, s, "33"); got != "33 99" {
		t.Errorf("the window has the size %s", got)
	}
	terminal.WriteString("\n")
	if e := exit(t, s); code(e) != 6 {
		t.Errorf("exit = %v", e)
	}
	terminal.WriteString("\x02d") // detach
	wait(t, "the end of the person's tmux", screen)
	cmd.Wait()
	terminal.Close()
}

func TestSessionClosedByHand(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "(trap '' HUP; setsid sleep 100001) & "+forever))
	keep := start(t, r, sh("app/keep", 1, forever))
	command(t, r, "rename-session", "-t", s.rec.Pane, "renamed:by.hand|x")
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("%+v", o)
	}
	command(t, r, "kill-session", "-t", s.rec.Pane)
	if e := exit(t, s); e.Kind != supervisor.Lost || !strings.Contains(e.Err.Error(), "closed") {
		t.Errorf("exit = %v", e)
	}
	start(t, r, sh("app/a", 2, forever))

	// An agent that ignores SIGHUP continues to run, and can be stopped.
	s = start(t, r, sh("app/deaf", 1, "trap '' HUP; echo up; trap 'exit 0' TERM; while :; do sleep 0.05; done"))
	until(t, s, "up")
	command(t, r, "kill-session", "-t", s.rec.Pane)
	if err := s.Write(ctxOf(t), []byte("x")); err == nil {
		t.Error("there is nowhere to write to")
	}
	if o := awaitLife(t, s, runtime.Alive); o.PID != s.rec.Agent.PID {
		t.Errorf("%+v", o)
	}
	if _, err := r.Start(ctxOf(t), sh("app/deaf", 2, forever)); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("start next to it: %v", err)
	}
	s.Stop()
	exit(t, s)
	if o := keep.Observe(); o.Life != runtime.Alive {
		t.Errorf("the other one: %+v", o)
	}
	// A person starts another program in the pane.
	s = start(t, r, sh("app/taken", 1, "exit 2"))
	exit(t, s)
	command(t, r, "respawn-pane", "-t", s.rec.Pane, "sleep 100002")
	if e := exit(t, start(t, r, sh("app/taken", 2, "exit 7"))); code(e) != 7 {
		t.Errorf("exit = %v", e)
	}
}

func TestManySlots(t *testing.T) {
	r := open(t, slotsDir(t))
	const many = 50
	begin := time.Now()
	var wg sync.WaitGroup
	sessions := make([]*session, many)
	for i := range many {
		wg.Go(func() {
			s, err := r.Start(ctxOf(t), sh(fmt.Sprint("app/", i), 1, "echo up; read x; exit "+strconv.Itoa(i)))
			if err != nil {
				t.Error(err)
				return
			}
			sessions[i] = s.(*session)
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	started := time.Since(begin)
	r.Close()
	begin = time.Now()
	r = open(t, r.Dir)
	list, err := r.List(ctxOf(t))
	if err != nil || len(list) != many {
		t.Fatalf("%d listed, %v", len(list), err)
	}
	listed := time.Since(begin)
	for _, o := range list {
		if o.Life != runtime.Alive {
			t.Errorf("listed %+v", o)
		}
		s, err := r.Adopt(ctxOf(t), o.Path)
		if err != nil {
			t.Fatal(err)
		}
		i, _ := strconv.Atoi(strings.TrimPrefix(o.Path, "app/"))
		sessions[i] = s.(*session)
	}
	t.Logf("%d started in %v, listed in %v, adopted in %v", many, started, listed, time.Since(begin))
	for _, s := range sessions {
		wg.Go(func() {
			if err := s.Write(ctxOf(t), []byte("go\n")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, s := range sessions {
		if e := exit(t, s); code(e) != i {
			t.Errorf("exit of %d = %v", i, e)
		}
	}
}

func TestHostileOutput(t *testing.T) {
	r := open(t, slotsDir(t))
	file := filepath.Join(t.TempDir(), "out")
	var b bytes.Buffer
	nasty := "\x1b]0;title\x07\x1b[2J\x1b[999;999H\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\\x1bkname\x1b\\\x1b_x\x1b\\\x1b[?1049h\x1b[?1049l\x1b[6n\x00\xff\xfe\x9b31m#{pid}%H\x1b[?1000h"
	for i := 0; b.Len() < 10<<20; i++ {
		fmt.Fprintf(&b, "%s line %d\n", nasty, i)
	}
	b.WriteString("\x1bc\x18the end\n")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	// The agent ends once all is in the log, because tmux may drop what a process writes right
	// before its end: see docs/logs.md.
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := sh("app/a", 1, "stty -opost -echo; cat '"+file+"'; read x < '"+gate+"'; exit 6")
	l.Log = runtime.Log{MaxSize: 32 << 20}
	s := start(t, r, l)
	until(t, s, "the end")
	if _, err := f.WriteString("x\n"); err != nil {
		t.Fatal(err)
	}
	if e := exit(t, s); code(e) != 6 {
		t.Errorf("exit = %v", e)
	}
	got, err := os.ReadFile(s.slot.logFile())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%d bytes were written, the log has %d others", b.Len(), len(got))
	}
	lines, err := s.Peek(ctxOf(t), 2)
	if err != nil || len(lines) != 2 || lines[1] != "the end" || plaintext.Line(lines[0]) != lines[0] {
		t.Errorf("the last lines: %q, %v", lines, err)
	}
	if name := command(t, r, "list-sessions", "-F", "#{session_name} #{window_name}"); name != s.slot.name+" agent\n" {
		t.Errorf("the agent has given its session another name: %q", name)
	}
}

func TestScreen(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, `printf '\033[?1049h\033[2J\033[5;1Hsecond\033[2;3Hfirst\n'; echo up; `+forever))
	until(t, s, "up")
	lines, err := s.Peek(ctxOf(t), 4)
	if err != nil || !slices.Equal(lines, []string{"  first", "up", "", "second"}) {
		t.Errorf("the screen: %q, %v", lines, err)
	}
}

func TestLargeInput(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "stty raw -echo; echo up; head -c 1000000 | cksum; echo; "+forever))
	until(t, s, "up")
	data := make([]byte, 1_000_000)
	for i := range data {
		data[i] = byte(i)
	}
	cmd := exec.Command("cksum")
	cmd.Stdin = bytes.NewReader(data)
	want, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctxOf(t), data); err != nil {
		t.Fatal(err)
	}
	sum := strings.Fields(string(want))[0]
	if got := until(t, s, sum); !strings.HasPrefix(got, strings.TrimSpace(string(want))) {
		t.Errorf("got %q, want %q", got, want)
	}
	if left := command(t, r, "list-buffers"); left != "" {
		t.Errorf("left in the server: %q", left)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	r := open(t, slotsDir(t))
	l := sh("app/a", 1, "")
	l.Argv = []string{"/usr/bin/env", "-0"}
	l.Env = []string{"B=2", "TERM=dumb", "A=1 ;", runtimetest.Env()}
	s := start(t, r, l)
	exit(t, s)
	b, err := os.ReadFile(s.slot.logFile())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(b), "\x00\n"), "\x00") // the log ends with a newline
	want := []string{"B=2", "A=1 ;", runtimetest.Env(), "TERM=" + paneTerm, s.slot.marker()}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for line := range strings.Lines(command(t, r, "show-environment", "-g")) {
		if strings.HasPrefix(line, "SECRET") {
			t.Errorf("the server has %q", line)
		}
	}
}

func TestStartedDirectly(t *testing.T) {
	r := open(t, slotsDir(t))
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := sh("app/a", 1, "cat; ulimit -n; "+forever)
	l.Stdin, l.Limits.OpenFiles = in, 77
	s := start(t, r, l)
	until(t, s, "from a file")
	until(t, s, "77")
	if p := s.info(ctxOf(t)); p == nil || p.pid != s.Observe().PID {
		t.Errorf("in the pane runs %+v, not agent %d", p, s.Observe().PID)
	}
	// Larger than tmux accepts as a command.
	l = sh("app/b", 1, `echo ${#1} ${#BIG}; `+forever)
	l.Argv = append(l.Argv, "sh", strings.Repeat("x", 100_000))
	l.Env = append(l.Env, "BIG="+strings.Repeat("y", 100_000))
	until(t, start(t, r, l), "100000 100000")
}

// If a daemon dies while it starts an agent, the launcher does not become the agent.
func TestDaemonDiesWhileStarting(t *testing.T) {
	r := open(t, slotsDir(t))
	s, err := r.Get("app/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.MakeDir(s.dir); err != nil {
		t.Fatal(err)
	}
	g, err := s.listenForStart()
	if err != nil {
		t.Fatal(err)
	}
	rec := new(record)
	if err := s.makePane(ctxOf(t), g, rec, sh("app/a", 1, forever), nil); err != nil {
		t.Fatal(err)
	}
	c, err := g.await(ctxOf(t), rec.Agent.PID)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	g.close()
	if err := rec.Agent.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the launcher lives: %v", err)
	}
	if _, err := r.Adopt(ctxOf(t), "app/a"); err == nil {
		t.Error("there is something to adopt")
	}
	start(t, r, sh("app/a", 1, forever))
}

func TestStateDamaged(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 4, "read x; exit 3"))
	file := filepath.Join(s.slot.dir, stateFile)
	for _, content := range []string{"", "{", `{"version":99}`, `{"version":1,"path":"app/b","incarnation":1}`, `{"version":1,"path":"app/a","incarnation":9,"pane":"x; kill-server"}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := r.List(ctxOf(t)); err != nil || len(list) != 1 || list[0].Life != runtime.Unknown {
			t.Errorf("%q: listed %+v, %v", content, list, err)
		}
		a, err := r.Adopt(ctxOf(t), "app/a")
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		if o := a.Observe(); o.Life != runtime.Alive || o.PID != s.rec.Agent.PID || o.Incarnation != 4 {
			t.Errorf("%q: adopted %+v", content, o)
		}
	}
	s.Kill()
	exit(t, s)
	command(t, r, "kill-session", "-t", s.rec.Pane)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := r.Adopt(ctxOf(t), "app/a")
	if err != nil {
		t.Fatal(err)
	}
	if e := exit(t, a); e.Kind != supervisor.Lost {
		t.Errorf("exit = %v", e)
	}
}

func TestKeeperKilled(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, `echo up; while read x; do echo "got $x"; done; exit 3`))
	until(t, s, "up")
	followed := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		follow(ctx, s, 1, func(line string) { followed <- line })
	}()
	defer func() { cancel(); <-over }()
	<-followed
	pid := strings.Fields(command(t, r, "list-panes", "-a", "-F", "#{pane_pipe} #{pane_pid}"))
	if pid[0] != "1" {
		t.Fatalf("%v", pid)
	}
	c, leave, err := s.slot.keeper(ctxOf(t))
	if err != nil {
		t.Fatal(err)
	}
	c.Send(&pane.Message{Type: pane.Quit})
	c.Receive()
	leave()
	for i := 0; ; i++ { // until there is a new one
		if err := s.Write(ctxOf(t), fmt.Appendf(nil, "%d\n", i)); err != nil {
			t.Fatal(err)
		}
		select {
		case line := <-followed:
			if !strings.HasPrefix(plaintext.Line(line), "got ") {
				continue
			}
		case <-time.After(50 * time.Millisecond):
			continue
		}
		break
	}
	s.Write(ctxOf(t), []byte("\x04"))
	if e := exit(t, s); code(e) != 3 {
		t.Errorf("exit = %v", e)
	}
}

func TestReadyAfterAdoption(t *testing.T) {
	dir := slotsDir(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ready  spec.Ready
		script string
	}{
		"log":    {spec.Ready{Log: "^open$"}, "read x < '" + gate + "'; echo open; " + forever},
		"notify": {spec.Ready{Notify: true}, "read x < '" + gate + "'; " + os.Args[0] + " notify; " + forever},
		"exec":   {spec.Ready{Exec: []string{"/bin/sh", "-c", `test -e "$FLAG"`}}, "read x < '" + gate + `'; echo > "$FLAG"; ` + forever},
	} {
		r := open(t, dir)
		l := sh("app/"+name, 1, c.script)
		l.Env = append(l.Env, "FLAG="+filepath.Join(t.TempDir(), "flag"))
		l.Ready = c.ready
		l.Ready.Timeout = testTimeout
		starting := make(chan error, 1)
		go func() { _, err := r.Start(ctxOf(t), l); starting <- err }()
		open1 := make(chan *os.File, 1)
		go func() { f, _ := os.OpenFile(gate, os.O_WRONLY, 0); open1 <- f }()
		f := <-open1 // the agent runs
		r.Close()
		if err := <-starting; err == nil {
			t.Error("ready before it was")
		}
		r = open(t, dir)
		a, err := r.Adopt(ctxOf(t), l.Path)
		if err != nil {
			t.Fatal(err)
		}
		if o := a.Observe(); o.Ready || o.Life != runtime.Alive {
			t.Errorf("%s: %+v", name, o)
		}
		f.WriteString("x\n")
		f.Close()
		if err := a.AwaitReady(ctxOf(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.Close()
		r = open(t, dir)
		if a, err = r.Adopt(ctxOf(t), l.Path); err != nil || !a.Observe().Ready {
			t.Errorf("%s: it is ready, and that was forgotten: %v", name, err)
		}
	}
}

// Time that passes without a daemon is no reason to stop an agent.
func TestReadyTimePassesUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		ready spec.Ready
		want  error
	}{
		"met":     {spec.Ready{Exec: []string{"true"}}, nil},
		"unheard": {spec.Ready{Notify: true}, nil},
		"not met": {spec.Ready{Exec: []string{"false"}}, supervisor.ErrStartTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := slotsDir(t)
			r := open(t, dir)
			l := sh("app/a", 1, forever)
			l.Notify = c.ready.Notify
			s := start(t, r, l)
			r.Close()
			late := *s.rec
			late.Ready, late.Condition, late.StartedAt = false, c.ready, time.Now().Add(-time.Hour)
			if err := late.write(s.slot.dir); err != nil {
				t.Fatal(err)
			}
			r = open(t, dir)
			a, err := r.Adopt(ctxOf(t), "app/a")
			if err != nil {
				t.Fatal(err)
			}
			if err := a.AwaitReady(ctxOf(t)); !errors.Is(err, c.want) {
				t.Errorf("ready: %v, want %v", err, c.want)
			}
		})
	}
}

// Package test runs coppice end to end, as a user does: with real processes, tmux and SQLite.
package test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cli"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/pipeline/worker"
	"github.com/coppice-dev/coppice/internal/project/guard"
	"github.com/coppice-dev/coppice/internal/pullrequest/ghtest"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/internal/sagehost/guest"
)

// raceOptions is the value of GORACE: without it the race detector sleeps for a second at exit.
const raceOptions = "atexit_sleep_ms=0"

// The exit codes of coppice.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitHuman     = 4
	exitAuth      = 77
	exitConfig    = 78
	exitTimeout   = 124
	exitSignalled = 128 // plus the number of the signal
)

// TestMain makes the test binary behave as coppice when it is run under that name.
func TestMain(m *testing.M) {
	if dir := os.Getenv(ghtest.Variable); dir != "" {
		os.Exit(ghtest.Main(dir, os.Args[1:]))
	}
	if cli, ok := fakeagent.Called(os.Args[0]); ok {
		os.Exit(fakeagent.Main(cli, os.Args[1:]))
	}
	// Shims, panes and aidefile runs are started by the path of the executable, not by its name.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(server.MainWith(guest.Open, os.Args[2:]))
		case guard.Arg:
			os.Exit(guard.Main(os.Args[2:]))
		case pane.Arg:
			os.Exit(pane.Main(os.Args[2:]))
		case runner.Arg:
			os.Exit(runner.Main(os.Args[2:]))
		case worker.Arg:
			os.Exit(worker.Main(os.Args[2:]))
		}
	}
	testscript.Main(checkedMain{m}, map[string]func(){
		"coppice": func() {
			os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"coppice-test-say":   func() { runtimetest.Say(os.Args[1:]) },
		"coppice-test-pulse": systemdService,
	})
}

// systemdService is a service that uses only a library for systemd and knows nothing of coppice.
func systemdService() {
	period, err := sd.SdWatchdogEnabled(true)
	if err != nil || period == 0 {
		panic(fmt.Sprint("no watchdog: ", err))
	}
	if ok, err := sd.SdNotify(false, sd.SdNotifyReady+"\nSTATUS=at work"); !ok {
		panic(fmt.Sprint("not ready: ", err))
	}
	for range time.Tick(period / 4) {
		sd.SdNotify(false, sd.SdNotifyWatchdog)
	}
}

type checkedMain struct{ *testing.M }

func (m checkedMain) Run() int {
	os.Unsetenv("NO_COLOR") // the developer may have set it
	os.Setenv("GORACE", raceOptions)
	// Under nohup SIGHUP is ignored, and child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// The process that TestOtherUser runs as another user cannot build anything, and starts no
	// coppice.
	if underRaceDetector() && os.Getenv("CLI_TEST_SOCKETS") == "" {
		return m.runDetecting()
	}
	return m.run()
}

// runDetecting runs the tests with race detectors in child processes. It fails if any process
// reports a race, even if nothing reads its output.
func (m checkedMain) runDetecting() (code int) {
	dir, err := os.MkdirTemp("", "coppice-test")
	if err == nil {
		defer os.RemoveAll(dir)
		bin, reports := filepath.Join(dir, "bin"), filepath.Join(dir, "races")
		err = errors.Join(os.Mkdir(bin, 0o755), os.Mkdir(reports, 0o700), installPlain(bin),
			os.Chmod(dir, 0o711), os.Chmod(reports, 0o777)) // for other users, too
		os.Setenv("GORACE", raceOptions+" log_path="+filepath.Join(reports, "race"))
		defer func() {
			if text := races(reports); text != "" {
				fmt.Fprintln(os.Stderr, text)
				code = 1
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.run()
}

func (m checkedMain) run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// waitTimeout bounds every wait of these tests; only failures take that long.
const waitTimeout = 2 * time.Minute

// agentTOML returns an agent that runs a shell script.
func agentTOML(name, script string, keys ...string) string {
	if !strings.Contains(strings.Join(keys, "\n"), "backoff") {
		keys = append([]string{`backoff = "none"`}, keys...) // most tests must not wait
	}
	return fmt.Sprintf("[[agent]]\nname = %q\ncommand = [\"/bin/sh\", \"-c\", '''\n%s\n''']\n%s\n\n", name, script, strings.Join(keys, "\n"))
}

// project makes a directory with a coppice.toml of a project called "t". When the test ends, no
// process may run in it.
func project(t *testing.T, toml ...string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	projectIn(t, dir, toml...)
	return dir
}

func projectIn(t *testing.T, dir string, toml ...string) {
	t.Helper()
	t.Cleanup(func() {
		for _, p := range processesIn(t, dir) {
			if !t.Failed() {
				p.awaitEnd(t) // killed processes take a moment to end
			}
			p.kill()
		}
	})
	write(t, filepath.Join(dir, "coppice.toml"), "[project]\nname = \"t\"\n\n"+strings.Join(toml, ""))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	exectest.Write(t, path, content)
}

// fifo makes a named pipe for an agent to wait on, and returns a function that releases it.
func fifo(t *testing.T, dir, name string) (release func()) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		// O_RDWR does not block: a test whose agent is gone must not hang.
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(f, "go")
		t.Cleanup(func() { f.Close() })
	}
}

// outputBuffer collects output, and lets a test wait for it.
type outputBuffer struct {
	mu     sync.Mutex
	change chan struct{} // closed and replaced with each write
	buf    bytes.Buffer
}

func newOutputBuffer() *outputBuffer { return &outputBuffer{change: make(chan struct{})} }

func (f *outputBuffer) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.change)
	f.change = make(chan struct{})
	return f.buf.Write(p)
}

func (f *outputBuffer) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.String()
}

// lines returns the complete lines.
func (f *outputBuffer) lines() []string {
	all := strings.Split(f.String(), "\n")
	return all[:len(all)-1]
}

// await waits until done reports true; it is called after each write.
func (f *outputBuffer) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	late := time.After(waitTimeout)
	for {
		f.mu.Lock()
		change := f.change
		f.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-change:
		case <-late:
			t.Fatalf("%s did not come; have:\n%s", what, f)
		}
	}
}

func (f *outputBuffer) awaitText(t *testing.T, text string) {
	t.Helper()
	f.await(t, fmt.Sprintf("%q", text), func() bool { return strings.Contains(f.String(), text) })
}

// childProcess is a process that a test has started.
type childProcess struct {
	*exec.Cmd
	t        *testing.T
	out, err *outputBuffer
	ended    chan struct{}
}

// launch starts coppice in dir.
func launch(t *testing.T, dir string, args ...string) *childProcess {
	t.Helper()
	r := newCoppice(t, args...)
	r.start(dir)
	return r
}

func newCoppice(t *testing.T, args ...string) *childProcess {
	return newChildProcess(t, command(t, args...))
}

func newChildCommand(t *testing.T, name string, args ...string) *childProcess {
	return newChildProcess(t, exec.Command(name, args...))
}

func newChildProcess(t *testing.T, cmd *exec.Cmd) *childProcess {
	r := &childProcess{Cmd: cmd, t: t, out: newOutputBuffer(), err: newOutputBuffer()}
	r.Stdout, r.Stderr = r.out, r.err
	return r
}

func (r *childProcess) start(dir string) {
	r.t.Helper()
	r.Dir = dir
	r.WaitDelay = 5 * time.Second
	if err := r.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func() {
		r.Wait()
		close(r.ended)
	}()
	r.t.Cleanup(func() {
		r.Process.Kill()
		<-r.ended
	})
}

func (r *childProcess) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (r *childProcess) exit() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(waitTimeout):
		r.t.Fatalf("coppice did not end; stdout:\n%s\nstderr:\n%s", r.out, r.err)
	}
	return r.ProcessState.ExitCode()
}

func (r *childProcess) wantExit(code int) {
	r.t.Helper()
	if got := r.exit(); got != code {
		r.t.Fatalf("exit code %d, want %d; stdout:\n%s\nstderr:\n%s", got, code, r.out, r.err)
	}
}

// report is a line of --json.
type report struct {
	Time        time.Time
	Type, Path  string
	Incarnation uint64
	Message     string
	Data        map[string]any
}

func (r report) String() string {
	s := r.Type + " " + strings.TrimPrefix(r.Path, "t/")
	if r.Incarnation > 0 {
		s += fmt.Sprint(" ", r.Incarnation)
	}
	return s
}

// reports parses what coppice run --json has written so far.
func (r *childProcess) reports() []report {
	r.t.Helper()
	var all []report
	for _, line := range r.out.lines() {
		var rep report
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&rep); err != nil {
			r.t.Fatalf("%q is not a line of --json: %v", line, err)
		}
		if rep.Time.IsZero() || rep.Type == "" || rep.Path == "" {
			r.t.Errorf("a report without time, type or path: %s", line)
		}
		all = append(all, rep)
	}
	return all
}

// awaitReport waits for a report; message may be "" for any.
func (r *childProcess) awaitReport(what, message string) report {
	r.t.Helper()
	var found report
	r.out.await(r.t, cmp.Or(message, what), func() bool {
		for _, rep := range r.reports() {
			if rep.String() == what && (message == "" || rep.Message == message) {
				found = rep
				return true
			}
		}
		return false
	})
	return found
}

// nodeClient finds a client in tools/NAME that runs in Node.js, and its modules, which make deps
// installs. In CI they are required.
func nodeClient(t *testing.T, name string) (modules, script string) {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(root, "tools", name, "client.cjs"))
	if err != nil {
		t.Fatal(err)
	}
	return exectest.Packages(t, filepath.Join(root, ".cache", name)), script
}

package ready

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// startReady starts a process and waits until it is ready; otherwise it stops the process.
func startReady(ctx context.Context, cmd proc.Command, out proc.Output, ready Probe) (_ *proc.Process, err error) {
	var on *NotifySocket
	if ready == (Notify{}) {
		if on, err = ListenNotify("", nil); err != nil {
			return nil, err
		}
		ready, cmd.Env = Notify{on}, on.Environ(cmd.Env, 0)
	}
	p, await, err := Begin(cmd, out, ready)
	if err != nil {
		if on != nil {
			on.Close()
		}
		return nil, err
	}
	if on != nil {
		defer func() {
			if err != nil {
				on.Close()
				return
			}
			go func() {
				<-p.Done()
				on.Close()
			}()
		}()
	}
	if err = await(ctx); err != nil {
		if !p.End(proc.DefaultGrace) {
			err = fmt.Errorf("%w; process %d could not be killed", err, p.PID())
		}
		return nil, err
	}
	return p, nil
}

// startChild is startReady with an end to the test.
func startChild(t *testing.T, ctx context.Context, cmd proc.Command, ready Probe) (*proc.Process, lines, error) {
	t.Helper()
	out := newLines()
	p, err := startReady(ctx, cmd, proc.Output{Line: out.add}, ready)
	if err == nil {
		t.Cleanup(func() {
			p.Kill()
			wait(t, "the end", p.Done())
			wait(t, "the end of the output", p.Drained())
		})
	} else if p != nil {
		t.Errorf("a process with the error %v", err)
	}
	return p, out, err
}

func TestLogProbe(t *testing.T) {
	cmd := sh(`echo starting; read x; printf '\033[32mlistening\033[0m on 1\n' >&2; exec sleep 1000`)
	stdin, release := exectest.GatedStdin(t)
	cmd.Stdin = stdin
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, _, err := startChild(t, ctx, cmd, Log{regexp.MustCompile(`^listening on \d`)})
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("ready too early: %v", err)
	case <-time.After(30 * time.Millisecond): // it must not happen, so there is nothing to wait for
	}
	release()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestLogProbeSeesLineOfEndedProcess(t *testing.T) {
	for range 20 {
		p, _, err := startChild(t, testContext(t), sh("echo ready; exit 3"), Log{regexp.MustCompile("ready")})
		if err != nil {
			t.Fatalf("it was ready before it ended, but: %v", err)
		}
		wait(t, "the exit", p.Done())
		if p.Exit().Kind != supervisor.Failure {
			t.Errorf("exit = %v", p.Exit())
		}
	}
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestTCPProbe(t *testing.T) {
	addr := freeAddress(t)
	cmd := helperCommand("serve")
	cmd.Env = append(cmd.Env, serveEnv+"="+addr)
	stdin, release := exectest.GatedStdin(t)
	cmd.Stdin = stdin
	result := make(chan error, 1)
	go func() {
		_, _, err := startChild(t, testContext(t), cmd, TCP{addr})
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("ready without a listener: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	release()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestHTTPProbe(t *testing.T) {
	addr := freeAddress(t)
	cmd := helperCommand("serve")
	cmd.Env = append(cmd.Env, serveEnv+"="+addr)
	_, out, err := startChild(t, testContext(t), cmd, HTTP{"http://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	out.await(t, "request 4") // only the last one is a 2xx
}

func TestExecProbe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready")
	cmd := sh(`read x; echo >"$FILE"; exec sleep 1000`)
	cmd.Env = append(cmd.Env, "FILE="+file)
	stdin, release := exectest.GatedStdin(t)
	cmd.Stdin = stdin
	result := make(chan error, 1)
	go func() {
		_, _, err := startChild(t, testContext(t), cmd, Exec{[]string{"sh", "-c", `test -e "$FILE"`}})
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("ready without the file: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	release()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// Every probe ends with the process and returns how it ended.
func TestEndsBeforeReady(t *testing.T) {
	probes := map[string]Probe{
		"log":    Log{regexp.MustCompile("never")},
		"tcp":    TCP{"127.0.0.1:1"},
		"http":   HTTP{"http://127.0.0.1:1/"},
		"exec":   Exec{[]string{"false"}},
		"notify": Notify{},
	}
	for name, probe := range probes {
		t.Run(name, func(t *testing.T) {
			_, _, err := startChild(t, testContext(t), sh("echo oops >&2; exit 3"), probe)
			var ee *proc.ExitError
			if !errors.Is(err, supervisor.ErrNotReady) || !errors.As(err, &ee) || ee.Code != 3 ||
				strings.Join(ee.LastOutput, "") != "oops" {
				t.Errorf("error = %v", err)
			}
			if _, _, err = startChild(t, testContext(t), sh("exit 0"), probe); !errors.Is(err, supervisor.ErrNotReady) {
				t.Errorf("error after code 0 = %v", err)
			}
		})
	}
}

// Every probe ends with ctx, returns what was wrong, and leaves nothing behind.
func TestStartGivenUp(t *testing.T) {
	cause := errors.New("out of testTimeout")
	slow, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slow.Close() })
	tried := filepath.Join(t.TempDir(), "tried") // a line for each try that is about to fail
	if err := syscall.Mkfifo(tried, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		probe Probe
		says  string
	}{
		"log":       {Log{regexp.MustCompile("never")}, `no line of output matched "never"`},
		"tcp":       {TCP{"127.0.0.1:1"}, "connection refused"},
		"http":      {HTTP{"http://127.0.0.1:1/"}, "connection refused"},
		"http hang": {HTTP{"http://" + slow.Addr().String()}, "no try has completed"},
		"exec":      {Exec{[]string{"sh", "-c", "echo not yet; echo >" + tried + "; exit 1"}}, `exit code 1: "not yet"`},
		"exec hang": {Exec{[]string{"sleep", "1000"}}, "no try has completed"},
		"notify":    {Notify{}, "READY=1 was not sent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(context.Background())
			if name == "exec" { // the second try has begun: the first one has ended
				go func() {
					for range 2 {
						os.ReadFile(tried)
					}
					cancel(cause)
				}()
			} else {
				timer := time.AfterFunc(time.Second, func() { cancel(cause) })
				defer timer.Stop()
			}
			cmd := sh(`trap '' TERM; echo "pid $$"; while :; do sleep 1000; done`)
			cmd.StopSignal = syscall.SIGKILL
			_, out, err := startChild(t, ctx, cmd, tt.probe)
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error = %v, want %v and %q", err, cause, tt.says)
			}
			if pid, _ := strconv.Atoi(out.await(t, "pid ")); syscall.Kill(pid, 0) != syscall.ESRCH {
				t.Errorf("process %d is still there", pid)
			}
		})
	}
}

func TestBeginErrors(t *testing.T) {
	before, _ := filepath.Glob(filepath.Join(os.TempDir(), "coppice-*"))
	for name, probe := range map[string]Probe{"none": nil, "notify": Notify{}, "log": Log{regexp.MustCompile("x")}} {
		cmd := proc.Command{Argv: []string{"/no/such/file"}}
		if _, _, err := startChild(t, testContext(t), cmd, probe); !errors.Is(err, proc.ErrCommand) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
	after, _ := filepath.Glob(filepath.Join(os.TempDir(), "coppice-*"))
	if len(after) > len(before) {
		t.Errorf("left behind: %q", after)
	}
	for _, probe := range []Probe{Log{}, HTTP{"http://a b/"}, HTTP{"\x00"}, Exec{}} {
		if _, _, err := startChild(t, testContext(t), sh("exec sleep 1000"), probe); err == nil {
			t.Errorf("%#v was accepted", probe)
		}
	}
}

package ready

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 101 1 0000000000000000 100 0 0 10 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 102 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 103 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:1F90 0100007F:C351 06 00000000:00000000 03:00001719 00000000     0        0 0 3 0000000000000000
   4: 0100007F 00000000:0000 0A 0 0 0 1000 0 104 1
   5: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 x 1
   6: 00000000000000000000000000000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 105 1
   7: 0000000000000000FFFF00000100007F:1F92 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 106 1
   8: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 107 1`

func TestListeners(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the table is one of a little-endian machine")
	}
	all := parseListeners([]byte(tcpTable))
	const want = "127.0.0.1:8080 101, 0.0.0.0:80 102, [::]:8081 105, 127.0.0.1:8082 106, [::1]:8080 107"
	var shown []string
	for _, l := range all {
		shown = append(shown, fmt.Sprint(l.at.String(), " ", l.inode))
	}
	if got := strings.Join(shown, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for at, want := range map[string]string{
		"127.0.0.1:8080": "[101]", "[::1]:8080": "[107]", "10.0.0.1:8080": "[]",
		"127.0.0.1:80": "[102]", "[::1]:80": "[]",
		"127.0.0.1:8081": "[105]", "[::1]:8081": "[105]", "127.0.0.1:8082": "[106]", "127.0.0.1:8083": "[]",
	} {
		if got := fmt.Sprint(accepting(all, netip.MustParseAddrPort(at))); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

func FuzzListeners(f *testing.F) {
	f.Add([]byte(tcpTable))
	f.Add([]byte("0: :0 a 0A b c d e f 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range parseListeners(b) {
			if !l.at.IsValid() || l.inode == 0 {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// serving starts a process that listens at its own address.
func serving(t *testing.T, env ...string) (address string, pid int) {
	t.Helper()
	cmd := helperCommand("serve")
	cmd.Env = append(append(cmd.Env, serveEnv+"=127.0.0.1:0"), env...)
	p, out := start(t, cmd)
	return out.await(t, "listening "), p.PID()
}

// startedAfter reports whether the kernel knows that one process started after another.
func startedAfter(t *testing.T, pid, other int) bool {
	t.Helper()
	a, err := proc.Identify(pid)
	b, err2 := proc.Identify(other)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return a.Start > b.Start
}

// TestListenerOwner checks the owner of a listener, with real processes and sockets.
func TestListenerOwner(t *testing.T) {
	self := []string{proc.EnvAgent + "=t/a", proc.EnvIncarnation + "=3", proc.EnvSocket + "=/s"}
	before, holder := serving(t)
	cmd := sh(`read x; "$SERVER" </dev/null & exec sleep 1000`)
	stdin, release := exectest.GatedStdin(t)
	cmd.Stdin, cmd.Env = stdin, append(cmd.Env, self...)
	cmd.Env = append(cmd.Env, "SERVER="+os.Args[0], helperEnv+"=serve", serveEnv+"=127.0.0.1:0")
	agent, out := start(t, cmd)
	release()
	child := out.await(t, "listening ")
	later, pid := serving(t)
	for !startedAfter(t, pid, agent.PID()) { // the kernel's start times have a resolution of 10 ms
		later, pid = serving(t)
	}
	escaped, _ := serving(t, self...)
	another, its := serving(t, proc.EnvAgent+"=t/b", proc.EnvIncarnation+"=3", proc.EnvSocket+"=/s")
	earlier, old := serving(t, proc.EnvAgent+"=t/a", proc.EnvIncarnation+"=2", proc.EnvSocket+"=/s")
	heldBy := func(pid int, which string) string {
		return fmt.Sprintf("is held by pid %d (%s), which %s", pid, proc.NameOf(pid), which)
	}
	for name, c := range map[string]struct{ address, want string }{
		"was there before":       {before, heldBy(holder, "is not part of this agent")},
		"descends":               {child, ""},
		"may be started for it":  {later, ""},
		"has left, but names it": {escaped, ""},
		"is another agent's":     {another, heldBy(its, "belongs to agent t/b")},
		"is of a life before":    {earlier, heldBy(old, "belongs to agent t/a")},
		"no listener is left":    {freeAddress(t), ""},
	} {
		at := netip.MustParseAddrPort(c.address)
		want := c.want
		if want != "" {
			want = fmt.Sprintf("port %d %s", at.Port(), want)
		}
		got := ""
		if err := listenerOf(at, agent.PID(), 0); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// A listener that is there after the agent has ended does not belong to the agent.
	ended, _ := start(t, sh("exit 1"))
	<-ended.Done()
	if err := listenerOf(netip.MustParseAddrPort(before), ended.PID(), 0); err == nil {
		t.Errorf("an agent that has ended counts as ready")
	}
	// A process with the mark of an agent belongs to the agent, even if it was there before.
	mark := unix.Rlimit{Cur: uint64(proc.MarkOf(7)), Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(holder, unix.RLIMIT_RTTIME, &mark, nil); err != nil {
		t.Fatal(err)
	}
	if err := listenerOf(netip.MustParseAddrPort(before), agent.PID(), proc.MarkOf(7)); err != nil {
		t.Error(err)
	}
	if err := listenerOf(netip.MustParseAddrPort(before), agent.PID(), proc.MarkOf(8)); err == nil {
		t.Error("the mark of another agent counts")
	}
}

// TestForeignListener checks that a foreign listener at the agent's address does not make the
// agent ready, and is named, also if the agent has ended because of it.
func TestForeignListener(t *testing.T) {
	var requests atomic.Int32
	stdin, release := exectest.GatedStdin(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 3 { // two tries have ended
			release()
		}
	}))
	defer srv.Close()
	pid := os.Getpid()
	held := fmt.Sprintf("is held by pid %d (%s), which is not part of this agent", pid, proc.NameOf(pid))

	cmd := sh("read x; exit 3")
	cmd.Stdin = stdin
	_, _, err := startChild(t, testContext(t), cmd, HTTP{srv.URL})
	var exit *proc.ExitError
	if !errors.Is(err, supervisor.ErrNotReady) || !errors.As(err, &exit) || exit.Code != 3 ||
		!strings.Contains(err.Error(), held) {
		t.Errorf("of one that has ended: %v", err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for range 3 { // the third try begins when the second has ended
			if c, err := l.Accept(); err == nil {
				c.Close()
			}
		}
		cancel()
	})
	_, _, err = startChild(t, ctx, sh("exec sleep 1000"), TCP{l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), held) {
		t.Errorf("of one that lives: %v", err)
	}
	accepted.Wait()
}

// TestListenerOfContainer checks that a listener in another network namespace, whose owner is
// unknown, does not keep an agent from being ready.
func TestListenerOfContainer(t *testing.T) {
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	cmd := sh(`exec unshare -rn "$SERVER" </dev/null`)
	cmd.Env = append(cmd.Env, "SERVER="+os.Args[0], helperEnv+"=serve", serveEnv+"=0.0.0.0:0")
	agent, out := start(t, cmd)
	at := netip.MustParseAddrPort(strings.Replace(out.await(t, "listening "), "[::]", "127.0.0.1", 1))
	if err := listenerOf(at, agent.PID(), 0); err != nil {
		t.Error(err)
	}
}

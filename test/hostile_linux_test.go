package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/status"
)

// sockets returns all sockets of a fleet, by their names below its state.
func (f *fleet) sockets() (all []string) {
	f.t.Helper()
	filepath.WalkDir(filepath.Join(f.dir, ".coppice"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSocket {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// connect connects to a socket, even if its path is too long for an address.
func connect(t *testing.T, path string) (net.Conn, error) {
	t.Helper()
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	c, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err == nil {
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(waitTimeout))
	}
	return c, err
}

// rss returns the resident memory of a process in KiB.
func rss(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kB, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kB
}

// No input on any socket stops a fleet.
func TestGarbageOnAllSockets(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("a", `exec sleep 1000`),
		agentTOML("b", `exec sleep 1001`, `runtime = "tmux"`))
	if _, err := exec.LookPath("tmux"); err != nil {
		f = newFleet(t, agentTOML("a", `exec sleep 1000`))
	}
	f.do("up", "-d")
	before, pid := f.nodes(), f.status().Controller.PID
	sockets := f.sockets()
	if len(sockets) < 2 {
		t.Fatalf("sockets: %v", sockets)
	}
	used := rss(t, pid)
	megabyte := bytes.Repeat([]byte("x"), 1<<20)
	for _, path := range sockets {
		for _, send := range []string{
			"", "\n", "\x00\xff\xfe\x80\n", "GET /v1/sta", "GET /v99/status HTTP/1.1\r\nHost: x\r\n\r\n",
			"HTTP/9.9 banana\r\n\r\n", `{"type":"hel`, `{"type":"hello","v":99}` + "\n", `{"type":"hello","v":1,"id":1}` + "\n" + `{"type":"kill","id":2`,
			strings.Repeat("[", 1<<16) + "\n",
		} {
			c, err := connect(t, path)
			if err != nil {
				t.Fatalf("before %.20q: %v", send, err)
			}
			io.WriteString(c, send) // may fail: the server closes the connection
			c.(*net.UnixConn).CloseWrite()
			c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			io.Copy(io.Discard, c)
			c.Close()
		}
		for _, begin := range []string{"", "GET /v1/status HTTP/1.1\r\nX: ", `{"type":"hello","v":1,"id":1}` + "\n"} {
			c, err := connect(t, path)
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(5 * time.Second))
			io.WriteString(c, begin)
			for range 100 {
				if _, err := c.Write(megabyte); err != nil {
					break
				}
			}
			c.Close()
		}
		if _, err := f.try("ps"); err != nil {
			t.Fatalf("after %s: %v", path, err)
		}
	}
	if now := rss(t, pid); now > used+64<<10 {
		t.Errorf("the daemon had %d KiB and has %d", used, now)
	}
	if after := f.nodes(); !slices.EqualFunc(before, after, func(a, b status.Node) bool {
		return a.PID == b.PID && a.Incarnation == b.Incarnation && a.State == b.State
	}) {
		t.Errorf("before: %+v\nafter: %+v", before, after)
	}
}

func (f *fleet) nodes() (nodes []status.Node) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.do("ps", "--json")), &nodes); err != nil {
		f.t.Fatal(err)
	}
	return nodes
}

// parent returns the parent of a process; that of an agent is its shim.
func parent(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	ppid, err := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[1])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// Silent connections, however many, do not use up what the fleet needs.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1001`, quick, "max_restarts = 100"))
	up := exec.Command("sh", "-c", "ulimit -n 160; exec coppice up -d")
	up.Dir = f.dir
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := f.client()
	agent, daemon := currentNode(t, c, "t/a"), f.status().Controller.PID
	c.Close()
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	var idle []net.Conn
	for range 1000 {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			break // the queue is full
		}
		t.Cleanup(func() { conn.Close() })
		idle = append(idle, conn)
	}
	if len(idle) < 150 {
		t.Fatalf("only %d connections were taken", len(idle))
	}
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", daemon)); err != nil || len(fds) > 120 {
		t.Errorf("the daemon has %d of 160 descriptors, %v", len(fds), err)
	}
	for range 3 { // start another shim, which needs descriptors
		killAndWait(t, parent(t, agent.PID))
		eventually(t, "the successor", func() bool {
			for _, p := range processesIn(t, f.dir) {
				if strings.HasPrefix(p.name, "sleep 1001") && p.pid != agent.PID {
					agent.PID = p.pid
					return true
				}
			}
			return false
		})
	}
	for _, conn := range idle {
		conn.Close()
	}
	eventually(t, "an answer", func() bool { return currentNode(t, c, "t/a").Incarnation == 4 })
	if n := currentNode(t, c, "t/a"); n.PID != agent.PID || n.Restarts != 3 {
		t.Errorf("%+v", n)
	}
}

// Waiting callers are served although idle connections stay open.
func TestIdleConnectionsAreEnded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			break
		}
		t.Cleanup(func() { conn.Close() })
	}
	if out, err := f.try("ps"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// hostile is hostile output of an agent.
const hostile = `printf 'a\033[2J\033]0;title\007\033[31mred\n\233\063\061mC1 \302\233\063\061m\n\342\200\256reversed\n\000\001\010\010back\rover\n\377\376bad\n\033P+q544e\033\\ \033[6n\033]52;c;ZWNobwo=\007clip\n'`

// Control sequences of agents do not reach the terminal of a viewer, except with attach.
func TestHostileFleetOutput(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("a", hostile+`; echo mark; exec sleep 1000`),
		agentTOML("ends", hostile+`; exit 3`, `restart = "on-failure"`, `max_restarts = 1`, `on_limit = "give_up"`, quick),
		agentTOML("unready", hostile+`; exec sleep 1000`, `ready = { log = "never", timeout = "200ms" }`, `max_restarts = 1`, `on_limit = "give_up"`, quick))
	events := launch(t, f.dir, "up") // in the foreground it prints events
	events.out.awaitText(t, "up, process")
	events.out.awaitText(t, "started, agents taken over: 0") // from the first event
	c := f.client()
	for _, path := range []string{"t/ends", "t/unready"} {
		eventually(t, path, func() bool { return currentNode(t, c, path).State == "given_up" })
	}
	eventually(t, "output", func() bool { return strings.Contains(f.do("logs", "t/a"), "mark") })
	for _, args := range [][]string{
		{"logs", "t/a"}, {"logs", "t/ends"}, {"ps"}, {"tree"}, {"events"}, {"status"}, {"explain", "t/ends"}, {"explain", "t/unready"}, {"doctor"},
		{"logs", "--json", "t/a"}, {"ps", "--json"}, {"events", "--json"}, {"explain", "--json", "t/ends"}, {"status", "--json"},
	} {
		out, err := f.try(args...)
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		checkHarmless(t, strings.Join(args, " "), out)
		if slices.Contains(args, "--json") {
			for dec := json.NewDecoder(strings.NewReader(out)); ; {
				var v any
				if err := dec.Decode(&v); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Errorf("%v: %v", args, err)
					break
				}
			}
		}
	}
	log, err := os.ReadFile(filepath.Join(f.dir, ".coppice", "daemon.log"))
	if err == nil {
		checkHarmless(t, "daemon.log", string(log))
	}
	checkHarmless(t, "up", events.out.String())
	checkHarmless(t, "up, errors", events.err.String())
	f.do("down")
	events.wantExit(0)

	t.Run("top", func(t *testing.T) {
		s := newScreen(t, f.dir, 100, 30, "coppice up -d; clear; coppice top")
		s.await("unready")
		s.tmux("send-keys", "Home", "j")
		s.await("mark")
		painted := s.tmux("capture-pane", "-p", "-e")
		if strings.Contains(painted, "\x1b]") || !strings.Contains(painted, "red") {
			t.Errorf("%q", painted)
		}
		if title := s.tmux("display-message", "-p", "#{pane_title}"); strings.Contains(title, "title") {
			t.Errorf("the agent has named the terminal %q", title)
		}
		s.tmux("send-keys", "q")
		s.wantEnd(0)
	})
}

// checkHarmless checks that no part of a text acts on a terminal.
func checkHarmless(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", what, text)
	}
	for line := range strings.Lines(text) {
		if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool {
			return unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 {
			t.Errorf("%s: %q", what, line)
		}
	}
}

// No agent name leads out of the project.
func TestHostileAgentNames(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, name := range []string{
		"../x", "..", ".", "", "a/b", "/etc", `a\u0000b`, `\u001b[2J`, "-rf", " a", `a\nb`, `\u202eabc`,
		strings.Repeat("n", 300), strings.Repeat("日", 30), `\u0085`, `a\u2028b`,
	} {
		dir := filepath.Join(outside, fmt.Sprintf("p%x", name[:min(len(name), 20)]), "q")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		f := fleetIn(t, dir, fmt.Sprintf("[[agent]]\nname = \"%s\"\ncommand = \"sleep 1000\"\n", name))
		out, err := f.try("up", "-d")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitConfig || !strings.Contains(out, "coppice.toml:") {
			t.Errorf("%q: %v: %s", name, err, out)
		}
		checkHarmless(t, name, out)
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*"))
		inside, _ := os.ReadDir(dir)
		if len(found) != 1 || len(inside) != 1 {
			t.Errorf("%q: there are %v and %v", name, found, inside)
		}
	}
	// Strange but valid names have slots of their own, in the right place.
	names := []string{"ünï→日本", "a b", "a%2fb", "$(touch x)", "a;b", "~", "a*", `\"`, "CON", "A", "a", "con.", "%", "..a"}
	var toml []string
	for _, name := range names {
		toml = append(toml, fmt.Sprintf("[[agent]]\nname = \"%s\"\ncommand = [\"sh\", \"-c\", \"echo I am $COPPICE_AGENT; exec sleep 1000\"]\n", name))
	}
	dir := filepath.Join(outside, "good", "q")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f := fleetIn(t, dir, toml...)
	f.do("up", "-d")
	for _, name := range names {
		name = strings.ReplaceAll(name, `\`, "")
		if n := f.node("t/" + name); n.State != "running" {
			t.Errorf("%q: %+v", name, n)
		}
		eventually(t, "the output of "+name, func() bool { return strings.Contains(f.do("logs", "t/"+name), "I am ") })
	}
	slots, _ := filepath.Glob(filepath.Join(dir, ".coppice", "run", "*", "lock"))
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*"))
	inside, _ := os.ReadDir(dir)
	if len(slots) != len(names) || len(found) != 1 || len(inside) != 2 {
		t.Errorf("%d slots of %d agents; %v, %v", len(slots), len(names), found, inside)
	}
}

// Of two daemons started at once one wins, and the other names it, whether the previous one was
// killed or not.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	before := f.node("t/a")
	f.crash()
	for round := range rounds {
		both := []*childProcess{newCoppice(t, "up"), newCoppice(t, "up")}
		for _, s := range both {
			s.Dir = f.dir
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			s.ended = make(chan struct{})
			go func() { s.Wait(); close(s.ended) }()
		}
		var won, lost *childProcess
		select {
		case <-both[0].ended:
			won, lost = both[1], both[0]
		case <-both[1].ended:
			won, lost = both[0], both[1]
		case <-time.After(waitTimeout):
			t.Fatal("both run")
		}
		if want := fmt.Sprintf("a daemon is already running for %s: process %d", f.dir, won.Process.Pid); !strings.Contains(lost.err.String(), want) {
			t.Errorf("round %d: the loser says %q, want %q", round, lost.err, want)
		}
		won.out.awaitText(t, "up, process")
		if round%2 == 0 {
			won.signal(syscall.SIGKILL)
		} else {
			f.do("down", "--keep-agents")
		}
		<-won.ended
	}
	f.do("up", "-d")
	if after := f.node("t/a"); after.PID != before.PID || after.Incarnation != 1 {
		t.Errorf("after: %+v, before: %+v", after, before)
	}
}

// Another user gets no access, even if file modes would allow it.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	before := f.node("t/a")
	exe := filepath.Join(f.dir, "coppice.test")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	write(t, exe, string(data))
	sockets := f.sockets()
	as := func(uid uint32) string {
		cmd := exec.Command(exe, "-test.run=^TestAskAsOtherUser$", "-test.v")
		cmd.Env = append(os.Environ(), "CLI_TEST_SOCKETS="+strings.Join(sockets, ":"))
		cmd.Dir = f.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("as %d: %v: %s", uid, err, out)
		}
		return string(out)
	}
	if out := as(0); strings.Count(out, "answered") != len(sockets) {
		t.Fatalf("the test cannot fail: %s", out)
	}
	for dir := f.dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
	if out := as(65534); strings.Contains(out, "answered") || !strings.Contains(out, "not reached") {
		t.Errorf("by the modes: %s", out)
	}
	for _, s := range sockets {
		os.Chmod(s, 0o666)
		for dir := filepath.Dir(s); dir != f.dir; dir = filepath.Dir(dir) {
			os.Chmod(dir, 0o777)
		}
	}
	if out := as(65534); strings.Contains(out, "answered") || strings.Count(out, "refused") != len(sockets) {
		t.Errorf("by who asks: %s", out)
	}
	if after := f.node("t/a"); after.PID != before.PID {
		t.Errorf("after: %+v, before: %+v", after, before)
	}
}

// TestAskAsOtherUser runs as the other user of TestOtherUser; it does nothing otherwise.
func TestAskAsOtherUser(t *testing.T) {
	sockets := os.Getenv("CLI_TEST_SOCKETS")
	if sockets == "" {
		return
	}
	for _, path := range strings.Split(sockets, ":") {
		c, err := connect(t, path)
		if errors.Is(err, unix.EACCES) {
			t.Logf("%s: not reached: %v", path, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		say := `{"type":"hello","v":1,"id":1}` + "\n"
		if strings.HasSuffix(path, "daemon.sock") {
			say = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"
		}
		io.WriteString(c, say)
		b := make([]byte, 1)
		if n, err := c.Read(b); n > 0 {
			t.Logf("%s: answered", path)
		} else {
			t.Logf("%s: refused: %v", path, err)
		}
	}
}

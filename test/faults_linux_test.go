package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// eventually polls until done, for changes that no event announces, such as those while events
// cannot be written.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTimeout); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// client returns a client that calls the daemon without a process per call.
func (f *fleet) client() *api.Client {
	f.t.Helper()
	c := f.dial()
	f.t.Cleanup(c.Close)
	return c
}

// currentNode returns a node; zero if the daemon does not answer.
func currentNode(t *testing.T, c *api.Client, path string) (n status.Node) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: path})
	if err != nil || len(nodes) == 0 {
		return status.Node{}
	}
	return nodes[0]
}

// crashAgent kills an agent and waits for its successor.
func (f *fleet) crashAgent(c *api.Client, path string) status.Node {
	f.t.Helper()
	before := currentNode(f.t, c, path)
	if before.State != "running" {
		f.t.Fatalf("%s does not run: %+v", path, before)
	}
	exectest.Signal(f.t, before.PID, syscall.SIGKILL)
	var after status.Node
	eventually(f.t, "the successor of "+path, func() bool {
		after = currentNode(f.t, c, path)
		return after.State == "running" && after.Incarnation == before.Incarnation+1 && after.PID > 0
	})
	return after
}

// killAndWait kills a process and waits for its end.
func killAndWait(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p := process{pid, "killed by the test", fd}
	p.kill()
	p.awaitEnd(t)
}

// history reads all events, checks that their numbers have no gaps, and counts them.
func (f *fleet) history() (told map[string]int, all []event.Event) {
	f.t.Helper()
	told = map[string]int{}
	for line := range strings.Lines(f.do("events", "--json")) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			f.t.Fatal(err)
		}
		if want := uint64(len(all) + 1); e.Seq != want {
			f.t.Errorf("event %d is where %d should be", e.Seq, want)
		}
		all = append(all, e)
		told[fmt.Sprintf("%s %s %d", e.Type, e.Path, e.Incarnation)]++
	}
	return told, all
}

// awaitLogged waits until the log has a start.
func (f *fleet) awaitLogged(path string, incarnation uint64) {
	f.t.Helper()
	what := fmt.Sprintf("agent.started %s %d", path, incarnation)
	eventually(f.t, what, func() bool {
		told, _ := f.history()
		return told[what] > 0
	})
}

// checkHistory checks that each incarnation up to last was logged once, and that all but the last
// have ended once.
func checkHistory(t *testing.T, told map[string]int, path string, last uint64) {
	t.Helper()
	for n := uint64(1); n <= last; n++ {
		if got := told[fmt.Sprintf("agent.started %s %d", path, n)]; got != 1 {
			t.Errorf("the start of %s %d was told %d times", path, n, got)
		}
		if got := told[fmt.Sprintf("agent.crashed %s %d", path, n)]; n < last && got != 1 {
			t.Errorf("the end of %s %d was told %d times", path, n, got)
		}
	}
	for what := range told {
		var n uint64
		if _, err := fmt.Sscanf(what, "agent.started "+path+" %d", &n); err == nil && n > last {
			t.Errorf("%s, but the last is %d", what, last)
		}
	}
}

// countProcesses counts the processes of the project whose command line has mark.
func (f *fleet) countProcesses(mark string) (n int) {
	f.t.Helper()
	for _, p := range processesIn(f.t, f.dir) {
		if strings.Contains(p.name, mark) && !strings.Contains(p.name, "coppice") {
			n++
		}
	}
	return n
}

// mountedFleet makes a fleet on a small file system of its own.
func mountedFleet(t *testing.T, size string, toml ...string) *fleet {
	t.Helper()
	return fleetIn(t, mount(t, size), toml...)
}

// mount returns a directory with a small file system of its own.
func mount(t *testing.T, size string) (dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err = unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fillDisk fills a file system, and returns a function that frees the space.
func fillDisk(t *testing.T, dir string) (room func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

const quick = `backoff = { kind = "fixed", base = "10ms" }`

// On a full disk agents keep running and are restarted. Events are written once there is space
// again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	f := mountedFleet(t, "8m",
		agentTOML("steady", `exec sleep 1000`),
		agentTOML("loud", `while :; do echo 0123456789012345678901234567890123456789; sleep 0.01; done`),
		agentTOML("crasher", `exec sleep 1001`, quick, "max_restarts = 100"))
	f.do("up", "-d")
	c := f.client()
	steady := currentNode(t, c, "t/steady")
	f.awaitLogged("t/crasher", f.crashAgent(c, "t/crasher").Incarnation)
	room := fillDisk(t, f.dir)
	for range 4 {
		f.crashAgent(c, "t/crasher")
	}
	eventually(t, "word of the full disk", func() bool { return !f.status().Store.OK })
	if s := f.status(); !strings.Contains(s.Store.Error, "full") {
		t.Errorf("status says of the store: %q", s.Store.Error)
	}
	if out := f.do("status"); !strings.Contains(out, "full") {
		t.Errorf("status does not say that the disk is full:\n%s", out)
	}
	f.do("stop", "t/loud") // commands work too
	f.do("start", "t/loud")
	if got := currentNode(t, c, "t/steady"); got.PID != steady.PID || got.State != "running" {
		t.Errorf("steady: %+v, before: %+v", got, steady)
	}
	room()
	eventually(t, "recovery", func() bool { return f.status().Store.OK })
	last := f.crashAgent(c, "t/crasher")
	f.awaitLogged("t/crasher", last.Incarnation)
	told, _ := f.history()
	checkHistory(t, told, "t/crasher", last.Incarnation)
	for _, want := range []string{"store.degraded  0", "store.recovered  0", "agent.started t/steady 1"} {
		if told[want] != 1 {
			t.Errorf("%s: %d times; there are %v", want, told[want], told)
		}
	}
	if n := f.countProcesses("sleep 1001"); n != 1 {
		t.Errorf("%d copies of the crasher", n)
	}
}

// A daemon that dies on a full disk has a successor, which adopts the agents and starts nothing
// twice.
func TestDiskFullAndKilled(t *testing.T) {
	t.Parallel()
	f := mountedFleet(t, "8m", "[supervision]\npersist = true\n\n",
		agentTOML("steady", `exec sleep 1000`),
		agentTOML("crasher", `exec sleep 1001`, quick, "max_restarts = 100"))
	f.do("up", "-d")
	c := f.client()
	steady := currentNode(t, c, "t/steady")
	f.awaitLogged("t/crasher", 1) // the next daemon can count only what this one has written
	room := fillDisk(t, f.dir)
	for range 3 {
		f.crashAgent(c, "t/crasher")
	}
	f.crash()
	f.up() // the crasher has failed three times
	if got := currentNode(t, c, "t/steady"); got.PID != steady.PID {
		t.Errorf("steady: %+v, before: %+v", got, steady)
	}
	if got := currentNode(t, c, "t/crasher"); got.Incarnation != 4 || got.State != "running" {
		t.Errorf("crasher: %+v", got)
	}
	if n := currentNode(t, c, "t/crasher"); n.Restarts != 3 || n.InWindow != 4 { // a kill does not reset the limit
		t.Errorf("the restarts that could not be written are not counted: %+v", n)
	}
	f.crashAgent(c, "t/crasher")
	room()
	eventually(t, "recovery", func() bool { return f.status().Store.OK })
	last := f.crashAgent(c, "t/crasher")
	f.awaitLogged("t/crasher", last.Incarnation)
	told, _ := f.history()
	// The slot has the exits that were written before the disk was full; the others are reported as dropped.
	for n := 1; n <= 3; n++ {
		known := told[fmt.Sprintf("agent.crashed t/crasher %d", n)] == 1
		for later := n; later <= 3 && !known; later++ {
			known = told[fmt.Sprintf("events.dropped t/crasher %d", later)] == 1
		}
		if !known {
			t.Errorf("no event accounts for the exit of incarnation %d: %v", n, told)
		}
	}
	for n := uint64(4); n <= last.Incarnation; n++ { // the daemon that knew the earlier ones was killed
		if got := told[fmt.Sprintf("agent.started t/crasher %d", n)]; got != 1 {
			t.Errorf("the start of %d was told %d times: %v", n, got, told)
		}
	}
	if n := f.countProcesses("sleep 1001"); n != 1 {
		t.Errorf("%d copies of the crasher", n)
	}
}

// setImmutable makes files that even root cannot write, although they are open.
func setImmutable(t *testing.T, on bool, files ...string) {
	t.Helper()
	const flag = 0x10 // FS_IMMUTABLE_FL
	for _, name := range files {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		now, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		if err == nil {
			next := now | flag
			if !on {
				next = now &^ flag
			}
			err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, next)
		}
		if err != nil && on {
			t.Skipf("files cannot be made immutable here: %v", err)
		} else if err != nil {
			t.Error(err)
		}
	}
}

func TestStoreReadOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("steady", `exec sleep 1000`),
		agentTOML("crasher", `exec sleep 1001`, quick, "max_restarts = 100"))
	f.do("up", "-d")
	c := f.client()
	steady := currentNode(t, c, "t/steady")
	// Not state.db-shm: it is mapped into memory, and the kernel kills a process that writes into
	// the mapping of an immutable file.
	files := []string{".coppice/state.db", ".coppice/state.db-wal"}
	for i := range files {
		files[i] = filepath.Join(f.dir, files[i])
	}
	t.Cleanup(func() { setImmutable(t, false, files...) })
	setImmutable(t, true, files...)
	probe, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err == nil {
		probe.Close()
		t.Skip("immutable files can be written here")
	}
	for range 3 {
		f.crashAgent(c, "t/crasher")
	}
	eventually(t, "word of the read-only store", func() bool { return !f.status().Store.OK })
	if s := f.status(); !strings.Contains(s.Store.Error, "read-only") {
		t.Errorf("status says of the store: %q", s.Store.Error)
	}
	f.do("stop", "t/crasher")
	f.do("start", "t/crasher")
	setImmutable(t, false, files...)
	eventually(t, "recovery", func() bool { return f.status().Store.OK })
	last := f.crashAgent(c, "t/crasher")
	f.awaitLogged("t/crasher", last.Incarnation)
	told, _ := f.history()
	if last.Incarnation != 6 || told["agent.started t/crasher 6"] != 1 || told["agent.crashed t/crasher 3"] != 1 || told["agent.stopped t/crasher 4"] != 1 {
		t.Errorf("the last is %d; %v", last.Incarnation, told)
	}
	if told["store.degraded  0"] != 1 || told["store.recovered  0"] != 1 {
		t.Errorf("no word of it in the log: %v", told)
	}
	if got := currentNode(t, c, "t/steady"); got.PID != steady.PID {
		t.Errorf("steady: %+v, before: %+v", got, steady)
	}
}

// A clock set back by an hour while no daemon runs delays no agent by an hour, although the stored
// times are in the future.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		agentTOML("lives", `exec sleep 1000`, `max_restarts = 2`, `on_limit = "quarantine"`),
		agentTOML("delayed", `[ $COPPICE_INCARNATION -gt 1 ] || exit 1; exec sleep 1001`, `backoff = { kind = "fixed", base = "5s" }`),
		agentTOML("held", `[ $COPPICE_INCARNATION -gt 3 ] || exit 1; exec sleep 1002`, quick, `max_restarts = 2`, `restart_window = "5s"`, `on_limit = "quarantine"`))
	f.up()
	c := f.client()
	lives := currentNode(t, c, "t/lives")
	f.awaitState("t/held", "quarantined")
	f.awaitState("t/delayed", "restarting")
	f.crash()
	db, err := sqlite.Open(t.Context(), filepath.Join(f.dir, ".coppice", "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	records, _, err := db.Snapshot(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	later := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]+"`)
	var ops []store.Op
	for _, r := range records {
		value := later.ReplaceAllFunc(r.Value, func(text []byte) []byte {
			at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(text))
			if err != nil {
				return text
			}
			return at.Add(time.Hour).AppendFormat(nil, `"`+time.RFC3339Nano+`"`)
		})
		if string(value) != string(r.Value) {
			ops = append(ops, store.Op{Kind: store.Put, Key: r.Key, Value: value})
		}
	}
	if len(ops) < 5 {
		t.Errorf("%d of %d records have times", len(ops), len(records))
	}
	if _, err := db.Apply(t.Context(), store.Fence{}, nil, ops); err != nil {
		t.Fatal(err)
	}
	db.Close()
	f.do("up", "-d")
	for _, path := range []string{"t/delayed", "t/held"} {
		if n := currentNode(t, c, path); n.NextAt != nil && time.Until(*n.NextAt) > 5*time.Second {
			t.Errorf("%s is tried again in %v", path, time.Until(*n.NextAt))
		}
		eventually(t, path, func() bool { return currentNode(t, c, path).State == "running" })
	}
	if n := currentNode(t, c, "t/lives"); n.PID != lives.PID || n.State != "running" {
		t.Errorf("lives: %+v, before %+v", n, lives)
	}
	f.crashAgent(c, "t/lives")
	f.history() // ordered by number, whatever their times
}

// A removed socket comes back within seconds, with the same daemon.
func TestDaemonSocketDeleted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	f.do("up", "-d")
	before := f.status()
	node := f.node("t/a")
	if err := os.Remove(filepath.Join(f.dir, ".coppice", "daemon.sock")); err != nil {
		t.Fatal(err)
	}
	if out, err := f.try("up", "-d"); err != nil || !strings.Contains(out, "is already up, process ") {
		t.Errorf("a second daemon: %v: %s", err, out)
	}
	c := f.client()
	eventually(t, "the socket", func() bool { return currentNode(t, c, "t/a").PID == node.PID })
	if after := f.status(); after.Controller.PID != before.Controller.PID {
		t.Errorf("another daemon answers: %+v, before %+v", after, before)
	}
	eventually(t, "word of it in the log", func() bool {
		told, _ := f.history()
		return told["socket.restored  0"] == 1
	})
}

// Removing the state directory under a running fleet loses logs, and nothing else.
func TestStateDirectoryRemoved(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]string{
		"the slot of an agent": "slot", "all slots": "run", "everything": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, agentTOML("a", `trap 'echo hup' HUP; echo up; while :; do echo 1007; sleep 0.1; done`), agentTOML("crasher", `exec sleep 1001`, quick, "max_restarts = 100"))
			f.do("up", "-d")
			c := f.client()
			before := currentNode(t, c, "t/a")
			state := filepath.Join(f.dir, ".coppice")
			dir := filepath.Join(state, removed)
			if removed == "slot" {
				found, _ := filepath.Glob(filepath.Join(state, "run", "*-a"))
				if len(found) != 1 {
					t.Fatal(found)
				}
				dir = found[0]
			}
			if err := os.RemoveAll(dir); err != nil { // the shim may be recreating it already
				t.Log(err)
			}
			f.crashAgent(c, "t/crasher")
			if out, err := f.try("up", "-d"); err != nil || !strings.Contains(out, "is already up, process ") {
				t.Errorf("a second daemon: %v: %s", err, out)
			}
			// It is recreated with the log while the agent runs.
			eventually(t, "output", func() bool {
				out, err := f.try("logs", "-n", "5", "t/a")
				return err == nil && strings.Contains(out, "1007")
			})
			eventually(t, "word of it in the log", func() bool {
				told, _ := f.history()
				return told["slot.restored t/a 1"] >= 1
			})
			if got := currentNode(t, c, "t/a"); got.PID != before.PID || got.Incarnation != 1 {
				t.Errorf("a: %+v, before %+v", got, before)
			}
			if removed == "" {
				eventually(t, "the store", func() bool {
					told, _ := f.history()
					return told["store.restored  0"] == 1 && told["lock.restored  0"] == 1
				})
			}
			last, _ := f.history()
			// The next daemon finds the agent and its state.
			f.crash()
			f.do("up", "-d")
			if told, _ := f.history(); told["agent.started t/a 1"] != 1 || told["slot.restored t/a 1"] != last["slot.restored t/a 1"] {
				t.Errorf("told: %v, before %v", told, last)
			}
			if got := currentNode(t, c, "t/a"); got.PID != before.PID || got.Incarnation != 1 {
				t.Errorf("after another daemon has come: %+v, before %+v", got, before)
			}
		})
	}
}

// A daemon finds agents whose slots were removed while no daemon ran.
func TestSlotsRemovedWithoutDaemon(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]string{"all slots": "run", "everything": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, agentTOML("a", `exec sleep 1000`), agentTOML("b", `exec sleep 1001`))
			f.do("up", "-d")
			c := f.client()
			a, b := currentNode(t, c, "t/a"), currentNode(t, c, "t/b")
			f.crash()
			eventually(t, "the removal", func() bool { // shims check their slots when a daemon has gone
				return os.RemoveAll(filepath.Join(f.dir, ".coppice", removed)) == nil
			})
			f.do("up", "-d")
			if got := currentNode(t, c, "t/a"); got.PID != a.PID {
				t.Errorf("a: %+v, before %+v", got, a)
			}
			if got := currentNode(t, c, "t/b"); got.PID != b.PID {
				t.Errorf("b: %+v, before %+v", got, b)
			}
			if n := f.countProcesses("sleep 100"); n != 2 {
				t.Errorf("%d agents run, want 2", n)
			}
		})
	}
}

// A daemon copes with slot files that a power loss has damaged.
func TestSlotFilesDamaged(t *testing.T) {
	t.Parallel()
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for name, damage := range map[string]func([]byte) []byte{
		"half":    half,
		"version": func(b []byte) []byte { return bytes.Replace(b, []byte(`"version":1`), []byte(`"version":99`), 1) },
		"large":   func(b []byte) []byte { return bytes.Repeat([]byte{'['}, 8<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t,
				agentTOML("lives", `exec sleep 1000`),
				agentTOML("ends", `exec sleep 1001`, quick, "max_restarts = 100"),
				agentTOML("unseen", `exec sleep 1002`, quick, "max_restarts = 100"))
			f.do("up", "-d")
			c := f.client()
			lives, unseen := currentNode(t, c, "t/lives"), currentNode(t, c, "t/unseen")
			f.crashAgent(c, "t/ends")
			f.crash()
			killAndWait(t, unseen.PID)
			for _, file := range []string{"lock", "exit.json"} {
				found, _ := filepath.Glob(filepath.Join(f.dir, ".coppice", "run", "*", file))
				for _, name := range found {
					b, err := os.ReadFile(name)
					if err == nil {
						err = os.WriteFile(name, damage(b), 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			f.up()
			if got := currentNode(t, c, "t/lives"); got.PID != lives.PID || got.State != "running" {
				t.Errorf("lives: %+v, before %+v", got, lives)
			}
			eventually(t, "the restart", func() bool {
				return currentNode(t, c, "t/unseen").Incarnation == 2 && currentNode(t, c, "t/unseen").State == "running"
			})
			if n := f.countProcesses("sleep 100"); n != 3 {
				t.Errorf("%d agents run, want 3", n)
			}
		})
	}
}

// An agent has ended and its next start has failed before the daemon is killed: the next daemon neither reports the end
// again, nor does it use the number of the failed start again.
func TestKilledAfterFailedStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exec sleep 1000", `backoff = "none"`,
		`on_waking = { timeout = "10m", command = `+
			`"case $COPPICE_INCARNATION in 2) exit 4;; 3) test -e go || exec sleep 1001;; esac" }`))
	f.do("up", "-d")
	exectest.Signal(t, f.node("t/a").PID, syscall.SIGKILL)
	f.awaitHistory("agent.start_failed t/a 2")
	f.crash()
	f.touch("go")
	f.up()
	f.awaitHistory("agent.started t/a 3")
	told, _ := f.history()
	for _, what := range []string{"agent.crashed t/a 1", "agent.start_failed t/a 2", "agent.started t/a 3"} {
		if told[what] != 1 {
			t.Errorf("%s: %d times, expected once", what, told[what])
		}
	}
	for _, what := range []string{"agent.adopted t/a 1", "agent.started t/a 2"} {
		if told[what] != 0 {
			t.Errorf("%s: %d times, expected never", what, told[what])
		}
	}
}

// The same with runs, whose numbers begin at 1 again: a run that is killed leaves no exit to be reported twice.
func TestRunKilledAfterFailedStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "echo up; exec sleep 1000", `backoff = "none"`,
		`on_waking = { timeout = "10m", command = `+
			`"case $COPPICE_INCARNATION in 2) exit 4;; 3) exec sleep 1001;; esac" }`))
	first := launch(t, f.dir, "run")
	first.out.awaitText(t, "t/a | up\n")
	f.awaitStates("a running")
	exectest.Signal(t, f.node("t/a").PID, syscall.SIGKILL)
	f.awaitHistory("agent.start_failed t/a 2")
	first.signal(syscall.SIGKILL)
	first.exit()
	second := launch(t, f.dir, "run")
	second.out.awaitText(t, "t/a | up\n")
	var told map[string]int
	eventually(t, "the start of the second run", func() bool {
		told, _ = f.history()
		return told["agent.started t/a 1"] == 2
	})
	for what, want := range map[string]int{
		"agent.crashed t/a 1": 1, "agent.start_failed t/a 2": 1, "agent.started t/a 2": 0, "agent.adopted t/a 1": 0,
	} {
		if told[what] != want {
			t.Errorf("%s: %d times, expected %d", what, told[what], want)
		}
	}
	second.signal(syscall.SIGTERM)
	second.wantExit(143)
}

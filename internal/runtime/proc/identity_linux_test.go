package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const statTail = " S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 8 9 10"

func TestParseStat(t *testing.T) {
	for name, in := range map[string]string{
		"plain":              "42 (sh)" + statTail,
		"blanks and parens":  "42 (a) S 9 (b) c)" + statTail,
		"line end":           "42 (a\nb)" + statTail + "\n",
		"empty name":         "42 ()" + statTail,
		"not UTF-8":          "42 (\xff)" + statTail,
		"looks like a field": "42 () R 7 7 7 (x)" + statTail,
	} {
		st, err := parseStat(in)
		if want := (procStat{state: 'S', parent: 1, group: 42, session: 42, cpu: 11, start: 123456, resident: 9}); err != nil || st != want {
			t.Errorf("%s: %+v, %v; want %+v", name, st, err, want)
		}
	}
	for _, in := range []string{"", "42", ")", "42 (sh)", "42 (sh) S 1 2 3", "42 (sh)" + strings.Replace(statTail, "123456", "x", 1)} {
		if st, err := parseStat(in); err == nil {
			t.Errorf("parseStat(%q) = %+v", in, st)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) S 9 (b) c)" + statTail))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseStat(string(b))
		want, _ := parseStat("42 (sh)" + statTail)
		if st, err := parseStat("42 (" + string(b) + ")" + statTail); st != want || err != nil {
			t.Errorf("a process named %q: %+v, %v", b, st, err)
		}
	})
}

func TestIdentity(t *testing.T) {
	p, out := start(t, sh(`echo ready; exec sleep 1000`))
	out.await(t, "ready")
	id, err := p.Identity()
	if err != nil || id.PID != p.PID() || id.Start == 0 || len(id.Boot) != 36 {
		t.Fatalf("identity = %+v, %v", id, err)
	}
	if o := Observe(id); o != Alive {
		t.Errorf("it is %v, want alive", o)
	}
	for what, other := range map[string]Identity{
		"start time": {id.PID, id.Start - 1, id.Boot},
		"boot":       {id.PID, id.Start, "00000000-0000-0000-0000-000000000000"},
		"pid":        {0, id.Start, id.Boot},
		"negative":   {-id.PID, id.Start, id.Boot},
	} {
		if o := Observe(other); o != Dead {
			t.Errorf("another %s is %v, want dead", what, o)
		}
		if err := other.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal to another %s: %v", what, err)
		}
	}
	if id.Ended() {
		t.Error("a process that runs has ended")
	}
	if err := id.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	exitOf(t, p)
	if o := Observe(id); o != Dead || !id.Ended() {
		t.Errorf("after the end it is %v, ended: %v", o, id.Ended())
	}
	if err := id.Signal(0); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end = %v", err)
	}
	if _, err := p.Identity(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("identity after the end = %v", err)
	}
	if _, err := Identify(id.PID); err == nil {
		t.Error("a process that has ended was identified")
	}
}

// A zombie has ended, although /proc still shows it.
func TestZombieIsDead(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &leader{pid: pid}
	l.await()
	id, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if o := Observe(id); o != Dead || !id.Ended() {
		t.Errorf("a zombie is %v, ended: %v, want dead", o, id.Ended())
	}
	l.reap()
}

func TestDescendants(t *testing.T) {
	p, out := start(t, sh(`sh -c 'sleep 1000 & echo "b $!"; wait' & echo "a $!"; setsid sleep 1000 & echo "c $!"; wait`))
	want := map[string]bool{out.await(t, "a "): true, out.await(t, "b "): true, out.await(t, "c "): true}
	check := func(name string, ids []Identity, err error) {
		t.Helper()
		if err != nil || len(ids) != len(want) {
			t.Fatalf("%s: %v, %v; want %v", name, ids, err, want)
		}
		for _, id := range ids {
			if Observe(id) != Alive {
				t.Errorf("%s: %v is not alive", name, id)
			}
		}
	}
	ids, err := Descendants(p.PID())
	check("Descendants", ids, err)

	all, err := parents() // used if /proc has no lists of children
	if err != nil {
		t.Fatal(err)
	}
	if len(all[p.PID()]) != 2 {
		t.Errorf("children by the full search = %v", all[p.PID()])
	}
}

func TestKin(t *testing.T) {
	// A session leader with a child, with a grandchild whose parent has ended and that has its
	// own group, and with one in its own session.
	script := `sleep 1000.$$ & (setsid sleep 1001.$$ & ) ; bash -c "set -m; sleep 1002.$$ &" ; setsid sleep 1003.$$ & echo up; wait`
	up := make(chan struct{}, 1)
	p, err := Start(Command{Argv: []string{"/bin/bash", "-c", script}, Terminal: &DefaultSize}, Output{Line: func(l Line) {
		if l.Text == "up" {
			up <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-up
	id, err := p.Identity()
	if err != nil {
		t.Fatal(err)
	}
	names := func() map[string]Identity {
		found := make(map[string]Identity)
		for _, k := range Family(id) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", k.PID))
			if args := strings.Split(strings.Trim(string(b), "\x00"), "\x00"); args[0] == "sleep" {
				found[args[1][:4]] = k
			}
		}
		return found
	}
	var found map[string]Identity
	isAll := func() bool { // sleep 1001 is found until its parent has ended
		found = names()
		for _, want := range []string{"1000", "1002", "1003"} {
			if _, ok := found[want]; !ok {
				return false
			}
		}
		return len(found) == 3
	}
	for end := time.Now().Add(10 * time.Second); !isAll() && time.Now().Before(end); {
	}
	for _, want := range []string{"1000", "1002", "1003"} {
		if _, ok := found[want]; !ok {
			t.Errorf("sleep %s is not kin: %v", want, found)
		}
	}
	all, err := readNumbers("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all { // the process that is not found must not stay
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if string(b) == fmt.Sprintf("sleep\x001001.%d\x00", id.PID) {
			stray, _ := Identify(pid)
			defer stray.Signal(syscall.SIGKILL)
		}
	}
	for _, k := range Family(id) {
		k.Signal(syscall.SIGKILL)
	}
	<-p.Done()
	if kin := Family(id); kin != nil {
		t.Errorf("kin of the dead: %v", kin)
	}
}

// endFirstThread ends the first thread of this process, like a C program that calls pthread_exit
// in main.
func endFirstThread() {
	for first := make(chan bool); ; {
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() != os.Getpid() {
				runtime.UnlockOSThread()
				first <- false
				return
			}
			first <- true
			syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
		}()
		if <-first {
			break
		}
	}
	for {
		if st, err := readStat(os.Getpid()); err != nil || st.ended() {
			return
		}
		runtime.Gosched()
	}
}

// A process whose first thread has ended is a zombie in ps, but it is alive.
func TestHeadless(t *testing.T) {
	cmd := sh("")
	cmd.Argv = []string{os.Args[0]}
	cmd.Env = append(os.Environ(), helperEnv+"=headless")
	p, out := start(t, cmd)
	out.await(t, "headless")
	id, err := p.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := readStat(p.PID()); err != nil || !st.ended() {
		t.Fatalf("the first thread is %c, %v", st.state, err)
	}
	if o := Observe(id); o != Alive {
		t.Fatalf("it is %v, want alive", o)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if o := Observe(id); o != Dead {
		t.Errorf("after its end it is %v, want dead", o)
	}
}

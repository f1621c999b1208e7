package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status"
)

// offlineFleet returns a fleet that has run and has state to show.
func offlineFleet(t *testing.T) *fleet {
	f := newFleet(t,
		agentTOML("a", `echo hello; exec sleep 1000`),
		agentTOML("held", `echo held; exec sleep 1000`),
		agentTOML("silent", `exec sleep 1000`),
		agentTOML("asks", `coppice agent ask 'Go on?' --no-wait; coppice agent mail send people -s news -m 'all is well'; exec sleep 1000`),
		"[[agent]]\nname = \"never\"\nsuspended = true\ncommand = \"true\"\n",
		"[[order]]\nname = \"nightly\"\nschedule = \"0 3 * * *\"\nexec = \"true\"\n")
	f.do("up", "-d")
	f.do("belief", "set", "a", "answer=42")
	f.do("task", "add", "sweep the yard")
	f.do("order", "run", "nightly", "--wait")
	f.awaitQuestion(1)
	f.awaitEvent(event.MailSent, "t/asks", 0)
	client := f.dial()
	defer client.Close()
	f.awaitSaid(client, "a", "hello")
	f.awaitSaid(client, "held", "held")
	f.do("stop", "held")
	return f
}

// readsOffline lists the output of each reading command without a daemon.
var readsOffline = map[string]string{
	"ps": "never", "tree": "silent", "events": "agent.started", "logs a": "hello", "logs held": "held", "logs silent": "",
	"explain a": "no daemon is running", "task ls": "sweep the yard", "order ls": "nightly", "order show nightly": "0 3 * * *",
	"order history nightly": "completed", "order next nightly": "in ", "belief get a": "42", "belief ls": "answer",
	"belief export": "answer", "inbox": "Go on?", "mail ls": "news", "mail read m-1": "all is well", "task export": "sweep the yard",
}

func (f *fleet) checkOffline(fate string) {
	f.t.Helper()
	before := f.stateFiles()
	for args, want := range readsOffline {
		out, errs := coppice(f.t, f.dir, 0, strings.Fields(args)...)
		if !strings.Contains(out, want) || !strings.Contains(errs, "no daemon is running here; "+fate) {
			f.t.Errorf("%s: %s\n%s", args, out, errs)
		}
		switch args {
		case "ps", "tree", "order ls", "task ls", "inbox", "mail ls", "belief ls", "events", "order show nightly", "order history nightly", "explain a":
			out, _ := coppice(f.t, f.dir, 0, append(strings.Fields(args), "--json")...)
			for line := range strings.Lines(out) {
				if !json.Valid([]byte(line)) {
					f.t.Errorf("%s --json: %q", args, line)
				}
			}
		}
	}
	out, _ := coppice(f.t, f.dir, 69, "status", "--json")
	var st status.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil || st.Project != "t" || st.Controller.PID != 0 || st.Inbox.Questions != 1 {
		f.t.Errorf("status: %v: %s", err, out)
	}
	for _, args := range []string{"start a", "stop a", "task add x", "answer q-1 yes", "mail archive m-1", "belief set a x=1", "order run nightly", "drain a"} {
		if _, errs := coppice(f.t, f.dir, 69, strings.Fields(args)...); !strings.Contains(errs, "coppice up -d") {
			f.t.Errorf("%s: %s", args, errs)
		}
	}
	for args, want := range map[string]string{"events -f -n 1": ".", "logs -f a": "hello"} {
		out, errs := coppice(f.t, f.dir, 69, strings.Fields(args)...)
		if !strings.Contains(out, want) || !strings.HasSuffix(errs, "coppice: no daemon is running: nothing follows\n") {
			f.t.Errorf("%s: %q, %q", args, out, errs)
		}
	}
	if after := f.stateFiles(); after != before {
		f.t.Errorf("reading has changed the state:\n%s", cmp.Diff(before, after))
	}
}

// stateFiles describes the files of the store and the daemon, without those of slots, whose shims
// run.
func (f *fleet) stateFiles() (all string) {
	f.t.Helper()
	out, err := exec.Command("find", filepath.Join(f.dir, ".coppice"), "-maxdepth", "1", "-type", "f", "-printf", `%P %s %m %T@\n`).CombinedOutput()
	if err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func (f *fleet) states() map[string]string {
	f.t.Helper()
	out, _ := coppice(f.t, f.dir, 0, "ps", "--json")
	var nodes []status.Node
	if err := json.Unmarshal([]byte(out), &nodes); err != nil {
		f.t.Fatal(err)
	}
	states := make(map[string]string)
	for _, n := range nodes {
		states[n.Path] = n.State
	}
	return states
}

func (f *fleet) wantStates(want map[string]string) {
	f.t.Helper()
	got := f.states()
	for path, state := range want {
		if got[path] != state {
			f.t.Errorf("%s is %q, want %q", path, got[path], state)
		}
	}
}

// The state of a daemon can be read without one, and reading does not change it.
func TestOffline(t *testing.T) {
	t.Parallel()
	f := offlineFleet(t)
	f.crash()
	f.checkOffline("the last daemon (process ")
	f.wantStates(map[string]string{"t": "stopped", "t/a": "running", "t/silent": "running", "t/held": "stopped", "t/never": "suspended"})

	// A daemon can start while others read.
	stop := make(chan struct{})
	read := make(chan string, 1)
	go func() {
		defer close(read)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if out, err := f.try("ps"); err != nil && !strings.Contains(out, "start it with") && !strings.Contains(out, "ask again") {
				read <- out
				return
			}
		}
	}()
	for range 5 {
		f.do("up", "-d")
		f.do("down", "--keep-agents")
	}
	close(stop)
	if out := <-read; out != "" {
		t.Errorf("ps while daemons come and go: %s", out)
	}
	f.wantStates(map[string]string{"t/a": "running", "t/held": "stopped"})

	f.do("up", "-d")
	if out := f.do("logs", "held"); !strings.Contains(out, "held") {
		t.Errorf("what the last daemon has seen an agent write: %q", out)
	}
	f.do("down")
	f.checkOffline("the last daemon was stopped on ")
	f.wantStates(map[string]string{"t/a": "stopped", "t/silent": "stopped", "t/held": "stopped"})
}

// State can be read on a read-only file system, and with an invalid file.
func TestOfflineDamage(t *testing.T) {
	t.Parallel()
	f := offlineFleet(t)
	f.crash()
	t.Run("read-only", func(t *testing.T) {
		if err := unix.Mount(f.dir, f.dir, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("nothing can be mounted here: %v", err)
		}
		defer unix.Unmount(f.dir, unix.MNT_DETACH)
		if err := unix.Mount("", f.dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Skipf("nothing can be mounted to be read only: %v", err)
		}
		within := &fleet{t: t, dir: f.dir}
		within.checkOffline("the last daemon (process ")
		within.wantStates(map[string]string{"t/a": "running", "t/held": "stopped"})
	})
	file := filepath.Join(f.dir, "coppice.toml")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "this is no TOML")
	out, errs := coppice(t, f.dir, 0, "ps")
	if !strings.Contains(errs, "coppice.toml:1:6") || !strings.Contains(out, "t/held") || !strings.Contains(out, "running") {
		t.Errorf("ps with a bad file: %s\n%s", out, errs)
	}
	for args, want := range map[string]string{"events": "agent.started", "logs a": "hello", "task ls": "sweep the yard", "belief get a": "42"} {
		if out, _ := coppice(t, f.dir, 0, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s with a bad file: %s", args, out)
		}
	}
	write(t, file, string(good))
	f.do("down")
}

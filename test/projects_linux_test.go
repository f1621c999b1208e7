package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// runningProject is an element of ls --all-projects --json.
type runningProject struct {
	Dir               string `json:"directory"`
	Name              string `json:"project"`
	PID               int
	Since             time.Time
	Answers           bool
	Error             string
	Running           int `json:"agents_running"`
	Agents, Attention int
}

// All projects of a user are listed: running ones, a hanging one, and one with a hostile directory
// name. Files that only resemble a lock are ignored.
func TestAllProjects(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a\x1b[2Jb")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := fleetIn(t, dir, agentTOML("one", "exec sleep 1000"), agentTOML("done", "exit 0", `restart = "never"`), agentTOML("bad", "exit 3", "max_restarts = 1"))
	f.try("up", "-d")
	f.awaitState("t/bad", "quarantined")
	hung := newFleet(t, agentTOML("one", "exec sleep 1000"))
	hung.up()
	hungPID := hung.status().Controller.PID
	fake := filepath.Join(t.TempDir(), ".coppice")
	if err := os.Mkdir(fake, 0o700); err != nil {
		t.Fatal(err)
	}
	forged, err := os.OpenFile(filepath.Join(fake, "controller.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer forged.Close()
	if err := syscall.Flock(int(forged.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := forged.WriteString(`{"pid":1}`); err != nil {
		t.Fatal(err)
	}

	exectest.Signal(t, hungPID, syscall.SIGSTOP)
	resume := sync.OnceFunc(func() { exectest.Signal(t, hungPID, syscall.SIGCONT) }) // it ends later
	defer resume()
	out := f.do("ls", "--all-projects", "--json")
	resume()
	var all []runningProject
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := func(dir string) runningProject {
		i := slices.IndexFunc(all, func(p runningProject) bool { return p.Dir == dir })
		if i < 0 {
			t.Fatalf("%q is not listed: %s", dir, out)
		}
		return all[i]
	}
	got := at(dir)
	if !got.Answers || got.Name != "t" || got.Running != 1 || got.Agents != 3 || got.Attention != 1 || got.Since.IsZero() || got.PID != f.status().Controller.PID {
		t.Errorf("%+v", got)
	}
	if got := at(hung.dir); got.Answers || got.PID != hungPID || got.Error != "not answering" || got.Since.IsZero() {
		t.Errorf("it hangs: %+v", got)
	}
	if slices.ContainsFunc(all, func(p runningProject) bool { return p.Dir == filepath.Dir(fake) }) {
		t.Errorf("a file is taken for the lock of a daemon: %s", out)
	}

	// install prints the steps of the handover to its unit, at the first and later runs.
	config := t.TempDir()
	install := func(dir string, code int) (out, errs string) {
		r := newCoppice(t, "install")
		r.Env = append(os.Environ(), "XDG_CONFIG_HOME="+config)
		r.start(dir)
		r.wantExit(code)
		return r.out.String(), r.err.String()
	}
	if out, _ := install(hung.dir, exitOK); !strings.Contains(out, "wrote ") || !strings.Contains(out, "\n  coppice down --keep-agents\n") {
		t.Errorf("while a daemon runs: %s", out)
	}
	hung.do("down")
	if out, _ := install(hung.dir, exitOK); !strings.Contains(out, " is up to date\n") || strings.Contains(out, "--keep-agents") {
		t.Errorf("for the second time: %s", out)
	}
	if _, errs := install(dir, exitFailure); !strings.Contains(errs, "a systemd unit cannot have") {
		t.Error(errs)
	}
	units, err := filepath.Glob(filepath.Join(config, "systemd", "user", "*"))
	if err != nil || len(units) != 1 {
		t.Fatalf("%v, %v", units, err)
	}
	other := "WorkingDirectory=/elsewhere\n"
	write(t, units[0], other)
	_, errs := install(hung.dir, exitFailure)
	if got, _ := os.ReadFile(units[0]); string(got) != other || !strings.Contains(errs, "another directory") {
		t.Errorf("the unit of another project: %s\n%s", errs, got)
	}

	text := f.do("ls", "--all-projects")
	if strings.Contains(text, "\x1b") || strings.Contains(text, hung.dir+"\n") || !strings.HasPrefix(text, "PID ") {
		t.Errorf("%q", text)
	}
	if _, errs := coppice(t, dir, exitUsage, "ls", "--all-projects", "one"); !strings.Contains(errs, "takes no PATH") {
		t.Error(errs)
	}
}

package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 20 * time.Second

func tree(t *testing.T) *Tree {
	t.Helper()
	tr, err := Find(0)
	if err != nil {
		t.Skip(err)
	}
	return tr
}

// group creates a group that is removed after the test.
func group(t *testing.T, name string) *Group {
	t.Helper()
	g, err := tree(t).Group(fmt.Sprint(Prefix, "test-", os.Getpid(), "-", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	if _, err := g.Prepare(runtime.Limits{}); err != nil {
		t.Fatal(err)
	}
	return g
}

// family starts processes in a group, some of them in a group below it.
func family(t *testing.T, g *Group) {
	t.Helper()
	dir, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("sh", "-c", `
trap "" TERM HUP INT
for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' & done
mkdir "$0/inner"
sh -c 'echo $$ > "$0/inner/cgroup.procs"; setsid env -i sh -c "while :; do sleep 1; done" & ' "$0"
echo ready
wait`, g.Dir())
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Errorf("%q, %v", line, err)
	}
	t.Cleanup(func() {
		g.Kill(context.Background())
		cmd.Wait()
	})
}

func isEmpty(t *testing.T, g *Group) bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.Dir(), "cgroup.events"))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), "populated 0")
}

func TestKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	g := group(t, "kill")
	if err := g.Kill(ctx); err != nil {
		t.Errorf("kill of an empty group: %v", err)
	}
	family(t, g)
	if err := g.Remove(); err == nil {
		t.Error("a group with a running process was removed")
	}
	if isEmpty(t, g) {
		t.Fatal("the group is empty")
	}
	if err := g.Kill(ctx); err != nil || !isEmpty(t, g) {
		t.Errorf("kill: %v", err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
		t.Errorf("of a group that is gone: %v", err)
	}
}

// A process that is started in a group after a kill runs.
func TestStartAfterKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	g := group(t, "again")
	for range 3 {
		if _, err := g.Prepare(runtime.Limits{}); err != nil {
			t.Fatal(err)
		}
		dir, err := g.Open()
		if err != nil {
			t.Fatal(err)
		}
		one, other := exec.Command("true"), exec.Command("sleep", "1000")
		for _, cmd := range []*exec.Cmd{one, other} {
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
			if err := cmd.Start(); err != nil {
				t.Skip(err)
			}
		}
		dir.Close()
		if err := one.Wait(); err != nil {
			t.Errorf("what was started after a kill: %v", err)
		}
		if err := g.Kill(ctx); err != nil {
			t.Error(err)
		}
		other.Wait()
	}
}

// Without cgroup.kill, as before Linux 5.14.
func TestKillEach(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	g := group(t, "each")
	family(t, g)
	events, err := os.Open(filepath.Join(g.Dir(), "cgroup.events"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	if err := g.killEach(ctx, events); err != nil || !isEmpty(t, g) {
		t.Errorf("kill: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(g.Dir(), "cgroup.freeze")); err != nil || string(b) != "0\n" {
		t.Errorf("freeze is %q, %v: nothing could run in it", b, err)
	}
}

func TestKillIsBounded(t *testing.T) {
	g := group(t, "bounded")
	family(t, g)
	events, err := os.Open(filepath.Join(g.Dir(), "cgroup.events"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, errors.ErrUnsupported)
	defer cancel()
	if err := await(ctx, events, func() error { return nil }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("await: %v", err)
	}
}

func TestAt(t *testing.T) {
	g := group(t, "at")
	if again, err := At(g.Dir()); err != nil || again.Dir() != g.Dir() {
		t.Errorf("%v, %v", again, err)
	}
	elsewhere := filepath.Join(t.TempDir(), Prefix+"x")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{elsewhere, g.Dir() + "-missing", filepath.Dir(g.Dir()), "", "/", "\x00"} {
		if _, err := At(dir); err == nil {
			t.Errorf("%q was taken for the group of an agent", dir)
		}
	}
}

// fake creates a directory with the files of a group.
func fake(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Limits are written to the kernel, and only once.
func TestPrepare(t *testing.T) {
	base := t.TempDir()
	g, err := (&Tree{base: base, has: memory | cpu}).Group(Prefix + "x")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := g.Prepare(runtime.Limits{}); err != nil || e != (runtime.Limits{}) {
		t.Errorf("%+v, %v", e, err)
	}
	l := runtime.Limits{Memory: 1 << 30, CPU: 2, Processes: 5}
	if _, err := g.Prepare(l); err == nil {
		t.Error("limits were set that could not be written")
	}
	for _, name := range []string{"memory.max", "cpu.max"} { // an old kernel has no memory.oom.group
		if err := os.WriteFile(filepath.Join(g.Dir(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		e, err := g.Prepare(l)
		if err != nil || e != (runtime.Limits{Memory: 1 << 30, CPU: 2}) {
			t.Errorf("%+v, %v", e, err)
		}
		b, err := os.ReadFile(filepath.Join(g.Dir(), "memory.max"))
		if err != nil || string(b) != "1073741824" { // a second write would make it longer
			t.Errorf("memory.max %q, %v", b, err)
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	g := &Group{dir: fake(t)}
	if n := g.OutOfMemory(); n != 0 {
		t.Error(n)
	}
	text := "low 0\nhigh 0\nmax 17\noom 2\noom_kill 3\noom_group_kill 1\n"
	if err := os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := g.OutOfMemory(); n != 3 {
		t.Error(n)
	}
}

func TestBaseOf(t *testing.T) {
	no := errors.New("no")
	for _, c := range []struct {
		name, own string
		writable  []string
		want      string
	}{
		{"leaf of a delegated unit", "/s/x.service/" + Leaf, []string{"/s/x.service", "/s/x.service/" + Leaf}, "/s/x.service"},
		{"leaf alone", "/s/" + Leaf, []string{"/s/" + Leaf}, "/s/" + Leaf},
		{"delegated without a leaf", "/s/x.service", []string{"/s/x.service"}, "/s/x.service"},
		{"only what is above", "/s/x", []string{"/s"}, ""},
		{"nothing", "/s/x", nil, ""},
	} {
		got, err := baseOf(c.own, func(dir string) error {
			for _, w := range c.writable {
				if w == dir {
					return nil
				}
			}
			return no
		})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// Which controllers are enabled, and how the missing ones are explained.
func TestEnable(t *testing.T) {
	for _, c := range []struct {
		name, offered, subtree string
		missing                []string // words
	}{
		{"nothing is offered", "cpuset io\n", "", []string{"memory, cpu, pids", "does not have the controllers"}},
		{"all are there", "cpuset cpu io memory pids\n", "cpu memory pids\n", nil},
		{"others are", "cpuset\n", "cpu memory pids\n", nil},
		{"no cpu", "memory pids\n", "memory pids", []string{"cpu: "}},
	} {
		tr := &Tree{base: fake(t), own: "elsewhere"}
		for file, text := range map[string]string{"cgroup.controllers": c.offered, "cgroup.subtree_control": c.subtree} {
			if err := os.WriteFile(filepath.Join(tr.base, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tr.read()
		tr.Enable()
		got := tr.Missing()
		if (got == "") != (c.missing == nil) {
			t.Errorf("%s: %q", c.name, got)
		}
		for _, w := range c.missing {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q does not say %q", c.name, got, w)
			}
		}
	}
}

// Predict predicts the result of Enable: doctor reports the same with and without a daemon.
func TestForesee(t *testing.T) {
	for _, c := range []struct {
		name                          string
		offered, subtree, kind, procs string
		missing                       []string // words
		cpu                           bool
	}{
		{"nothing is offered", "cpuset io\n", "", "domain\n", "", []string{"memory, cpu, pids", "does not have the controllers"}, false},
		{"on already", "cpuset cpu io memory pids\n", "cpu memory pids\n", "domain\n", "7\n", nil, true},
		{"will be on", "cpu memory pids\n", "", "domain\n", "", nil, true},
		{"will be on in the root", "cpu memory pids\n", "", "", "1\n7\n", nil, true},
		{"processes in the way", "cpu memory pids\n", "memory\n", "domain\n", "1\n7\n", []string{"cpu, pids", "has processes of its own"}, false},
		{"no cpu", "memory pids\n", "", "domain\n", "", []string{"cpu: "}, false},
	} {
		tr := &Tree{base: fake(t), own: "elsewhere", pid: 7}
		for file, text := range map[string]string{"cgroup.controllers": c.offered, "cgroup.subtree_control": c.subtree, "cgroup.procs": c.procs, "cgroup.type": c.kind} {
			if file == "cgroup.type" && text == "" {
				if err := os.RemoveAll(filepath.Join(tr.base, file)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := os.WriteFile(filepath.Join(tr.base, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tr.read()
		tr.Predict()
		got := tr.Missing()
		if (got == "") != (c.missing == nil) || tr.CPU() != c.cpu {
			t.Errorf("%s: %q, cpu %v", c.name, got, tr.CPU())
		}
		for _, w := range c.missing {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q does not say %q", c.name, got, w)
			}
		}
		if b, err := os.ReadFile(filepath.Join(tr.base, "cgroup.subtree_control")); err != nil || string(b) != c.subtree {
			t.Errorf("%s: it has changed the group: %q, %v", c.name, b, err)
		}
	}
}

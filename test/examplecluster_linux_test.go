package test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/coppice-dev/coppice/internal/cli"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// runCluster starts examples/cluster/run, whose files are in the directory that it returns.
func runCluster(t *testing.T) (r *childProcess, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r = newChildCommand(t, filepath.Join(root, "examples", "cluster", "run"))
	r.Env = append(os.Environ(), "TMPDIR="+dir, "PATH="+etcdDir(t)+":"+os.Getenv("PATH"))
	r.start("")
	return r, dir
}

// wantNothing fails the test if files or processes are left in a directory.
func wantNothing(t *testing.T, dir string) {
	t.Helper()
	for _, p := range processesIn(t, dir) {
		p.awaitEnd(t)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The example shows a takeover, and leaves nothing.
func TestExampleCluster(t *testing.T) {
	t.Parallel()
	r, dir := runCluster(t)
	r.wantExit(0)
	for _, want := range []string{
		`cluster is up: 1 of 1 agent running`,
		`node c stands by, process \d+: the controller is node a`,
		`a +ready, controller +1 +127.*\nb +ready +0 +127.*\nc +ready +0 +127`,
		`(?s)kill -9.*no controller answers.*after 1\d s\n`,
		`(?s)after 1\d s.*\na +lost +0 .*\n[bc] +ready(, controller)? +1 .*` +
			`cluster/worker +agent +running +\d+ +([bc] +)?2 .*start 2 of the worker\n`,
		`(?s)node a stands by, process \d+: the controller is node [bc]\n.*\na +ready +0 `,
		`cluster is down; all agents are stopped\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(r.out.String()) {
			t.Errorf("no %q in:\n%s", want, r.out)
		}
	}
	if r.err.String() != "" {
		t.Errorf("standard error: %s", r.err)
	}
	wantNothing(t, dir)
}

// The example can be interrupted at its worst moment, when no controller answers.
func TestExampleClusterInterrupted(t *testing.T) {
	t.Parallel()
	r, dir := runCluster(t)
	r.out.awaitText(t, "no controller answers")
	r.signal(syscall.SIGTERM)
	r.wantExit(exitSignalled + int(syscall.SIGTERM))
	wantNothing(t, dir)
}

// The commands of compose.yaml exist, and each container has a host name and a volume. Docker is not needed.
func TestExampleCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "examples", "cluster", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Hostname string
			Command  []string
			Volumes  []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for name, s := range file.Services {
		volume, at, _ := strings.Cut(strings.Join(s.Volumes, " "), ":")
		if _, ok := file.Volumes[volume]; !ok || s.Hostname != name || volume != name || len(s.Command) == 0 {
			t.Errorf("%s: %+v", name, s)
			continue
		}
		if s.Command[0] != "coppice" {
			continue
		}
		nodes++
		cmd, rest, err := cli.NewCommand(nil, io.Discard, io.Discard).Find(s.Command[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || at != "/fleet/.coppice" {
			t.Errorf("%s: %v: %+v", name, err, s)
			continue
		}
		url, _ := cmd.Flags().GetString("store")
		l, err := etcd.ParseLocation(url)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, member := range l.Endpoints {
			member, _, _ = strings.Cut(member, ":")
			if c := file.Services[member].Command; len(c) == 0 || !strings.Contains(c[len(c)-1], member+"=http://"+member+":2380") {
				t.Errorf("%s: there is no member %s", name, member)
			}
		}
	}
	if nodes != 3 {
		t.Errorf("%d nodes", nodes)
	}
}

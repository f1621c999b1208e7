package test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status"
)

// otherUser has no name, and only the files that a test gives it.
const otherUser = 61234

// openProject returns a project that another user can reach. Its directory "work" belongs to that
// user, and "bin" has the commands of these tests.
func openProject(t *testing.T) (dir string) {
	t.Helper()
	dir = project(t)
	for d := dir; d != "/"; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err == nil && info.Mode()&0o001 == 0 {
			err = os.Chmod(d, info.Mode().Perm()|0o011)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin", "work", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(dir, "work"), otherUser, -1); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"coppice", "coppice-test-pulse"} {
		if err := copyProgram(exe, filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copyProgram(from, to string) error {
	if os.Link(from, to) == nil {
		return os.Chmod(to, 0o755)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

// guestScript tries what an agent of another user may and may not do, and writes down the answers.
// Then it waits for further requests.
const guestScript = `
try() { name=$1; shift; "$@" > $name.new 2>&1; echo "exit $?" >> $name.new; mv $name.new $name.out; }
try ids sh -c 'echo $(id -u) $(id -g) $(id -G)'
try env env
try me coppice agent env
try belief coppice agent belief set page=1
try ps coppice ps
try stop coppice stop t/plain
try untold env -u COPPICE_TOKEN coppice stop t/plain
try elsewhere sh -c 'cd / && exec env -u COPPICE_TOKEN -u COPPICE_AGENT coppice stop t/plain'
untold='env -u COPPICE_TOKEN -u COPPICE_AGENT'
try orphan sh -c "cd /; (setsid sh -c 'sleep 0.2; $untold coppice stop t/plain > $PWD/left 2>&1; echo exit \$? >> $PWD/left' &)"
try bare env -i PATH="$PATH" coppice stop t/plain
try state ls ../.coppice
setsid sleep 1001 &
while sleep 0.05; do [ ! -e again ] || [ -e again.out ] || try again coppice agent belief set page=2; done
`

// An agent runs as another user with all its processes. It can do what agents can, also with the
// next daemon, and nothing more. Nothing of it outlives it.
func TestUserOfAgent(t *testing.T) {
	if os.Geteuid() != 0 { // only root can do this; see the test below
		t.Skip("only root can start agents as other users")
	}
	t.Parallel()
	dir := openProject(t)
	keys := []string{
		`user = "61234"`, `group = "61235"`, `dir = "work"`,
		fmt.Sprintf(`env = { PATH = "%s/bin:/usr/local/bin:/usr/bin:/bin" }`, dir), `backoff = "none"`,
	}
	with := func(more ...string) []string { return append(keys[:len(keys):len(keys)], more...) }
	id := `echo $(id -u) $(id -g)`
	f := fleetIn(t, dir,
		agentTOML("plain", `exec sleep 1000`),
		agentTOML("guest", guestScript, keys...),
		agentTOML("bound", `echo $(ulimit -n) $(id -u) $(tty) > bound.out; exec sleep 1000`, with(
			`terminal = true`, `limits.open_files = 64`, `no_new_privileges = true`,
			`ready = { exec = ["/bin/sh", "-c", "test $(id -u) = 61234 && test -e bound.out"] }`,
			`on_waking = '''`+id+` > waking.out'''`, `nudge = { command = '''`+id+` > nudge.out''' }`)...),
		agentTOML("pulse", `exec coppice-test-pulse`, with(readyNotify, `watchdog = "1m"`)...),
	)
	f.do("up", "-d")
	n := f.awaitState("t/guest", "running")
	if got := statusField(t, n.PID, "Uid"); got != "61234 61234 61234 61234" || n.User != "61234" {
		t.Errorf("uid %s, %+v", got, n)
	}
	if got := statusField(t, n.PID, "Groups"); got != "" {
		t.Errorf("groups %s", got)
	}
	said := func(name string) string { return f.awaitFile("work/" + name) }
	if got := said("ids.out"); got != "61234 61235 61235\nexit 0\n" {
		t.Errorf("ids: %s", got)
	}
	socket := endpoint.GuestPath(f.socket(), otherUser)
	env := said("env.out")
	for _, kv := range []string{"HOME=/", "USER=61234", "LOGNAME=61234", "COPPICE_SOCKET=" + socket} {
		if !strings.Contains(env, kv+"\n") {
			t.Errorf("the environment has no %s: %s", kv, env)
		}
	}
	if strings.Contains(env, "XDG_RUNTIME_DIR=") {
		t.Errorf("the environment has what is the daemon's: %s", env)
	}
	for _, name := range []string{"me", "belief", "ps"} {
		if got := said(name + ".out"); !strings.HasSuffix(got, "exit 0\n") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, name := range []string{"stop.out", "untold.out", "elsewhere.out", "left"} {
		eventually(t, name, func() bool {
			data, _ := os.ReadFile(filepath.Join(dir, "work", name))
			return strings.Contains(string(data), "exit ")
		})
		if got := said(name); !strings.HasSuffix(got, "exit 77\n") || !strings.Contains(got, "only people can ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, name := range []string{"bare", "state"} {
		got := strings.ToLower(said(name + ".out"))
		if strings.HasSuffix(got, "exit 0\n") || !strings.Contains(got, "permission denied") && !strings.Contains(got, "belongs to user ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Each process of that user is an agent, and no other user gets access.
	for uid, want := range map[uint32]string{otherUser: "only people can ", otherUser + 1: "belongs to user ", 0: ""} {
		cmd := exec.Command(filepath.Join(dir, "bin", "coppice"), "stop", "t/plain")
		cmd.Dir, cmd.Env = "/", []string{"COPPICE_SOCKET=" + socket}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		code := cmd.ProcessState.ExitCode()
		if err == nil || !strings.Contains(string(out), want) || uid == otherUser && code != 77 {
			t.Errorf("as user %d: exit code %d: %s", uid, code, out)
		}
	}
	if n := f.node("t/plain"); n.State != "running" {
		t.Errorf("it was stopped: %+v", n)
	}
	if got := f.belief("t/guest", "page"); !strings.Contains(got, "1") {
		t.Errorf("its belief: %s", got)
	}
	if out := f.do("explain", "guest"); !strings.Contains(out, "as user 61234") {
		t.Errorf("explain: %s", out)
	}

	bound := f.awaitState("t/bound", "running")
	tty := strings.Fields(said("bound.out"))
	if len(tty) != 3 || tty[0] != "64" || tty[1] != "61234" || !strings.HasPrefix(tty[2], "/dev/") {
		t.Errorf("bound: %q", tty)
	}
	if got := statusField(t, bound.PID, "NoNewPrivs"); got != "1" {
		t.Errorf("NoNewPrivs %s", got)
	}
	if got := said("waking.out"); got != "61234 61235\n" {
		t.Errorf("on_waking ran as %s", got)
	}
	f.do("mail", "send", "bound", "-m", "hello")
	eventually(t, "the nudge", func() bool {
		data, _ := os.ReadFile(filepath.Join(dir, "work/nudge.out"))
		return string(data) == "61234 61235\n"
	})
	f.awaitStatus("t/pulse", "at work")

	// The next daemon is reached the same way.
	f.crash()
	f.do("up", "-d")
	if after := f.awaitState("t/guest", "running"); after.PID != n.PID {
		t.Errorf("it was not taken over: %+v", after)
	}
	write(t, filepath.Join(dir, "work/again"), "")
	if got := said("again.out"); got != "exit 0\n" {
		t.Errorf("to the next daemon: %s", got)
	}

	// Neither its end nor that of its shim leaves anything behind.
	for _, p := range processesIn(t, dir) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.Contains(string(line), "shim\x00run\x00t\x00") {
			exectest.Signal(t, p.pid, syscall.SIGKILL)
		}
	}
	f.awaitNode("t/guest", "comes back", func(n status.Node) bool { return n.State == "running" && n.Incarnation == 2 })
	eventually(t, "one of each", func() bool { return f.countProcesses("sleep 1001") == 1 })
	f.do("stop", "guest")
	if left := f.countProcesses("sleep 1001"); left != 0 {
		t.Errorf("%d orphans are left", left)
	}
	if told := f.events(event.AccessDenied, "t/guest"); len(told) == 0 {
		t.Error("what it was refused is no event")
	}
	f.do("down")
	if _, err := os.Stat(filepath.Dir(socket)); err == nil {
		t.Errorf("%s is left", filepath.Dir(socket))
	}
}

// socket returns the socket of the daemon.
func (f *fleet) socket() string {
	f.t.Helper()
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return socket
}

// An impossible user is rejected before anything starts, with the place in the file.
func TestUserRefused(t *testing.T) {
	t.Parallel()
	dir := openProject(t)
	file := filepath.Join(dir, "coppice.toml")
	validate := func(as uint32, toml string) string {
		t.Helper()
		write(t, file, "[[agent]]\nname = \"a\"\n"+toml)
		out := ""
		for _, args := range [][]string{{"validate"}, {"up", "-d"}} {
			cmd := exec.Command(filepath.Join(dir, "bin", "coppice"), args...)
			cmd.Dir = dir
			if as != 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as, Gid: as}}
			}
			text, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 78 {
				t.Errorf("%s: exit code %d: %s", args, cmd.ProcessState.ExitCode(), text)
			}
			out += string(text)
		}
		return out
	}
	const command = "command = \"sleep 1000\"\n"
	mayNot := func(user string, uid int) string {
		return fmt.Sprintf("4:8: user is %q, expected none where coppice may not change the user: "+
			"coppice runs as user %d, and only root", user, uid)
	}
	refused := func(as uint32, toml, want string) {
		t.Helper()
		if out := validate(as, toml); strings.Count(out, "coppice.toml:"+want) != 2 {
			t.Errorf("%s: expected %q twice in %s", toml, want, out)
		}
	}
	refused(0, command+"runtime = \"tmux\"\nuser = \"61234\"\n", "5:8: user in tmux, expected")
	refused(0, command+"stdin = \"mine\"\nuser = \"61234\"\n", "4:9: stdin with user, expected")
	refused(0, command+"env_file = \"mine\"\nuser = \"61234\"\n", "4:12: env_file with user, expected")
	refused(0, command+"group = \"61234\"\n", "4:9: group without user, expected")
	refused(0, "user = \"61234\"\naidefile = \".\"\n", "3:1: user and aidefile, expected")
	if os.Geteuid() != 0 {
		refused(0, command+"user = \"61234\"\n", mayNot("61234", os.Geteuid()))
		return
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(otherUser, command+"user = \"61235\"\n", mayNot("61235", otherUser))
	refused(0, command+"user = \"no-such-user\"\n", `4:8: there is no user "no-such-user", expected`)
	refused(0, command+"user = \"61234\"\ngroup = \"no-such-group\"\n", `5:9: there is no group "no-such-group", expected`)
	refused(0, command+"user = \"root\"\n", `4:8: user is "root", the user that runs coppice itself, expected another one`)
	refused(0, command+"user = \"61234\"\ndir = \"closed\"\n",
		fmt.Sprintf("5:7: user 61234 cannot enter %s/closed (mode 0700 of user 0)", dir))
	write(t, filepath.Join(dir, "mine"), "")
	if err := os.Chmod(filepath.Join(dir, "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	refused(0, "command = \"./mine\"\nuser = \"61234\"\n",
		fmt.Sprintf("3:11: user 61234 cannot execute %s/mine (mode 0700", dir))
}

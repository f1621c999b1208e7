package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/question"
)

// shellTOML returns an agent that runs the scripts of inAgent.
func shellTOML(name string, keys ...string) string {
	return agentTOML(name, fmt.Sprintf(`while :; do
	read -r script < %[1]s.fifo
	/bin/sh "$script" > %[1]s.new 2>&1; echo "exit $?" >> %[1]s.new; mv %[1]s.new "$script.out"
done`, name), keys...)
}

// newShellFleet returns a fleet of such agents, and b, which does nothing.
func newShellFleet(t *testing.T, dir string, keys map[string]string) *fleet {
	t.Helper()
	toml := []string{agentTOML("b", "exec sleep 1000")}
	for name, key := range keys {
		toml = append(toml, shellTOML(name, key))
	}
	f := fleetIn(t, dir, toml...)
	for name := range keys {
		if err := syscall.Mkfifo(filepath.Join(f.dir, name+".fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.do("up", "-d")
	return f
}

// inAgent runs a script in an agent, and returns its output and exit code.
func (f *fleet) inAgent(name, script string) (out string, code int) {
	f.t.Helper()
	file, err := os.CreateTemp(f.dir, "script")
	if err != nil {
		f.t.Fatal(err)
	}
	fmt.Fprintln(file, script)
	file.Close()
	in, err := os.OpenFile(filepath.Join(f.dir, name+".fifo"), os.O_RDWR, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer in.Close()
	fmt.Fprintln(in, file.Name())
	out = f.awaitFile(filepath.Base(file.Name()) + ".out")
	at := strings.LastIndex(out, "exit ")
	fmt.Sscanf(out[at:], "exit %d", &code)
	return out[:at], code
}

// evasions are ways for an agent to run a command without its token. They range from unsetting it
// to a detached process without any variable of the agent.
func evasions(command string) map[string]string {
	bare := `env -i PATH="$PATH" ` + command
	return map[string]string{
		"with its token":         command,
		"without its token":      "env -u COPPICE_TOKEN " + command,
		"with no environment":    bare,
		"in another session":     "setsid -w " + bare,
		"as a wrong incarnation": "env COPPICE_TOKEN=x " + command,
		"as an orphan": `left=$(mktemp -u "$PWD/leftXXXXXX")
( setsid sh -c '` + bare + ` > '$left'.new 2>&1; echo $? >> '$left'.new; mv '$left'.new '$left & )
while [ ! -e $left ]; do sleep 0.02; done
sed '$d' $left; exit $(tail -n 1 $left)`,
	}
}

// denials returns the events about refused requests of agents.
func (f *fleet) denials() (all []event.Event) {
	f.t.Helper()
	for line := range strings.Lines(f.do("events", "--json", "--type", "access.denied")) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// An agent cannot answer its own question or do anything else reserved for people, whatever it does
// to its token, environment and parents.
func TestAgentIsNoPerson(t *testing.T) {
	t.Parallel()
	f := newShellFleet(t, project(t), map[string]string{"a": ""})
	if out, code := f.inAgent("a", "coppice agent ask Really? --no-wait"); code != 0 {
		t.Fatal(out)
	}
	for name, script := range evasions("coppice answer q-1 yes") {
		out, code := f.inAgent("a", script)
		if code != exitAuth || name != "as a wrong incarnation" && !strings.Contains(out, "agent t/a (incarnation 1") {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
	}
	if q, err := question.Get.Call(t.Context(), f.client(), question.ID{ID: "q-1"}); err != nil || q.State != question.Open {
		t.Errorf("%+v, %v", q, err)
	}
	for _, command := range []string{
		"stop b", "start b", "restart b", "suspend b", "resume b", "reset b", "drain b", "suspend", "reload", "patrol", "down",
		"down --keep-agents", "belief set b x=5", "mail send b -m hi", "mail send a -m hi", "task add x", "order run x", "fire b",
	} {
		for _, how := range []string{"", "env -i PATH=$PATH "} {
			if out, code := f.inAgent("a", how+"coppice "+command); code != exitAuth || !strings.Contains(out, "only people can ") {
				t.Errorf("%s%s: exit code %d: %s", how, command, code, out)
			}
		}
	}
	// It may read, and act as itself.
	for _, command := range []string{
		"ps", "status", "tree", "explain b", "events -n 1", "inbox", "logs b", "belief ls b", "task ls", "mail ls",
		"agent env", "agent heartbeat", "agent mail send people -m hi", "agent task add x", "agent belief set x=5",
	} {
		if out, code := f.inAgent("a", "coppice "+command); code != 0 {
			t.Errorf("%s: exit code %d: %s", command, code, out)
		}
	}
	told := f.denials()
	last := make(map[string]time.Time)
	for _, e := range told {
		var data struct {
			PID     int
			Request string
			Times   int
		}
		err := json.Unmarshal(e.Data, &data)
		if err != nil || e.Path != "t/a" || e.Incarnation != 1 || data.PID == 0 || data.Times == 0 {
			t.Errorf("%+v, %s, %v", e, e.Data, err)
		}
		if before, told := last[data.Request]; told && e.Time.Sub(before) < 55*time.Second {
			t.Errorf("%s is told of again after %v", data.Request, e.Time.Sub(before))
		}
		last[data.Request] = e.Time
	}
	for _, request := range []string{"POST /v1/answer", "POST /v1/act", "POST /v1/down"} {
		if last[request].IsZero() {
			t.Errorf("%s is not told of: %v", request, last)
		}
	}
	f.do("answer", "q-1", "yes")
	if n := f.node("t/b"); n.State != "running" || n.Incarnation != 1 {
		t.Errorf("%+v", n)
	}
}

// The same holds for an agent in tmux, for other windows of its server, and for what the server
// runs. Only an orphan without a variable of the agent is not recognized.
func TestAgentInTmuxIsNoPerson(t *testing.T) {
	needTmux(t)
	t.Parallel()
	f := newShellFleet(t, project(t), map[string]string{"a": `runtime = "tmux"`})
	scripts := evasions("coppice stop b")
	scripts["as an orphan"] = strings.Replace(scripts["as an orphan"], "env -i PATH=\"$PATH\"", "env -u COPPICE_TOKEN", 1)
	for _, how := range []string{"run-shell", "new-window -d -n extra"} {
		scripts["by "+how] = fmt.Sprintf(`out=$(mktemp -u "$PWD/leftXXXXXX")
(cd .coppice/tmux && tmux -S tmux %s "cd '$PWD' && { coppice stop b > $out.new 2>&1; echo \$? >> $out.new; mv $out.new $out; }") || exit 99
while [ ! -e $out ]; do sleep 0.02; done
(cd .coppice/tmux && tmux -S tmux kill-window -t extra 2>/dev/null) # its pane would stay, and the server with it
sed '$d' $out; exit $(tail -n 1 $out)`, how)
	}
	for name, script := range scripts {
		out, code := f.inAgent("a", script)
		if code != exitAuth || name != "as a wrong incarnation" && !strings.Contains(out, "t/a") && !strings.Contains(out, "tmux server") {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
	}
	if n := f.node("t/b"); n.State != "running" {
		t.Errorf("%+v", n)
	}
}

// A daemon knows the processes of agents before it has adopted them all, and those of a new
// incarnation from the start.
func TestAgentIsNoPersonAtFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("b", "exec sleep 1000"), agentTOML("a", `while :; do
	env -i PATH="$PATH" coppice suspend b >/dev/null 2>&1
	echo $? >> codes
done`))
	began := time.Now()
	f.do("up", "-d")
	for range 5 {
		f.do("restart", "a")
		f.crash()
		f.do("up", "-d")
	}
	f.do("stop", "a")
	codes := strings.Fields(f.awaitFile("codes"))
	for _, code := range codes {
		if code != "77" && code != "69" && code != "1" {
			t.Errorf("exit code %s", code)
		}
	}
	if n := f.node("t/b"); n.State != "running" {
		t.Errorf("of %d commands of an agent one has stopped %+v", len(codes), n)
	}
	for _, e := range f.denials() {
		if e.Path != "t/a" {
			t.Errorf("%+v", e)
		}
	}
	// Each daemon reports them once a minute.
	if n := len(f.denials()); n == 0 || n > 6+int(time.Since(began)/time.Minute) {
		t.Errorf("%d commands are told of by %d events", len(codes), n)
	}
}

// In a project that an agent runs itself, the agent counts as a person.
func TestAgentWithAProject(t *testing.T) {
	t.Parallel()
	f := newShellFleet(t, project(t), map[string]string{"a": ""})
	inner := filepath.Join(f.dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	projectIn(t, inner, agentTOML("c", "exec sleep 1000"))
	for _, command := range []string{"up -d", "stop c", "start c", "belief set c x=1", "mail send c -m hi", "down"} {
		if out, code := f.inAgent("a", "cd inner && coppice "+command); code != 0 {
			t.Errorf("%s: exit code %d: %s", command, code, out)
		}
	}
	out, code := f.inAgent("a", "cd inner && coppice events --json --type 'controller.*' --type '*_requested' --type belief.changed")
	for _, want := range []event.Type{
		event.ControllerStarted, event.AgentStopRequested, event.AgentStartRequested, event.BeliefChanged, event.ControllerStopped,
	} {
		if code != 0 || strings.Count(out, `"`+string(want)+`"`) != 1 {
			t.Errorf("exit code %d, %s is not there once:\n%s", code, want, out)
		}
	}
	if out, code := f.inAgent("a", "cd inner && coppice down --file ../coppice.toml"); code != exitAuth {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// Without a daemon, commands themselves refuse to let an agent stop the fleet, or start a daemon
// that would end with the agent.
func TestAgentWithoutADaemon(t *testing.T) {
	t.Parallel()
	f := newShellFleet(t, project(t), map[string]string{"a": ""})
	f.crash()
	for _, command := range []string{"down", "doctor --fix", "up", "up -d", "run"} {
		if out, code := f.inAgent("a", "coppice "+command); code != exitAuth || !strings.Contains(out, "t/a") {
			t.Errorf("%s: exit code %d: %s", command, code, out)
		}
	}
	f.do("up", "-d")
	if n := f.node("t/b"); n.State != "running" || n.Incarnation != 1 {
		t.Errorf("%+v", n)
	}
}

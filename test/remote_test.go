package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

// daemonOf serves a fleet as the daemon of a new project, and returns its directory.
func daemonOf(t *testing.T, f *statustest.Fleet) (dir string, stop func()) {
	t.Helper()
	dir = project(t)
	return dir, serveFor(t, dir, f)
}

// serveFor serves a fleet as the daemon of a project until the test ends.
func serveFor(t *testing.T, dir string, f *statustest.Fleet) (stop func()) {
	t.Helper()
	socket, err := endpoint.Path(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := endpoint.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := api.NewServer(f, slog.New(slog.DiscardHandler))
	f.Register(s)
	go func() { ended <- s.Serve(ctx, l) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// coppice runs a command to its end.
func coppice(t *testing.T, dir string, code int, args ...string) (out, err string) {
	t.Helper()
	r := launch(t, dir, args...)
	r.wantExit(code)
	return r.out.String(), r.err.String()
}

// wantSameText compares text line by line, ignoring the width of columns.
func wantSameText(t *testing.T, what, got string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("%s (-want +got):\n%s\n%s", what, d, got)
	}
}

func TestPs(t *testing.T) {
	t.Parallel()
	dir, _ := daemonOf(t, statustest.Sample())
	out, _ := coppice(t, dir, 0, "ps")
	wantSameText(t, "ps", strings.ReplaceAll(out, "1h00m", "T"),
		"PATH KIND STATE PID INC STARTS UPTIME NEXT REASON",
		"app supervisor running - - 2/5 restarts in 1m T -",
		"app/back supervisor running - 1 - T -",
		"app/back/db agent running 4711 3 1/10 in a row T -",
		"app/back/web agent restarting - 7 4/10 in 1h - T it always restarts (exit code 7)",
		"app/worker agent given up - 11 shared - - limit reached, given up until reset (exit code 1)",
		"app/red agent stopped - - - - - stopped on request")
	if lines := strings.Split(out, "\n"); strings.Index(lines[0], "STATE") != strings.Index(lines[4], "restarting") {
		t.Errorf("not aligned:\n%s", out)
	}
	out, _ = coppice(t, dir, 0, "ps", "back/db")
	if strings.Count(out, "\n") != 2 || !strings.Contains(out, "app/back/db") {
		t.Error(out)
	}
	var nodes []status.Node
	out, _ = coppice(t, dir, 0, "ps", "--json")
	if err := json.Unmarshal([]byte(out), &nodes); err != nil || len(nodes) != 6 || nodes[2].PID != 4711 {
		t.Errorf("%v: %s", err, out)
	}
	empty, _ := daemonOf(t, statustest.New())
	if out, _ = coppice(t, empty, 0, "ps", "--json"); out != "[]\n" {
		t.Errorf("nothing is %q", out)
	}
	if out, _ = coppice(t, empty, 0, "ps"); strings.Count(out, "\n") != 1 {
		t.Errorf("nothing is %q", out)
	}
}

func TestTreeCommand(t *testing.T) {
	t.Parallel()
	dir, _ := daemonOf(t, statustest.Sample())
	out, _ := coppice(t, dir, 0, "tree")
	wantSameText(t, "tree", strings.ReplaceAll(out, "1h00m", "T"),
		"NAME STATE INC STARTS UPTIME NEXT REASON",
		"app (one_for_one) running - 2/5 restarts in 1m T -",
		"├─ back (rest_for_one) running 1 - T -",
		"│ ├─ db running 3 1/10 in a row T -",
		"│ └─ web restarting 7 4/10 in 1h - T it always restarts (exit code 7)",
		"├─ worker given up 11 shared - - limit reached, given up until reset (exit code 1)",
		"└─ red stopped - - - - stopped on request")
	out, _ = coppice(t, dir, 0, "tree", "app/back")
	wantSameText(t, "a part", strings.ReplaceAll(out, "1h00m", "T"),
		"NAME STATE INC STARTS UPTIME NEXT REASON",
		"app/back (rest_for_one) running 1 - T -",
		"├─ db running 3 1/10 in a row T -",
		"└─ web restarting 7 4/10 in 1h - T it always restarts (exit code 7)")
}

func TestStatusCommand(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	dir, _ := daemonOf(t, f)
	out, _ := coppice(t, dir, 0, "status")
	wantSameText(t, "status", strings.ReplaceAll(out, fmt.Sprint(os.Getpid()), "P"),
		"project app",
		"daemon pid P on n1, version v1.2.3, up 1h00m",
		"agents 4: 1 given up, 1 restarting, 1 running, 1 stopped",
		"store sqlite /p/store.db",
		"config /p/coppice.toml, revision 0123456789ab, loaded 1h00m ago")
	st, _ := f.Status(t.Context())
	st.Store.OK, st.Store.Error = false, "disk full"
	st.Config.LastError = "coppice.toml:1:1: oops\ncoppice.toml:2:1: oops again"
	st.Attention = []status.Attention{{Path: "/p/coppice.toml", State: "rejected", Reason: "coppice.toml:1:1: oops", Command: "coppice validate"}}
	f.SetStatus(st)
	out, _ = coppice(t, dir, 0, "status")
	for _, want := range []string{
		"store.db takes no writes: disk full",
		"needs    /p/coppice.toml rejected: coppice.toml:1:1: oops\n           coppice.toml:2:1: oops again\n           -> coppice validate\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "oops again"); n != 1 {
		t.Errorf("a fault is named %d times:\n%s", n, out)
	}
	out, _ = coppice(t, dir, 0, "status", "--json")
	var got status.Status
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(st, got); d != "" {
		t.Error(d)
	}
}

func TestExplainCommand(t *testing.T) {
	t.Parallel()
	dir, _ := daemonOf(t, statustest.Sample())
	out, _ := coppice(t, dir, 0, "explain", "back/web")
	for _, want := range []string{
		"app/back/web has been restarting for 1m3", "agent, in proc, on n1, incarnation 7, 4/10 starts in 1h, then quarantine\n",
		"why    it always restarts", "facts  exit code 7 after 2 s\n       4 restarts in the last minute",
		"next   it is started again in 1h (at ", "do     at once: coppice start back/web\n",
		"Last events\n", "agent.crashed#7 exit code 7\n", "Last output\n  | last words\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = coppice(t, dir, 0, "explain", "back/web", "--json")
	var x status.Explanation
	if err := json.Unmarshal([]byte(out), &x); err != nil || x.Evidence[0] != "exit code 7 after 2 s" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestActCommands(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	f.OnAct = func(_ context.Context, path string, action control.Action) error {
		if action == control.Start && path == "worker" {
			return fmt.Errorf("app/worker: %w: it runs", api.ErrConflict)
		}
		return nil
	}
	dir, stop := daemonOf(t, f)
	for action, done := range map[string]string{"start": "started", "stop": "stopped", "restart": "restarted", "reset": "reset", "suspend": "suspended", "resume": "resumed"} {
		out, _ := coppice(t, dir, 0, action, "back/db", "app/back")
		if want := fmt.Sprintf("back/db %s\napp/back %s\n", done, done); out != want {
			t.Errorf("%s: %q", action, out)
		}
	}
	// A failure does not prevent the others.
	out, errs := coppice(t, dir, 3, "stop", "none", "back/db")
	if out != "back/db stopped\n" || errs != "coppice: none: no such node\n" {
		t.Errorf("%q, %q", out, errs)
	}
	if _, errs = coppice(t, dir, 1, "start", "worker"); errs != "coppice: app/worker: not possible now: it runs\n" {
		t.Error(errs)
	}
	stop()
	if _, errs = coppice(t, dir, 69, "stop", "back/db"); !strings.Contains(errs, "coppice up") {
		t.Error(errs)
	}
}

// Each command has the right exit code, and an error with a remedy.
func TestRemoteErrors(t *testing.T) {
	t.Parallel()
	dir, _ := daemonOf(t, statustest.Sample())
	lonely := project(t, agentTOML("a", "exec sleep 1000"))
	nowhere := t.TempDir()
	for _, test := range []struct {
		dir, args string
		code      int
		want      string
	}{
		{lonely, "logs a", 1, "a has not been started yet"},
		{lonely, "logs -f a", 1, "no daemon is running"},
		{lonely, "events", 0, "no daemon is running"},
		{lonely, "events -f", 69, "nothing follows"},
		{lonely, "explain none", 3, "no daemon is running"},
		{lonely, "top", 2, "needs a terminal"},
		{lonely, "mail send a -m b", 69, "coppice up"},
		{lonely, "task add a", 69, "coppice up"},
		{lonely, "belief set a b=1", 69, "coppice up"},
		{lonely, "attach --watch a", 69, "no daemon is running"},
		{nowhere, "ps", 78, "coppice init"},
		{nowhere, "status -f " + nowhere + "/none.toml", 78, "none.toml: no such file"},
		{nowhere, "stop -f none/none.toml a", 78, "none.toml: no such file"},
		{dir, "ps none", 3, "none: no such node"},
		{dir, "tree none", 3, "none: no such node"},
		{dir, "logs none", 3, "none: no such node"},
		{dir, "explain none", 3, "none: no such node"},
		{dir, "attach --watch none", 3, "none: no such node"},
		{dir, "attach --watch back", 2, "takes an agent"},
		{dir, "attach back/db", 2, "not a terminal"},
		{dir, "attach worker", 1, "app/worker has no terminal; give it one with terminal = true"},
		{dir, "top", 2, "needs a terminal"},
		{dir, "stop", 2, "missing"},
		{dir, "logs back/db none", 3, "none: no such node"},
		{dir, "logs --since soon", 2, "--since is \"soon\", expected how long ago, such as 10m"},
		{dir, "logs --grep a(b", 2, "--grep: \"a(b\": column 1: missing closing )"},
		{dir, "logs -n -1 back/db", 2, "from 0 up"},
		{dir, "logs -n x back/db", 2, `--lines is invalid: "x", expected a whole number`},
		{dir, "ps --json=perhaps", 2, `expected true or false`},
		{dir, "events --type [", 2, "--type"},
		{dir, "events --after -1", 2, "invalid"},
		{dir, "events extra", 2, "--path PATH"},
		{dir, "status extra", 2, "-f FILE"},
		{dir, "ps " + strings.Repeat("x", 2000), 2, "at most 1024"},
		{nowhere, "ps -f " + dir + "/coppice.toml none", 3, "none: no such node"},
	} {
		out, err := coppice(t, test.dir, test.code, strings.Fields(test.args)...)
		if out != "" || !strings.HasPrefix(err, "coppice: ") || !strings.Contains(err, test.want) {
			t.Errorf("%s: %q, %q, want %q", test.args, out, err, test.want)
		}
	}
}

func TestLogsCommand(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	dir, _ := daemonOf(t, f)
	for i := range 150 {
		f.Print("app/back/db", fmt.Sprintf("line %d \x1b[31mred\x1b[0m", i))
	}
	out, _ := coppice(t, dir, 0, "logs", "back/db")
	if !strings.HasPrefix(out, "line 50 red\n") || strings.Count(out, "\n") != 100 {
		t.Error(out)
	}
	if out, _ = coppice(t, dir, 0, "logs", "-n", "2", "--json", "back/db"); out != "{\"path\":\"app/back/db\",\"line\":\"line 148 \\u001b[31mred\\u001b[0m\"}\n{\"path\":\"app/back/db\",\"line\":\"line 149 \\u001b[31mred\\u001b[0m\"}\n" {
		t.Errorf("%q", out)
	}
	if out, _ = coppice(t, dir, 0, "logs", "worker"); out != "" {
		t.Errorf("%q", out)
	}
	f.Print("app/worker", "dig")
	out, _ = coppice(t, dir, 0, "logs", "-n", "1")
	wantSameText(t, "all agents", out, "app/back/db | line 149 red", "app/worker | dig")
	r := launch(t, dir, "logs", "-f", "-n", "1", "back/db")
	r.out.awaitText(t, "line 149 red\n")
	f.Print("app/back/db", "one more")
	r.out.awaitText(t, "one more\n")
	r.signal(syscall.SIGINT)
	r.wantExit(130)
	if r.err.String() != "" {
		t.Error(r.err)
	}
}

func TestEventsCommand(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	dir, stop := daemonOf(t, f)
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.Local)
	f.Publish(event.Event{Time: at, Type: event.AgentStarted, Path: "app/back/db", Incarnation: 3, Message: "up\nand \x1b[31mred"})
	f.Publish(event.Event{Time: at, Type: event.AgentCrashed, Path: "app/worker", Actor: "patrol"})
	out, _ := coppice(t, dir, 0, "events")
	wantSameText(t, "events", out,
		"1 2020-01-02 03:04:05 agent.started app/back/db#3 up and red",
		"2 2020-01-02 03:04:05 agent.crashed app/worker (by patrol)")
	for args, want := range map[string]string{
		"--after 1": "2", "--path app/back": "1", "--type agent.cr*": "2", "--type order.* --type agent.started": "1", "--after 2": "",
	} {
		out, _ := coppice(t, dir, 0, append([]string{"events", "--json"}, strings.Fields(args)...)...)
		var e event.Event
		if err := json.Unmarshal([]byte(out), &e); (err != nil || fmt.Sprint(e.Seq) != want || strings.Count(out, "\n") != 1) && out != want {
			t.Errorf("%s: %s, want %s", args, out, want)
		}
	}
	// It continues across the end of one daemon and the start of another.
	r := launch(t, dir, "events", "-f", "--json")
	r.out.await(t, "both", func() bool { return len(r.out.lines()) == 2 })
	f.Publish(event.Event{Time: at, Type: "a.b"})
	r.out.awaitText(t, `"type":"a.b"`)
	stop()
	r.wantExit(69)
	if got := r.err.String(); got != "coppice: daemon is stopping\n" || len(r.out.lines()) != 3 {
		t.Errorf("%q", got)
	}
}

func TestDownCommand(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		f := statustest.Sample()
		down := make(chan bool, 1)
		f.OnDown = func(keep bool) error { down <- keep; return nil }
		dir, stop := daemonOf(t, f)
		args, want := []string{"down"}, "app is down; all agents are stopped\n"
		if keep {
			args, want = append(args, "--keep-agents"), "app is down; the agents go on\n"
		}
		// The daemon is this process, which does not end, so claim another pid.
		st, _ := f.Status(t.Context())
		st.Controller.PID = 0
		f.SetStatus(st)
		r := launch(t, dir, args...)
		if got := <-down; got != keep {
			t.Errorf("keep: %v", got)
		}
		select {
		case <-r.ended:
			t.Error("it did not wait")
		default:
		}
		stop()
		r.wantExit(0)
		if got := r.out.String(); got != want {
			t.Errorf("%q", got)
		}
	}
	f := statustest.Sample()
	f.SetError(errors.New("no"))
	dir, _ := daemonOf(t, f)
	if _, err := coppice(t, dir, 1, "down"); err != "coppice: no\n" {
		t.Error(err)
	}
}

// Shells complete the paths of running nodes.
func TestCompletePaths(t *testing.T) {
	t.Parallel()
	dir, stop := daemonOf(t, statustest.Sample())
	const all = "back\trunning\nback/db\trunning\nback/web\trestarting\nworker\tgiven up\n"
	for args, want := range map[string]string{
		"stop ": all, "logs ": all, "explain ": all, "attach ": all, "ps ": all,
		"stop back/db ": strings.Replace(all, "back/db\trunning\n", "", 1), "logs back/db ": strings.Replace(all, "back/db\trunning\n", "", 1), "events --path ": all, "status ": "",
	} {
		out, _ := coppice(t, dir, 0, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if got, _, _ := strings.Cut(out, ":4\n"); got != want {
			t.Errorf("%s: %q, want %q", args, out, want)
		}
	}
	stop()
	if out, _ := coppice(t, dir, 0, "__complete", "stop", ""); !strings.HasPrefix(out, ":4\n") {
		t.Errorf("without a daemon: %q", out)
	}
}

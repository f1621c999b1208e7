package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// screen is a terminal: a pane of its own tmux server.
type screen struct {
	t      *testing.T
	dir    string
	socket string
}

// newScreen runs a shell command in dir on a terminal. Afterwards the files rc, before and after in
// dir have its exit code and the output of stty -a.
func newScreen(t *testing.T, dir string, columns, rows int, command string) *screen {
	t.Helper()
	exectest.Need(t, "tmux")
	// Not in dir, whose path may be too long for a socket.
	socket, err := os.MkdirTemp("", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, dir: dir, socket: filepath.Join(socket, "s")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", s.text())
		}
		s.tmux("kill-server")
		os.RemoveAll(socket)
	})
	s.tmux("start-server", ";", "set", "-g", "status", "off", ";", "set", "-g", "remain-on-exit", "on", ";",
		"new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "-c", dir,
		// A late Ctrl-C must not end the screen.
		"trap : INT; stty -a > before; "+command+"; rc=$?; trap '' INT; stty -a > after; echo $rc > rc.new; mv rc.new rc; exec cat")
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", s.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

func (s *screen) text() string { return strings.TrimRight(s.tmux("capture-pane", "-p"), "\n") + "\n" }

// await polls the screen until it matches, because tmux has no way to wait.
func (s *screen) await(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(waitTimeout); ; time.Sleep(20 * time.Millisecond) {
		text := s.text()
		if re.MatchString(text) {
			return text
		}
		if time.Now().After(end) {
			s.t.Fatalf("no %s on the screen", pattern)
		}
	}
}

// wantEnd waits for the end of the command, and checks that the terminal is as before.
func (s *screen) wantEnd(code int) string {
	s.t.Helper()
	for end := time.Now().Add(waitTimeout); ; time.Sleep(20 * time.Millisecond) {
		rc, err := os.ReadFile(filepath.Join(s.dir, "rc"))
		if err == nil {
			if got := strings.TrimSpace(string(rc)); got != fmt.Sprint(code) {
				s.t.Errorf("exit code %s, want %d", got, code)
			}
			break
		}
		if time.Now().After(end) {
			s.t.Fatal("it does not end")
		}
	}
	before, _ := os.ReadFile(filepath.Join(s.dir, "before"))
	after, err := os.ReadFile(filepath.Join(s.dir, "after"))
	size := regexp.MustCompile(`rows \d+; columns \d+;`) // we have changed that
	if d := cmp.Diff(size.ReplaceAllString(string(before), ""), size.ReplaceAllString(string(after), "")); d != "" || err != nil || len(before) == 0 {
		s.t.Errorf("%v stty -a (-before +after):\n%s", err, d)
	}
	if got := s.tmux("display-message", "-p", "#{cursor_flag} #{alternate_on} #{insert_flag} #{mouse_any_flag}"); got != "1 0 0 0\n" {
		s.t.Errorf("cursor, alternate screen, insert mode, mouse: %s", got)
	}
	return s.text()
}

func (s *screen) widest(text string) (most int) {
	for line := range strings.Lines(text) {
		most = max(most, ansi.StringWidth(strings.TrimRight(line, "\n")))
	}
	return most
}

func TestLiveView(t *testing.T) {
	t.Parallel()
	dir := project(t,
		"[[supervisor]]\nname = \"back\"\nstrategy = \"rest_for_one\"\nchildren = [\"db\", \"api\"]\n\n",
		agentTOML("db", polite), agentTOML("api", polite),
		agentTOML("flaky", `echo 'a	tab'; printf 'bell\a and \033[31mred\033[0m\n'; exit 7`, `backoff = { kind = "fixed", base = "9s" }`),
		agentTOML("once", "exit 0", `restart = "on-failure"`))
	s := newScreen(t, dir, 80, 24, "coppice run")
	s.await(`^t/flaky \* ended`)
	text := s.await(`^├─ back \(rest_for_one\) +running(?s:.*)^├─ flaky +restarting(?s:.*)^└─ once +stopped`)
	for _, want := range []string{
		`^NAME +STATE +INC +STARTS +UPTIME +NEXT$`,
		`^t \(one_for_one\) +running +- +- +\d+(\.\d)?s$`,
		`^├─ back \(rest_for_one\) +running +1 +1/20 in 1h +\d+(\.\d)?s$`,
		`^│  ├─ db +running +1 +1/20 in 1h +\d+(\.\d)?s$`,
		`^│  └─ api +running +1 +1/20 in 1h `,
		`^├─ flaky +restarting +1 +1/20 in 1h +- +in \d\.\ds \(exit code`,
		`^└─ once +stopped +1 +1/20 in 1h +- +ended well, rest.*…$`,
		`^q stop  Ctrl-C stop without asking$`,
		`^t/back/db \| up \d+$`,
		`^t/flaky \| a    tab$`,
		`^t/flaky \| bell and red$`,
	} {
		if !regexp.MustCompile("(?m)" + want).MatchString(text) {
			t.Errorf("no %s on the screen:\n%s", want, text)
		}
	}
	// The time until the next start counts down.
	left := regexp.MustCompile(`in (\d\.\d)s`)
	if was := left.FindStringSubmatch(text); was != nil {
		s.await(fmt.Sprintf(`in ([0-%c]\.\d)s`, was[1][0]-1))
	}
	for _, width := range []int{40, 120} {
		s.tmux("resize-window", "-x", fmt.Sprint(width), "-y", "16")
		text := s.await(map[int]string{40: `restarting.*…$`, 120: `ended well, restarts on failure only$`}[width])
		if got := s.widest(text); got > width {
			t.Errorf("%d columns on a terminal of %d:\n%s", got, width, text)
		}
		if n := strings.Count(text, "NAME "); n != 1 {
			t.Errorf("the picture is there %d times:\n%s", n, text)
		}
	}
	s.tmux("resize-window", "-x", "100", "-y", "30")
	s.await(`^t/flaky \* ended after .* it always restarts$`)
	s.tmux("send-keys", "q")
	s.await(`^stop all 4 agents\? y/N$`)
	s.tmux("send-keys", "q")
	s.await(`^q stop  Ctrl-C`)
	s.tmux("send-keys", "q", "y")
	text = s.wantEnd(130)
	for _, want := range []string{
		`^t \(one_for_one\) +stopped `,
		`^├─ back \(rest_for_one\) +stopped `,
		`^│  └─ api +stopped +1 +1/20 in 1h +-$`,
		`^ended after `,
		`^t/back/db \* stopped$`,
		`^t/back \* stopped$`,
		`^backoff:        1 restart delayed, the longest by 9.0s \(t/flaky\)$`,
		`^coppice: stopped by q$`,
	} {
		if !regexp.MustCompile("(?m)" + want).MatchString(text) {
			t.Errorf("no %s on the last screen:\n%s", want, text)
		}
	}
}

func TestLiveViewEnds(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `[ $COPPICE_INCARNATION = 2 ] || exit 1; echo fine`, `restart = "on-failure"`))
	text := newScreen(t, dir, 80, 24, "coppice run").wantEnd(0)
	for _, want := range []string{
		`^└─ a +stopped +2 +2/20 in 1h +- +ended well, restarts on fail.*…$`,
		`^ended after [\d.]+m?s$`,
		`^t/a \| fine$`,
		`^t \* stopping everything: all children are done$`, // the last line is not lost
		`^failures: t/a 1x$`,
	} {
		if !regexp.MustCompile("(?m)" + want).MatchString(text) {
			t.Errorf("no %s on the last screen:\n%s", want, text)
		}
	}
}

func TestLiveViewSecondCtrlCKills(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", stubborn, `shutdown = { grace = "10m" }`), agentTOML("bar", `printf '1%%\r2%%'; exec sleep 1000`))
	s := newScreen(t, dir, 80, 24, "coppice run")
	s.await(`^t/a \| up(?s:.*)^t/bar \| 2%$`) // also an unfinished line
	s.tmux("send-keys", "q", "C-c")           // the question does not prevent this
	s.await(`^stopping; Ctrl-C again kills$`)
	s.await(`^├─ a +stopping`)
	for end := time.Now().Add(waitTimeout); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "rc")); err == nil {
			break
		}
		if text := s.text(); strings.Contains(text, "Ctrl-C again kills") {
			s.tmux("send-keys", "C-c")
		}
	}
	if text := s.wantEnd(130); !strings.Contains(text, "t/a * stopped: killed") || !strings.Contains(text, "coppice: stopped by SIGINT") {
		t.Errorf("the agent was not killed:\n%s", text)
	}
}

func TestTinyTerminal(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", polite), agentTOML("b", polite), agentTOML("c", polite), agentTOML("d", polite))
	s := newScreen(t, dir, 20, 5, "coppice run")
	text := s.await(`^… and \d more$`)
	if got := s.widest(text); got > 20 {
		t.Errorf("%d columns:\n%s", got, text)
	}
	s.await(`^NAME`)
	s.tmux("send-keys", "C-c")
	s.wantEnd(130)
}

func TestMoreAgentsThanLines(t *testing.T) {
	t.Parallel()
	var toml strings.Builder
	for i := range 100 {
		fmt.Fprintf(&toml, "[[agent]]\nname = \"a%03d\"\ncommand = \"sleep 1000\"\n", i)
	}
	dir := project(t, toml.String(), agentTOML("broken", "exit 7", `backoff = { kind = "fixed", base = "4m" }`))
	s := newScreen(t, dir, 80, 24, "coppice run")
	s.await(`^t \* started$`)
	text := s.await(`^├─ a000 +running(?s:.*)^└─ broken +restarting `)
	// Problems are visible however long the list is.
	for _, want := range []string{`^└─ broken +restarting .* in [34]m`, `^… and \d+ more$`, `^q stop  Ctrl-C`} {
		if !regexp.MustCompile("(?m)" + want).MatchString(text) {
			t.Errorf("no %s on the screen:\n%s", want, text)
		}
	}
	s.tmux("send-keys", "q", "y")
	text = s.wantEnd(130)
	if !strings.Contains(text, "ended after") || strings.Count(text, "NAME ") != 1 {
		t.Errorf("the last picture:\n%s", text)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, command string
		colours, live bool
	}{
		{"colours", "coppice run", true, true},
		{"NO_COLOR", "NO_COLOR=1 coppice run", false, true},
		{"dumb", "TERM=dumb coppice run", false, false},
		{"no input", "coppice run </dev/null", true, false},
		{"piped", "coppice run | cat", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := project(t, agentTOML("a", `read x < go; echo done`, `restart = "never"`))
			release := fifo(t, dir, "go")
			s := newScreen(t, dir, 80, 24, test.command)
			s.await(`^t \* started`)
			painted := s.tmux("capture-pane", "-p", "-e")
			if got := regexp.MustCompile(`\x1b\[3[0-8]m`).MatchString(painted); got != test.colours {
				t.Errorf("colours: %v, want %v in %q", got, test.colours, painted)
			}
			if got := strings.Contains(painted, "Ctrl-C stop"); got != test.live {
				t.Errorf("live view: %v, want %v in %q", got, test.live, painted)
			}
			release()
			if text := s.wantEnd(0); !strings.Contains(text, "t/a | done\n") {
				t.Errorf("the last screen:\n%s", text)
			}
		})
	}
}

// Terminal modes are restored, and a lost terminal ends the fleet.
func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"signal", "key", "hang-up", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := project(t, agentTOML("a", sleeper))
			master, slave, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer slave.Close()
			defer master.Close()
			if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
				t.Fatal(err)
			}
			before, err := term.GetState(int(slave.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			r := newCoppice(t, "run")
			r.Env = append(os.Environ(), "TERM=xterm-256color")
			r.Stdin, r.Stdout, r.Stderr = slave, slave, slave
			r.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			r.start(dir)
			shown := make(chan struct{})
			go func() {
				defer close(shown)
				buf := make([]byte, 4096)
				for {
					n, err := master.Read(buf)
					if err != nil {
						return
					}
					r.out.Write(buf[:n])
				}
			}()
			r.out.awaitText(t, "up ")
			r.out.awaitText(t, "running")
			code := 130
			switch how {
			case "signal":
				code = 143
				r.signal(syscall.SIGTERM)
			case "key":
				master.Write([]byte{3})
			case "hang-up":
				code = 129
				slave.Close()
				master.Close()
			case "kill":
				code = -1
				r.signal(syscall.SIGKILL)
			}
			r.wantExit(code)
			if how == "signal" || how == "key" {
				after, err := term.GetState(int(slave.Fd()))
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(*after) != fmt.Sprint(*before) {
					t.Errorf("modes before %v, after %v", *before, *after)
				}
				r.out.awaitText(t, "coppice: stopped by ")
				out := r.out.String()
				if on, off := strings.LastIndex(out, "\x1b[?25h"), strings.LastIndex(out, "\x1b[?25l"); on < off {
					t.Error("the cursor stays hidden")
				}
				if strings.Contains(out, "\x1b[?1049h") {
					t.Error("the alternate screen, on which nothing stays")
				}
			}
			slave.Close()
			master.Close()
			<-shown
			if how == "kill" { // the agents keep running
				launch(t, dir, "down").wantExit(0)
			}
		})
	}
}

package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

// fullScreen is an agent that takes over the terminal: alternate screen, hidden cursor, mouse. It
// shows the size and each key, and ends with x.
func fullScreen(ctx context.Context, _ string, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error {
	fmt.Fprint(output, "\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[H\x1b[2Jhello\r\n")
	keys := make(chan byte)
	go func() {
		defer close(keys)
		b := make([]byte, 1)
		for input != nil {
			if _, err := input.Read(b); err != nil {
				return
			}
			select {
			case keys <- b[0]:
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	for {
		select {
		case size := <-sizes:
			fmt.Fprintf(output, "size %dx%d\r\n", size[0], size[1])
		case key, ok := <-keys:
			if !ok || key == 'x' {
				return nil
			}
			fmt.Fprintf(output, "key %d\r\n", key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestAttachCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys []string
		code int
		says string
	}{
		"leave":       {[]string{"C-]"}, 0, `^back/db keeps running$`},
		"leave twice": {[]string{"C-p", "C-q"}, 0, `^back/db keeps running$`},
		"ended":       {[]string{"x"}, 0, `^back/db has ended$`},
		"daemon ends": {nil, 69, `^coppice: daemon is stopping$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := statustest.Sample()
			f.OnAttach = fullScreen
			dir, stop := daemonOf(t, f)
			s := newScreen(t, dir, 80, 24, "coppice attach back/db")
			s.await(`^hello$`)
			s.await(`^size 24x80$`)
			s.tmux("send-keys", "a", "C-c", "C-p", "b")
			s.await(`^key 97\nkey 3\nkey 16\nkey 98$`) // Ctrl-C belongs to the agent
			s.tmux("resize-window", "-x", "70", "-y", "20")
			s.await(`^size 20x70$`)
			for _, key := range test.keys {
				s.tmux("send-keys", key)
			}
			if test.keys == nil {
				stop()
			}
			text := s.wantEnd(test.code)
			if !regexp.MustCompile("(?m)" + test.says).MatchString(text) {
				t.Errorf("no %s on the screen:\n%s", test.says, text)
			}
		})
	}
}

// A signal restores the terminal, and attach --watch never changes it.
func TestAttachSignal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"attach", "back/db"}, {"attach", "--watch", "back/db"}} {
		f := statustest.Sample()
		f.OnAttach = fullScreen
		dir, _ := daemonOf(t, f)
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		before, err := term.GetState(int(slave.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		r := newCoppice(t, args...)
		r.Stdin, r.Stdout, r.Stderr = slave, slave, slave
		r.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		r.start(dir)
		read := make(chan struct{})
		go func() {
			defer close(read)
			io.Copy(r.out, master)
		}()
		r.out.awaitText(t, "hello")
		r.signal(syscall.SIGTERM)
		r.wantExit(143)
		r.out.awaitText(t, "\x1b[?25h\x1b[?1000l\x1b[?1049l")
		after, err := term.GetState(int(slave.Fd()))
		if err != nil || fmt.Sprint(*after) != fmt.Sprint(*before) {
			t.Errorf("%v: modes before %v, after %v, %v", args, *before, *after, err)
		}
		slave.Close()
		master.Close()
		<-read
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	f.OnAttach = fullScreen
	f.OnAct = func(_ context.Context, path string, action control.Action) error {
		if action == control.Restart {
			return errors.New("it will not")
		}
		return nil
	}
	// A real agent with a child process, whose resources are measured.
	agent := exec.Command("/bin/sh", "-c", "(while :; do :; done) & wait")
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exectest.Signal(t, -agent.Process.Pid, syscall.SIGKILL); agent.Wait() })
	nodes, _ := f.Nodes(t.Context(), "app/back/db")
	db := nodes[0]
	db.PID, db.Terminal = agent.Process.Pid, true
	f.SetNode(db)
	f.Print("app/back/db", "said \x1b[31mdb\x1b[0m")
	f.Print("app/worker", "said worker")
	dir, stop := daemonOf(t, f)
	s := newScreen(t, dir, 100, 24, "coppice top")
	text := s.await(`^(> |  )│  ├─ db +running +3 +1/10 in a row +\d\d+% +\d(?s:.*)^said worker$`)
	for _, want := range []string{
		`^app  1 given up  1 restarting  1 running  1 stopped  up 1h00m$`,
		`^  NAME +STATE +INC +STARTS +CPU +MEM +UPTIME +NEXT$`,
		`^  │  └─ web +restarting +7 +4/10 in 1h +- +- +- +in (1h00|5[0-9])m`,
		`^\? help  q quit`,
		`^> ├─ worker +given up`, // it needs a person
		`^── app/worker ─+\nsaid worker$`,
	} {
		if !regexp.MustCompile("(?m)" + want).MatchString(text) {
			t.Errorf("no %s on the screen:\n%s", want, text)
		}
	}
	s.tmux("send-keys", "Home", "j", "Down")
	s.await(`^── app/back/db ─+\nsaid db$`)
	f.Print("app/back/db", "and more")
	s.await(`^said db\nand more$`)
	f.Begin("app/back/db", "at 1%\rat 2%")
	s.await(`^said db\nand more\nat 2%$`)
	f.Begin("app/back/db", "")
	s.await(`^said db\nand more$\s*\z`)
	s.tmux("send-keys", "S")
	s.await(`^start app/back/db: done$`)
	s.tmux("send-keys", "s")
	s.await(`^stop app/back/db\? y/N$`)
	s.tmux("send-keys", "y")
	s.await(`^stop app/back/db: done$`)
	s.tmux("send-keys", "r", "y")
	s.await(`^it will not$`)
	if calls := strings.Join(f.Calls(), ", "); len(f.Calls()) != 3 || !strings.Contains(calls, "restart app/back/db") {
		t.Errorf("calls: %s", calls)
	}
	s.tmux("send-keys", "a")
	s.await(`^size 24x100$`)
	s.tmux("send-keys", "z")
	s.await(`^key 122$`)
	s.tmux("send-keys", "C-]")
	s.await(`^> │  ├─ db`)
	// Letters of a filter are not commands.
	s.tmux("send-keys", "/", "w", "o", "r")
	s.await(`^> worker (?s:.*)^/wor +1 of \d`)
	s.tmux("send-keys", "Enter")
	s.await(`^/wor +\? help +Esc back`)
	s.tmux("send-keys", "Enter")
	s.await(`\A── app/worker ─+\nsaid worker$`)
	s.tmux("send-keys", "?")
	s.await(`^PgUp +up: by a screen$`)
	s.tmux("send-keys", "q")
	s.await(`\A── app/worker ─+\nsaid worker$`)
	s.tmux("send-keys", "Escape")
	s.await(`^> worker`)
	s.tmux("send-keys", "Escape")
	s.await(`^> ├─ worker`)
	s.tmux("send-keys", "d")
	s.await(`^── app/worker: explain ─+\napp/worker is given up$`)
	s.tmux("send-keys", "l")
	s.await(`^said worker$`)
	s.tmux("resize-window", "-x", "40", "-y", "8")
	text = s.await(`^> ├─ worker.*\n(.*\n)*\? help .*…$`)
	if got := s.widest(text); got > 40 {
		t.Errorf("%d columns:\n%s", got, text)
	}
	s.tmux("send-keys", "g")
	s.await(`^> app`)
	s.tmux("resize-window", "-x", "100", "-y", "24")
	stop()
	s.await(`^no daemon is running`)
	serveFor(t, dir, f)
	s.await(`^app  1 given up`)
	s.tmux("send-keys", "q")
	s.wantEnd(0)
}

// However top ends, the terminal is restored.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	dir, _ := daemonOf(t, statustest.Sample())
	s := newScreen(t, dir, 80, 24, "sh -c 'echo $$ > pid; exec coppice top'")
	s.await(`^> `)
	pid, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	fmt.Sscan(string(pid), &n)
	exectest.Signal(t, n, syscall.SIGTERM)
	s.wantEnd(143)
}

// A terminal shows the last state of a line that overwrites itself; pipes get all of it.
func TestLogsOverwritten(t *testing.T) {
	t.Parallel()
	f := statustest.Sample()
	f.Print("app/worker", "at 1%\rat 2%")
	dir, _ := daemonOf(t, f)
	s := newScreen(t, dir, 80, 24, "sh -c 'coppice logs app/worker; echo piped:; coppice logs app/worker | cat'")
	s.await(`^at 2%\npiped:\nat 1% at 2%$`)
	s.wantEnd(0)
}

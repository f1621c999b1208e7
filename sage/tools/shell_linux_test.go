package tools

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/sagehost/command"
)

func TestShell(t *testing.T) {
	dir := t.TempDir()
	s := &Shell{Host: command.Runner{}, Dir: dir}
	for name, c := range map[string]struct {
		argv []string
		want ShellResult
	}{
		"both":           {[]string{"sh", "-c", "echo out; echo err >&2; exit 3"}, ShellResult{3, "out\n", "err\n"}},
		"no shell":       {[]string{"echo", "$HOME", "; id", "`id`", "*", "a  b"}, ShellResult{0, "$HOME ; id `id` * a  b\n", ""}},
		"signal":         {[]string{"sh", "-c", "kill -TERM $$"}, ShellResult{143, "", ""}},
		"stdin is empty": {[]string{"cat"}, ShellResult{}},
		"not UTF-8":      {[]string{"printf", `a\377b`}, ShellResult{0, "a\uFFFDb", ""}},
		"directory":      {[]string{"pwd"}, ShellResult{0, dir + "\n", ""}},
		"left behind":    {[]string{"sh", "-c", "sleep 1000 & echo x"}, ShellResult{0, "x\n", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := s.Run(bounded(t), c.argv); got != c.want || err != nil {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	if got, err := s.RunLine(bounded(t), "  echo --a=b\tc/d.txt  1,2 "); got.Stdout != "--a=b c/d.txt 1,2\n" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestShellRefuses(t *testing.T) {
	s := &Shell{Host: command.Runner{}, Timeout: 100 * time.Millisecond}
	for want, argv := range map[string][]string{
		"nothing to run":                    nil,
		"no program named":                  {""},
		"no-such-program not found in PATH": {"no-such-program"},
		"NUL byte":                          {"echo", "a\x00b"},
		"it has not ended within 100ms":     {"sleep", "1000"},
		"argument list too long":            {"echo", strings.Repeat("x", 1<<20)},
		"is a directory":                    {"/tmp"},
	} {
		_, err := s.Run(bounded(t), argv)
		refused(t, want, err, want)
	}
	_, err := (&Shell{Host: command.Runner{}}).Run(bounded(t), []string{"cat", "/dev/zero"})
	refused(t, "flood", err, "more than 10485760 bytes on stdout: have it write to a file")
	if _, err := s.Run(bounded(t), []string{"no-such-program"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, line := range []string{"echo $HOME", "ls; rm -rf x", "a | b", "a && b", "a > b", "cat < x", "echo `id`", "ls *.go", "ls ~", `echo "a b"`, "echo 'a'", `a\ b`, "a\nb", "a # b", "a & b", "echo é", "{a,b}", "a?", "[a]", "(a)", "!a", "a\x00", "a\xff"} {
		_, err := s.RunLine(bounded(t), line)
		refused(t, line, err, `give the words one by one, as in ["grep"`)
	}
	for line, want := range map[string]string{"": "nothing to run", " \t": "nothing to run", "A=b env": `want ["env", "A=b", ...]`} {
		_, err := s.RunLine(bounded(t), line)
		refused(t, line, err, want)
	}
}

func TestShellEndsWithItsContext(t *testing.T) {
	fifo := t.TempDir() + "/up"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(bounded(t))
	over := make(chan error, 1)
	go func() {
		// The child holds the fifo open for writing as long as it lives.
		_, err := (&Shell{Host: command.Runner{}}).Run(ctx, []string{"sh", "-c", `trap "" TERM; (trap "" TERM; echo up; exec sleep 1000) > "$0" & wait`, fifo})
		over <- err
	}()
	f, err := os.Open(fifo)
	must(t, err)
	defer f.Close()
	_, err = f.Read(make([]byte, 3))
	must(t, err)
	cancel(errStopped)
	if err := <-over; !errors.Is(err, errStopped) {
		t.Error(err)
	}
	f.SetReadDeadline(time.Now().Add(patience))
	if n, err := f.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("its child is alive: %d, %v", n, err)
	}
}

// Commands are not told the program's own secrets.
func TestShellEnvironment(t *testing.T) {
	for _, name := range notInherited {
		t.Setenv(name, "secret")
	}
	t.Setenv("MINE", "yes")
	r, err := (&Shell{Host: command.Runner{}}).Run(bounded(t), []string{"env"})
	if err != nil || strings.Contains(r.Stdout, "secret") || !strings.Contains(r.Stdout, "MINE=yes\n") {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	if r, err = (&Shell{Host: command.Runner{}, Env: []string{"A=b"}}).Run(bounded(t), []string{"/usr/bin/env"}); r.Stdout != "A=b\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	if got := Inherited([]string{"A=b", "=x", "bad", "SAGE_API_KEY=k", "B="}); !slices.Equal(got, []string{"A=b", "B="}) {
		t.Errorf("%q", got)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("git status --short")
	f.Add("A=b c")
	f.Add("a;b\x00")
	f.Fuzz(func(t *testing.T, line string) {
		argv, err := words(line)
		if err == nil && (len(argv) == 0 || strings.Join(argv, "") != strings.NewReplacer(" ", "", "\t", "").Replace(line) || strings.ContainsAny(line, "$`\"'\\|&;<>()*?[]{}~#!\n\x00")) {
			t.Fatalf("%q: %q", line, argv)
		}
	})
}

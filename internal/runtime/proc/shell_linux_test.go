package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

// shells returns the shells that may be /bin/sh.
func shells(t *testing.T) (all []string) {
	for _, name := range []string{"dash", "bash"} {
		if file, err := exec.LookPath(name); err == nil {
			all = append(all, file)
		}
	}
	if len(all) == 0 {
		t.Skip("there is neither dash nor bash")
	}
	return all
}

// onTerminal returns the command that runs a text in a shell on a terminal.
func onTerminal(shell, text, dir string, stop syscall.Signal) Command {
	argv := OutlastedShell([]string{"/bin/sh", "-c", text}, stop)
	return Command{
		Argv: append([]string{shell}, argv[1:]...), Dir: dir, Terminal: &DefaultSize, StopSignal: stop,
		Env: []string{"PATH=" + os.Getenv("PATH"), "POSIXLY_CORRECT=1"},
	}
}

// On a terminal, the foreground command of a shell also saves its work, and nothing runs after
// it.
func TestShellOutlastedOnATerminal(t *testing.T) {
	const plain = `#!/bin/sh
trap 'sleep 0.2; echo saved > saved; exit 0' TERM USR1
echo ready
while :; do sleep 0.02; done
`
	for name, text := range map[string]string{
		"prefix":   "FOO=bar ./w.sh",
		"list":     "./w.sh; touch next",
		"and":      "./w.sh && touch next",
		"pipeline": "./w.sh | cat",
		"loop":     "while ./w.sh; do touch next; done",
		"lines":    "# a comment; with 'quotes\nFOO=1\n./w.sh\ntouch next",
		"comment":  "./w.sh # the end",
		"here-doc": "cat <<EOF\n$HOME\nEOF\n./w.sh; touch next",
		"function": "f() { ./w.sh; }; f; touch next",
		"exec":     "exec ./w.sh",
		"own trap": "trap 'exit 3' TERM USR1; ./w.sh; touch next",
	} {
		for _, shell := range shells(t) {
			for _, stop := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1} {
				if stop == syscall.SIGUSR1 && name != "list" {
					continue
				}
				t.Run(filepath.Base(shell)+" "+name+" "+stop.String(), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					exectest.Write(t, filepath.Join(dir, "w.sh"), plain)
					p, out := start(t, onTerminal(shell, text, dir, stop))
					out.await(t, "ready")
					if !p.End(2 * testTimeout) {
						t.Fatal("it has not ended")
					}
					if e := p.Exit(); name != "own trap" && e.Kind != supervisor.ShutDown {
						t.Errorf("exit = %v", e)
					}
					if _, err := os.Stat(filepath.Join(dir, "saved")); err != nil {
						t.Errorf("it was ended while it saved its work: %v", err)
					}
					if _, err := os.Stat(filepath.Join(dir, "next")); err == nil {
						t.Error("what comes next was run")
					}
				})
			}
		}
	}
}

// A text ends as it did without the trap.
func TestOutlastedShellEnds(t *testing.T) {
	for text, want := range map[string]string{
		"FOO=1 true":              "normal",
		"FOO=1 sh -c 'exit 7'":    "exit code 7",
		"exit 5":                  "exit code 5",
		"kill -KILL $$":           "ended by SIGKILL",
		"kill -TERM $$":           "ended by SIGTERM",
		"exec sh -c 'kill $$'":    "ended by SIGTERM",
		"FOO=1 no-such-program":   "exit code 127",
		"if":                      "exit code 2",
		"\n\n# nothing":           "normal",
		"cat <<EOF\nno end":       "normal",
		"sh -c 'kill $$'; exit 6": "exit code 6",
	} {
		for _, shell := range shells(t) {
			p, _ := start(t, onTerminal(shell, text, t.TempDir(), syscall.SIGTERM))
			wait(t, "the end", p.Done())
			got := p.Exit().Kind.String()
			if err := p.Exit().Err; err != nil {
				got = err.Error()
				var exit *ExitError
				if errors.As(err, &exit) && exit.Signal == 0 {
					got, _, _ = strings.Cut(got, ":")
				}
			}
			if got != want {
				t.Errorf("%s of %q: %s, want %s", filepath.Base(shell), text, got, want)
			}
		}
	}
}

func TestOutlastedShellIsNoOtherCommand(t *testing.T) {
	for _, argv := range [][]string{
		{"claude"}, {"/bin/sh", "-c"}, {"/bin/sh", "-c", "./w.sh \"$1\"", "sh", "x"}, {"bash", "-c", "./w.sh"},
		{"/bin/sh", "-c", "trap 'rm tmp' EXIT; ./w.sh"},
	} {
		if got := OutlastedShell(argv, syscall.SIGTERM); !slices.Equal(got, argv) {
			t.Errorf("%q becomes %q", argv, got)
		}
	}
	for _, stop := range []syscall.Signal{syscall.SIGKILL, syscall.SIGWINCH} {
		if got := OutlastedShell([]string{"/bin/sh", "-c", "x"}, stop)[2]; got != "x" {
			t.Errorf("with %v: %s", stop, got)
		}
	}
}

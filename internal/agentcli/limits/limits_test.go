package limits

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Only claude is asked, where it is certain that the program is claude and has the account of the agent.
func TestCommand(t *testing.T) {
	for command, program := range map[string]string{
		"claude -p":                                         "claude",
		"/opt/bin/claude --print --model opus":              "/opt/bin/claude",
		"env A=1 timeout -k 5 60 claude -p -- --settings x": "env A=1 timeout -k 5 60 claude",
		"node /x/claude.js -p":                              "node /x/claude.js",
		"claude":                                            "",
		"claude -- -p":                                      "",
		"claude -p --settings=x":                            "",
		"claude -p --setting-sources user":                  "",
		"claude --bare -p":                                  "",
		"npx -y @anthropic-ai/claude-code -p":               "",
		"codex exec -p":                                     "",
		"claude-agent-acp -p":                               "",
		"sh -c claude":                                      "",
		"":                                                  "",
	} {
		var expected []string
		if program != "" {
			expected = append(strings.Fields(program), options()...)
		}
		if got := Command(strings.Fields(command)); !slices.Equal(got, expected) {
			t.Errorf("%s: %q, expected %q", command, got, expected)
		}
	}
}

// program returns a command that runs a script.
func program(t *testing.T, script string) proc.Command {
	t.Helper()
	file := filepath.Join(t.TempDir(), "claude")
	exectest.Write(t, file, "#!/bin/sh\n"+script)
	return proc.Command{Argv: Command([]string{file, "-p"}), Env: os.Environ()}
}

// A question is the input of the program, and its answer is read to the end.
func TestAsk(t *testing.T) {
	got, err := Ask(t.Context(), program(t, `
read -r initialize && read -r usage || exit 1
case "$initialize$usage" in *initialize*get_usage*) ;; *) exit 1; esac
case "$*" in "-p --input-format stream-json "*) ;; *) exit 1; esac
cat <<'E'
Warning: something
`+answers(`{"rate_limits_available":true,"rate_limits":{"five_hour":{"utilization":7}}}`)+"E\n"))
	if err != nil || len(got.Windows) != 1 || got.Windows[0].Used != 0.07 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What answers nothing, too much or not in time is an error, and ends.
func TestAskInVain(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	fifo := filepath.Join(t.TempDir(), "begun")
	c := program(t, "echo >"+fifo+"\nexec sleep 1000\n")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(fifo)
		cancel(late)
	}()
	if _, err := Ask(ctx, c); !errors.Is(err, late) {
		t.Error(err)
	}
	if _, err := Ask(t.Context(), program(t, "exec yes '{'\n")); !errors.Is(err, proc.ErrTooMuchOutput) {
		t.Error(err)
	}
	if _, err := Ask(t.Context(), proc.Command{Argv: []string{"/nowhere"}}); !errors.Is(err, proc.ErrCommand) {
		t.Error(err)
	}
	_, err := Ask(t.Context(), program(t, "echo 'error: unknown option' >&2; exit 1\n"))
	if !errors.Is(err, ErrNoAnswer) || err.Error() != "it has not answered (exit code 1): error: unknown option" {
		t.Error(err)
	}
}

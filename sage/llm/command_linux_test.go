package llm

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/sagehost/command"
	"github.com/coppice-dev/coppice/sage/host"
)

// sh returns a model that is a shell script.
func sh(script string, args ...string) *Command {
	return &Command{Host: command.Runner{}, Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...), Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func TestCommand(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for name, c := range map[string]struct {
		command      *Command
		prompt, want string
	}{
		"stdin":                  {sh("cat"), "Who?", "Who?"},
		"long":                   {sh("cat"), long, long},
		"argument":               {sh(`printf %s "$2"; cat`, "-p", "{prompt}"), "Who? {prompt} $(id)", "Who? {prompt} $(id)"},
		"part of one":            {sh(`printf %s "$1"`, "--prompt={prompt}"), "-x", "--prompt=-x"},
		"it is no option":        {sh(`printf %s "$1"`, "{prompt}"), "--yolo", " --yolo"},
		"does not read":          {sh("echo yes"), long, "yes\n"},
		"talks on stderr":        {sh("echo thinking >&2; echo yes"), "x", "yes\n"},
		"not UTF-8":              {sh(`printf 'a\377b'`), "x", "a\uFFFDb"},
		"leaves somebody behind": {sh("sleep 1000 & echo yes"), "x", "yes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.command.Complete(testContext(t), c.prompt)
			if got != c.want || err != nil {
				t.Errorf("%.80q, %v; want %.80q", got, err, c.want)
			}
		})
	}
}

func TestCommandFails(t *testing.T) {
	for name, c := range map[string]struct {
		command *Command
		prompt  string
		want    string
	}{
		"code":        {sh("echo no quota >&2; echo half; exit 3"), "x", `asking "/bin/sh": exit code 3; its output ends with "no quota"`},
		"only stdout": {sh("echo Invalid API key; exit 1"), "x", `exit code 1; its output ends with "Invalid API key"`},
		"signal":      {sh("kill -SEGV $$"), "x", "ended by SIGSEGV"},
		"silence":     {sh("echo warning >&2; echo"), "x", `it gave no answer; its output ends with "warning"`},
		"flood":       {sh("echo why >&2; exec yes"), "x", `too much output: more than 8388608 bytes on stdout; its output ends with "why"`},
		"escapes":     {sh(`printf '\033[2Jred\007' >&2; exit 1`), "x", `its output ends with "red"`},
		"too slow":    {&Command{Host: command.Runner{}, Argv: []string{"sleep", "1000"}, Timeout: 50 * time.Millisecond}, "x", "it has not ended within 50ms"},
		"not there":   {&Command{Host: command.Runner{}, Argv: []string{"no-such-agent"}}, "x", "no-such-agent not found in PATH"},
		"empty":       {&Command{}, "x", "the command is empty"},
		"too long":    {sh("", "{prompt}"), strings.Repeat("x", 1<<17), "take {prompt} out of the command, so that it goes to stdin"},
		"NUL":         {sh("", "{prompt}"), "a\x00b", "NUL byte"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.command.Complete(testContext(t), c.prompt)
			if err == nil || text != "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v; want %s", text, err, c.want)
			}
		})
	}
	_, err := (&Command{Host: command.Runner{}, Argv: []string{"no-such-agent"}}).Complete(testContext(t), "x")
	if !errors.Is(err, host.ErrNotStarted) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// At the end of the context the command and its children are killed.
func TestCommandEndsWithItsContext(t *testing.T) {
	fifo := t.TempDir() + "/up"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	because := errors.New("the agent is stopped")
	ctx, cancel := context.WithCancelCause(testContext(t))
	// The child holds the fifo open for writing as long as it lives.
	c := sh(`trap "" TERM INT; (trap "" TERM; echo up; exec sleep 1000) > "$1" & wait`, fifo)
	over := make(chan error, 1)
	go func() {
		_, err := c.Complete(ctx, "x")
		over <- err
	}()
	f, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel(because)
	if err := <-over; !errors.Is(err, because) {
		t.Error(err)
	}
	f.SetReadDeadline(time.Now().Add(testTimeout))
	if n, err := f.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("its child is alive: %d, %v", n, err)
	}
}

// A process that is asked a typed question can correct its answer.
func TestCommandIsChecked(t *testing.T) {
	o := Checked(sh(`case "$(cat)" in *"missing properties"*) echo 'Sorry! {"name": "Ada", "age": 36}';; *) echo '{"name": "Ada"}';; esac`), 3)
	a, err := o.Ask(testContext(t), Question{Prompt: "Who?", Schema: json.RawMessage(person)})
	if err != nil || a != `{"name": "Ada", "age": 36}` {
		t.Errorf("%q, %v", a, err)
	}
}

// What the command line of a model reports explains more than its exit code.
func TestCommandReports(t *testing.T) {
	for out, want := range map[string]string{
		`{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"Overloaded"}`: `asking "/bin/sh": exit code 1: it failed: overloaded: Overloaded`,
		"Invalid API key": `asking "/bin/sh": exit code 1; its output ends with "Invalid API key"`,
	} {
		cmd := sh(`printf %s "$1"; exit 1`, out)
		cmd.Format = "claude"
		if text, err := cmd.Complete(testContext(t), "x"); err == nil || text != "" || err.Error() != want {
			t.Errorf("%q, %v; want %s", text, err, want)
		}
	}
}

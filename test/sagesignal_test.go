package test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const restingText = `agent A {
    name: String

    on start {
        print("start {self.name}");
        loop {
            sleep_ms(10);
        }
    }

    on resting {
        print("resting {self.name}");
    }
}

supervisor S {
    strategy: OneForOne

    children {
        A {
            name: "one"
        }
        A {
            name: "two"
        }
    }
}

run S;
`

// A signal stops a program in reverse order, with all cleanup.
func TestRunProgramSignal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.sg")
	if err := os.WriteFile(path, []byte(restingText), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "coppice", "run", path)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		started := 0
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines = append(lines, scanner.Text())
			if strings.HasPrefix(scanner.Text(), "start ") {
				if started++; started == 2 {
					if err := cmd.Process.Signal(sig); err != nil {
						t.Error(err)
					}
				}
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(sig) {
			t.Errorf("%v: %v", sig, err)
		}
		if got := strings.Join(lines, ", "); !strings.HasSuffix(got, "resting two, resting one") {
			t.Errorf("%v: %s", sig, got)
		}
	}
}

// A program ends if its output has no reader.
func TestRunProgramBrokenPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "app.sg")
	text := "agent A {\n    on start {\n        loop {\n            print(\"again\");\n        }\n    }\n}\n\nrun A;\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "coppice", "run", path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "again\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailure || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

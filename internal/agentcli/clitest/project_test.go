package clitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A project is a coppice.toml in a directory of its own. The commands of coppice in it have the environment of a home.
type project struct {
	t    *testing.T
	home *Home
	dir  string
}

// newProject writes the files of a project named p. All of its agents have the environment of the home.
func newProject(t *testing.T, home *Home, toml string, files map[string]string) *project {
	t.Helper()
	p := &project{t, home, t.TempDir()}
	env := map[string]string{}
	for _, kv := range home.environ() {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	text := "[project]\nname = \"p\"\n" + toml + "[agent.env]\n"
	for name, value := range env {
		text += fmt.Sprintf("%s = '''%s'''\n", name, value)
	}
	p.write("coppice.toml", text)
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

// agentTOML declares the agent a, which runs the command line in its home with the prompt of each run.
func (h *Home) agentTOML(t testing.TB, restart string) string {
	return fmt.Sprintf("[[agent]]\nname = \"a\"\nrestart = %q\ndir = %q\nstdin = %q\ncommand = %s\n",
		restart, h.work, h.promptFile(t, prompt), tomlList(h.command("")))
}

// tomlList returns words as an array of TOML.
func tomlList(words []string) string { return "['''" + strings.Join(words, "''', '''") + "''']" }

func (p *project) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// coppice returns a command of coppice, which gets SIGTERM if it takes too long.
func (p *project) coppice(args ...string) *exec.Cmd {
	p.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit())
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe, args...) // see TestMain
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir, cmd.Env = p.dir, append(p.home.environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// get decodes what a command of coppice prints with --json.
func get[T any](p *project, args ...string) (v T) {
	p.t.Helper()
	cmd := p.coppice(append(args, "--json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		p.t.Fatalf("%q: %v\n%s%s", args, err, out, &stderr)
	}
	return v
}

// A daemon is a coppice up of a project, in the foreground.
type daemon struct {
	*project
	cmd   *exec.Cmd
	lines chan string // of both outputs; closed when it has ended
	seen  strings.Builder
	down  func() // stops the daemon and its agents, once, and waits for its end
}

// up starts the daemon of the project. It is stopped when the test ends.
func (p *project) up() *daemon {
	p.t.Helper()
	d := &daemon{project: p, cmd: p.coppice("up"), lines: make(chan string, 10_000)}
	out, err := d.cmd.StdoutPipe()
	d.cmd.Stderr = d.cmd.Stdout
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(d.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			d.lines <- s.Text()
		}
	}()
	d.down = sync.OnceFunc(d.end)
	p.t.Cleanup(func() { d.down() })
	return d
}

// end stops the daemon and its agents, and waits for its end.
func (d *daemon) end() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Error(err)
	}
	for line := range d.lines {
		d.seen.WriteString(line + "\n")
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("%v\n%s", err, &d.seen)
	}
}

// kill kills the daemon. Its agents go on.
func (d *daemon) kill() {
	d.cmd.Process.Kill()
	d.cmd.Wait() // also ends its lines: what goes on has the pipe open
	d.down = func() {}
}

// await waits for lines with texts, in any order, and returns the last of them.
func (d *daemon) await(texts ...string) string {
	d.t.Helper()
	limit := time.NewTimer(waitLimit())
	defer limit.Stop()
	for {
		select {
		case line, ok := <-d.lines:
			if !ok {
				d.t.Fatalf("it has ended before %q\n%s", texts, &d.seen)
			}
			d.seen.WriteString(line + "\n")
			texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(line, text) })
			if len(texts) == 0 {
				return line
			}
		case <-limit.C:
			d.t.Fatalf("it does not say %q\n%s", texts, &d.seen)
		}
	}
}

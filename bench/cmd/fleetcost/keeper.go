//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/census"
)

// keeper is a program that keeps a fleet of agents running.
type keeper interface {
	// up begins to start all agents.
	up() error
	// alive fails if the program, or its command that starts the agents, has ended too early.
	alive() error
	// pid returns the process that leads all others of the program.
	pid() (int, error)
	// down stops all agents, and returns when the program has ended.
	down() error
}

// newKeeper writes the configuration of n agents to dir. Each supervisor has the shortest delays
// that it knows, and no limit of restarts.
func newKeeper(impl, program, dir string, n int, agent []string) (keeper, error) {
	var file, text string
	var argv []string
	switch impl {
	case "coppice-up":
		file, text = "coppice.toml", project(n, agent)
	case "raw":
		argv = append([]string{program, "-keep", strconv.Itoa(n), "--"}, agent...)
	case "process-compose":
		file, text = "compose.yaml", compose(n, agent)
		argv = []string{program, "up", "-f", file, "-t=false", "--no-server", "-L", "log"}
	case "supervisord":
		file, text = "supervisord.conf", fmt.Sprintf("[supervisord]\nnodaemon=true\nminfds=%d\n"+
			"[program:a]\ncommand=%s\nnumprocs=%d\nprocess_name=%%(process_num)d\nautorestart=true\nstartsecs=0\n"+
			// Three descriptors for each agent, and no more: it closes all of them after each fork.
			"stdout_logfile=NONE\nstderr_logfile=NONE\n", 3*n+100, strings.Join(agent, " "), n)
		argv = []string{program, "-c", file}
	default:
		return nil, fmt.Errorf("%s is not known here", impl)
	}
	if file != "" {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if argv == nil {
		return &daemon{program: program, dir: dir}, nil
	}
	return &foreground{argv: argv, dir: dir}, nil
}

func project(n int, agent []string) string {
	var b strings.Builder
	b.WriteString("[project]\nname = \"bench\"\n\n[daemon]\nmax_restarts = \"unlimited\"\n")
	for i := range n {
		fmt.Fprintf(&b, "\n[[agent]]\nname = \"a%d\"\ncommand = %s\nbackoff = \"none\"\n", i, quoted(agent))
	}
	return b.String()
}

func compose(n int, agent []string) string {
	var b strings.Builder
	b.WriteString("version: \"0.5\"\nprocesses:\n")
	for i := range n {
		fmt.Fprintf(&b, "  a%d:\n    entrypoint: %s\n    availability:\n      restart: always\n", i, quoted(agent))
	}
	return b.String()
}

// quoted writes a command as JSON, which TOML and YAML read, too.
func quoted(argv []string) string {
	text, err := json.Marshal(argv)
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}

// command is a program that has been started. What it writes goes to a file, so that nothing
// waits for those of its descendants that outlive it.
type command struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it has ended, once that is closed
}

func start(dir string, argv ...string) (*command, error) {
	out, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return nil, err
	}
	c := &command{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, out, out
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		defer close(c.ended)
		defer out.Close()
		if err := c.cmd.Wait(); err != nil {
			b, _ := os.ReadFile(out.Name()) // it is only part of an error
			c.err = fmt.Errorf("%s: %w\n%s", filepath.Base(argv[0]), err, b[max(0, len(b)-2000):])
		}
	}()
	return c, nil
}

// wait returns how the command has ended. It kills one that does not end in time.
func (c *command) wait() error {
	select {
	case <-c.ended:
		return c.err
	case <-time.After(limit):
		c.cmd.Process.Kill()
		<-c.ended
		return fmt.Errorf("%w: %s has not ended after %v", census.ErrLimit, c.cmd.Path, limit)
	}
}

// foreground is a program that supervises in its own process until it gets SIGTERM.
type foreground struct {
	argv    []string
	dir     string
	running *command
}

func (f *foreground) up() (err error) {
	f.running, err = start(f.dir, f.argv...)
	return err
}

func (f *foreground) alive() error {
	select {
	case <-f.running.ended:
		if f.running.err != nil {
			return fmt.Errorf("ended too early: %w", f.running.err)
		}
		return errors.New("ended too early")
	default:
		return nil
	}
}

func (f *foreground) pid() (int, error) { return f.running.cmd.Process.Pid, f.alive() }

func (f *foreground) down() error {
	if f.running == nil {
		return nil
	}
	if err := f.alive(); err != nil {
		return err
	}
	if err := f.running.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := f.running.wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && !errors.Is(err, census.ErrLimit) {
		return nil // process-compose ends with the code of an agent that it has stopped
	}
	return err
}

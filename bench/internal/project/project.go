//go:build linux

// Package project starts a daemon of coppice with agents that sleep, and acts in their names.
package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
)

// Project is a daemon that runs.
type Project struct {
	Agents []*api.Client // each over a connection of its own that stays open
	People *api.Client

	coppice, dir string
}

// Start begins a project with n agents in a directory.
func Start(coppice, dir string, n int) (p *Project, err error) {
	if coppice, err = filepath.Abs(coppice); err != nil {
		return nil, err
	}
	p = &Project{coppice: coppice, dir: dir}
	var toml strings.Builder
	// Outcomes of what is measured pause no pool.
	toml.WriteString("[project]\nname = \"bench\"\n\n[daemon]\nmax_failed_tasks = 0\n")
	for i := range n {
		fmt.Fprintf(&toml, "\n[[agent]]\nname = \"a%d\"\ncommand = [\"sh\", \"-c\", 'echo \"$COPPICE_TOKEN\" > "+
			"a%d.token; exec sleep 1000000']\nready.exec = [\"test\", \"-s\", \"a%d.token\"]\n", i, i, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "coppice.toml"), []byte(toml.String()), 0o600); err != nil {
		return nil, err
	}
	socket, err := endpoint.Path(dir)
	if err == nil {
		err = p.run("up", "-d")
	}
	if err != nil {
		return nil, errors.Join(err, p.End())
	}
	p.People = api.Dial(socket)
	for i := range n {
		token, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("a%d.token", i)))
		if err != nil {
			return nil, errors.Join(err, p.End())
		}
		p.Agents = append(p.Agents, api.DialAgent(socket, strings.TrimSpace(string(token))))
	}
	return p, nil
}

func (p *Project) run(args ...string) error {
	cmd := exec.Command(p.coppice, args...)
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("coppice %s: %w: %s", args[0], err, out)
	}
	return nil
}

// End stops all of it.
func (p *Project) End() error {
	if p.People != nil {
		p.People.Close()
	}
	for _, c := range p.Agents {
		c.Close()
	}
	return p.run("down")
}

// Processor is the time that the daemon of a project has computed; 0 if there is none.
func Processor(dir string) time.Duration {
	var holder struct{ PID int }
	if text, err := os.ReadFile(filepath.Join(dir, ".coppice", "controller.lock")); err == nil {
		json.Unmarshal(text, &holder)
	}
	return ProcessorOf(holder.PID)
}

// ProcessorOf is the time that a process has computed; 0 if there is none.
func ProcessorOf(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// Package ondisk checks that the directories, commands and input files of agents can be used on this machine.
package ondisk

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/lookpath"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Check reports directories, commands and input files of agents that are missing or
// cannot be used. It runs nothing: of a shell command, it checks only the shell.
func Check(decls []spec.Decl) []spec.Problem {
	var problems []spec.Problem
	found := make(map[[3]string]error)
	for i, d := range decls {
		if d.Agent == nil {
			continue
		}
		c := check{agent: d.Agent, decl: i, found: found}
		c.envFiles()
		if c.dir() {
			c.command(d.Agent.Command, "command")
			if d.Agent.Aide != nil {
				before := len(c.problems)
				c.command(d.Agent.Aide.Command, "aidefile")
				for i := range c.problems[before:] {
					c.problems[before+i].Hint = aideHint(d.Agent.Aide.Command[0])
				}
			}
			c.command(d.Agent.Ready.Exec, "ready", "exec")
			c.command(d.Agent.Nudge.Command, "nudge", "command")
			for _, h := range d.Agent.Hooks.Named() {
				c.command(h.Command, h.Name)
			}
			if p := d.Agent.Pool; p != nil {
				c.command(p.Check, "pool", "check")
				c.command(p.OnBoot.Command, "pool", "on_boot")
				c.command(p.OnDeath.Command, "pool", "on_death")
			}
			c.pipeline()
			c.stdin()
		}
		c.runtime()
		c.privileges(runtime.GOOS)
		c.paths(landlock.Supported)
		c.user(account.May)
		problems = append(problems, c.problems...)
	}
	return problems
}

// check checks one agent.
type check struct {
	agent    *spec.Agent
	path     string // PATH in a file of environment variables
	decl     int
	found    map[[3]string]error // results of lookpath.Find by its arguments: agents share commands
	problems []spec.Problem
}

// aideHint returns the hint for a command in [aide] that cannot be run.
func aideHint(program string) string {
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		return "command in [aide] is relative to the directory of each Aidefile; write a whole path for " +
			"a program that all share"
	}
	return "install it, or set command in the table [aide] of a coppice.toml; coppice add writes one"
}

func (c *check) problem(hint, message string, path ...string) {
	c.problems = append(c.problems, spec.Problem{Decl: c.decl, Path: path, Message: message, Hint: hint})
}

func (c *check) dir() bool {
	dir := c.agent.Dir
	info, err := os.Stat(dir)
	switch {
	case err != nil && strings.Contains(dir, "/~"):
		c.problem("write the whole path", "the directory "+spec.Quote(dir)+" does not exist; ~ is not expanded", "dir")
	case errors.Is(err, fs.ErrNotExist):
		c.problem("create it with mkdir", "the directory "+spec.Quote(dir)+" does not exist", "dir")
	case err != nil:
		c.problem("", "the directory "+spec.Quote(dir)+" cannot be used: "+toml.Reason(err).Error(), "dir")
	case !info.IsDir():
		c.problem("", "dir is "+spec.Quote(dir)+", not a directory, expected one", "dir")
	default:
		return true
	}
	return false
}

func (c *check) command(argv []string, path ...string) {
	if len(argv) == 0 || argv[0] == "" {
		return // reported by Assemble
	}
	search := [3]string{argv[0], c.agent.Dir, SearchPath(c.agent.Env, c.path)}
	err, ok := c.found[search]
	if !ok {
		_, err = lookpath.Find(search[0], search[1], search[2])
		c.found[search] = err
	}
	name := spec.Quote(argv[0])
	if strings.Contains(argv[0], "/") && argv[0][0] != '/' {
		name += " in " + spec.Quote(c.agent.Dir)
	}
	switch {
	case err == nil:
	case errors.Is(err, syscall.EISDIR):
		c.problem("", "the command "+name+" is a directory, expected a program", path...)
	case errors.Is(err, fs.ErrPermission):
		c.problem("make it executable with chmod +x", "the command "+name+" is not executable", path...)
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(argv[0], "/"):
		c.problem("check the path", "the command "+name+" does not exist", path...)
	case errors.Is(err, fs.ErrNotExist):
		c.problem("install it, or write its path", "the command "+name+" is not in PATH", path...)
	default:
		c.problem("", "the command "+name+" cannot be run: "+toml.Reason(err).Error(), path...)
	}
}

// SearchPath returns the PATH of a command: from env, else from a file of variables, else
// from this process.
func SearchPath(env map[string]string, ofFile string) string {
	if own, ok := env["PATH"]; ok {
		return own
	}
	return cmp.Or(ofFile, os.Getenv("PATH"))
}

// pipeline checks the commands of stages. A relative path with a slash is one in the worktree of an attempt, which has
// the files of the branch and what set_up makes, so it cannot be checked here.
func (c *check) pipeline() {
	p := c.agent.Pipeline
	if p == nil {
		return
	}
	look := func(argv []string, key ...string) {
		inTree := len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0])
		if !inTree && !slices.Equal(argv, c.agent.Command) { // which is reported at its own place
			c.command(argv, append([]string{"pipeline"}, key...)...)
		}
	}
	look(p.SetUp, "set_up")
	for _, n := range pipeline.Names() {
		look(p.Of(n).Command, n.String(), "command")
	}
}

// runtime checks that tmux is in the PATH of this process if an agent needs it.
func (c *check) runtime() {
	if c.agent.Runtime != spec.Tmux {
		return
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		c.problem(`install it (apt install tmux, dnf install tmux, brew install tmux) or write runtime = "proc"`,
			"tmux is not installed or not in PATH, expected version 3.2 or later", "runtime")
	}
}

// privileges reports settings that the operating system does not support.
func (c *check) privileges(system string) {
	if c.agent.NoNewPrivileges && system != "linux" {
		c.problem("remove it, or run this project on Linux",
			"no_new_privileges is true on "+system+", expected it on Linux only: other systems cannot do that",
			"no_new_privileges")
	}
}

// paths checks where an agent may write, and that the kernel can enforce that.
func (c *check) paths(supported func() error) {
	a := c.agent
	p := landlock.New(a.ReadWritePaths, a.ReadOnlyPaths)
	if a.Pipeline != nil { // they limit its stages
		p = landlock.New(a.Pipeline.Writable, a.Pipeline.ReadOnly)
	}
	if p == nil {
		return
	}
	if err := supported(); err != nil {
		c.problem("remove it, or run this project where coppice doctor finds Landlock",
			"read_write_paths is set where nothing can enforce it: "+err.Error(), "read_write_paths")
		return
	}
	if err := p.Check(); err != nil {
		key, _, _ := strings.Cut(err.Error(), ":")
		c.problem("", err.Error(), key)
	}
}

// user checks that an agent can run as its user: that coppice may switch users, that the user
// exists, and that the user can reach the directory and the program.
func (c *check) user(may func() error) {
	a := c.agent
	if a.User == "" {
		return
	}
	if err := may(); err != nil {
		c.problem("run coppice as root, as a system service for example, or remove it",
			"user is "+spec.Quote(a.User)+", expected none where coppice may not change the user: "+err.Error(), "user")
		return
	}
	who, err := account.Find(a.User, a.Group)
	if err != nil {
		key := "user"
		if _, err := account.Find(a.User, ""); err == nil {
			key = "group"
		}
		c.problem("create it, or write a number", err.Error()+", expected the name or number of one", key)
		return
	}
	if int(who.UID) == os.Geteuid() {
		c.problem("remove it, or write another one",
			"user is "+spec.Quote(a.User)+", the user that runs coppice itself, expected another one", "user")
		return
	}
	if err := who.Reach(a.Dir, account.Execute); err != nil {
		c.problem("change the permissions of that directory, or dir",
			err.Error()+", expected a working directory within reach", "dir")
		return
	}
	if len(a.Command) == 0 {
		return
	}
	if file, err := lookpath.Find(a.Command[0], a.Dir, SearchPath(a.Env, "")); err == nil {
		if err := who.Reach(file, account.Execute); err != nil {
			c.problem("change its permissions, or install it elsewhere",
				err.Error()+", expected a program that the user may run", "command")
		}
	}
}

// envFiles checks the files of environment variables.
func (c *check) envFiles() {
	for i, file := range c.agent.EnvFiles {
		vars, err := envfile.Read(file)
		if err != nil {
			c.problem("", "env_file: "+err.Error(), "env_file", strconv.Itoa(i))
		} else if path, ok := vars["PATH"]; ok {
			c.path = path
		}
	}
}

func (c *check) stdin() {
	file := c.agent.Stdin
	if file == "" {
		return
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.problem("", "the input file "+spec.Quote(file)+" does not exist, expected a file or \"null\"", "stdin")
	case err != nil:
		c.problem("", "the input file "+spec.Quote(file)+" cannot be used: "+toml.Reason(err).Error(), "stdin")
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeCharDevice == 0:
		// Opening a FIFO could block the start forever.
		c.problem("", "the input file "+spec.Quote(file)+" is a "+toml.FileType(info.Mode())+
			", expected a regular file", "stdin")
	}
}

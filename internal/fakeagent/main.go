package fakeagent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Arguments with which a fake starts itself.
const (
	relaunched = "--fake-relaunched" // as the process that works, below the one that was called
	left       = "--fake-left"       // as a process that it leaves behind
)

// maxPrompt bounds what is read of a prompt, in bytes.
const maxPrompt = 16 << 20

// leftTime is how long a process lives that was left behind, unless it is ended.
const leftTime = time.Hour

// Called returns the command line as which a program is called, from its first argument.
func Called(arg0 string) (agentcli.CLI, bool) {
	for _, cli := range CLIs() {
		if filepath.Base(arg0) == Program(cli) {
			return cli, true
		}
	}
	return "", false
}

// Main plays a call of a command line, and returns its exit code.
func Main(cli agentcli.CLI, args []string) int {
	inner := len(args) > 0 && args[0] == relaunched
	if inner {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == left {
		<-time.After(leftTime)
		return 0
	}
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "fake %s: %v\n", cli, err)
		return 1
	}
	if cli == agentcli.ACP {
		set, err := ParseSetting(os.Getenv(EnvName))
		if err != nil {
			return fail(err)
		}
		return mainACP(set, os.Stdin, os.Stdout)
	}
	q, err := parse(cli, args)
	if err != nil {
		return fail(err)
	}
	measured := agentcli.Measured(cli)
	version := measured[len(measured)-1]
	switch {
	case q.askVersion:
		fmt.Println(versionText(cli, version))
		return 0
	case q.askHelp:
		fmt.Printf("This is a fake of %s %s, for coppice run --fake. It does nothing.\n", cli, version)
		return 0
	case q.command != "":
		fmt.Fprintf(os.Stderr, "fake %s: %s does nothing in a fake\n", cli, q.command)
		return 0
	}
	set, err := ParseSetting(os.Getenv(EnvName))
	if err != nil {
		return fail(err)
	}
	if !q.headless {
		return fail(errors.New("only calls without a terminal are played, such as: " + headlessCall(cli)))
	}
	if q.control {
		agent := os.Getenv(proc.EnvAgent)
		item := set.Plan.At(time.Since(set.Start), agent, 0)
		return answerControl(os.Stdin, os.Stdout, set.limits(item, os.Getenv("ANTHROPIC_API_KEY") != ""))
	}
	if !inner && wraps(cli) {
		return relaunch(cli, args)
	}
	p := &player{
		output: output{out: os.Stdout, err: os.Stderr, stream: q.format == asStream, now: time.Now}, request: q,
		cli: cli, version: version, set: set, env: os.Getenv, spawn: func() error { return leave(cli, set) },
	}
	if p.cwd, err = os.Getwd(); err != nil {
		return fail(err)
	}
	if p.prompt = strings.Join(q.words, " "); q.stdin && !term.IsTerminal(int(os.Stdin.Fd())) {
		if cli == agentcli.Codex && p.prompt != "" {
			p.say("Reading additional input from stdin...")
		}
		text, _ := io.ReadAll(io.LimitReader(os.Stdin, maxPrompt))
		p.prompt += string(text)
	}
	if err := p.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	agent := os.Getenv(proc.EnvAgent)
	if err = set.record(agent, cli, func(number uint64) Scenario {
		p.item = set.Plan.At(time.Since(set.Start), agent, number)
		return p.item.Scenario
	}); err != nil {
		return fail(err)
	}
	if err := Has(cli, p.item.Scenario); err != nil {
		return fail(err)
	}
	p.pieces = p.item.Scenario == Split
	if p.item.Scenario == UsedUp { // a run meets the limit, as ever
		p.item.Scenario = Quota
	}
	return p.run()
}

// check returns what the real command line says of arguments that it does not accept.
func (p *player) check() error {
	switch {
	case p.cli == agentcli.Claude && p.format == asStream && !p.verbose:
		return errors.New("Error: When using --print, --output-format=stream-json requires --verbose")
	case strings.TrimSpace(p.prompt) != "":
		return nil
	case p.cli == agentcli.Claude:
		return errors.New(
			"Error: Input must be provided either through stdin or as a prompt argument when using --print",
		)
	}
	return fmt.Errorf("fake %s: there is no prompt, neither as an argument nor on standard input", p.cli)
}

// run plays the call until its end or a signal.
func (p *player) run() int {
	signals := make(chan os.Signal, 4)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if _, ok := p.reaction(sig.(syscall.Signal)); ok {
			signal.Notify(signals, sig)
		}
	}
	p.speaks = map[agentcli.CLI]dialect{
		agentcli.Claude: &claude{player: p}, agentcli.Codex: &codex{player: p}, agentcli.Gemini: &gemini{player: p},
		agentcli.Opencode: &opencode{player: p}, agentcli.Copilot: &copilot{player: p},
	}[p.cli]
	done := make(chan int, 1)
	go func() { done <- p.play() }()
	for {
		select {
		case code := <-done:
			return code
		case sig := <-signals:
			end, _ := p.reaction(sig.(syscall.Signal))
			if end == nil {
				continue
			}
			p.mu.Lock() // nothing follows what is written here
			return end()
		}
	}
}

// reaction returns how a command line ends at a signal that its process group has got; nil if it goes on. It reports
// false if the signal ends it as it ends any process.
func (p *player) reaction(sig syscall.Signal) (end func() int, ok bool) {
	exits := func(code int) func() int { return func() int { return code } }
	switch p.cli {
	case agentcli.Claude:
		switch sig {
		case syscall.SIGTERM:
			return exits(128 + int(sig)), true
		case syscall.SIGINT:
			if c, ok := p.speaks.(*claude); ok {
				return c.interrupted, true
			}
		}
		return nil, true
	case agentcli.Codex:
		switch sig {
		case syscall.SIGINT:
			return exits(1), true
		case syscall.SIGHUP:
			return nil, true
		}
	case agentcli.Gemini: // without a result
		return exits(0), true
	}
	return nil, false
}

// wraps reports whether a command line consists of a process that only starts the one that works.
func wraps(cli agentcli.CLI) bool {
	return cli == agentcli.Gemini || cli == agentcli.Opencode || cli == agentcli.Copilot
}

// relaunch starts the process that works, and ends as it ends. A signal to this process alone does what was
// measured: gemini ignores it, opencode ignores SIGINT, and copilot ends, while the process that works lives on.
func relaunch(cli agentcli.CLI, args []string) int {
	ignored := make(chan os.Signal, 4)
	switch cli {
	case agentcli.Gemini:
		signal.Notify(ignored, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case agentcli.Opencode:
		signal.Notify(ignored, syscall.SIGINT)
	}
	cmd, err := self(cli, append([]string{relaunched}, args...)...)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fake %s: %v\n", cli, err)
		return 1
	}
	if cli == agentcli.Opencode {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
		go func() { cmd.Process.Signal(<-ended) }()
	}
	cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return dieOf(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// dieOf ends this process by a signal.
func dieOf(sig syscall.Signal) int {
	signal.Reset(sig)
	syscall.Kill(os.Getpid(), sig)
	<-time.After(time.Second)
	return 128 + int(sig)
}

// leave starts a process in a session of its own, which is not waited for.
func leave(cli agentcli.CLI, set Setting) error {
	cmd, err := self(cli, left)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return set.recordLeft(cmd.Process.Pid)
}

// self returns this program as a command.
func self(cli agentcli.CLI, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = Program(cli)
	return cmd, nil
}

// versionText returns what a command line prints with --version.
func versionText(cli agentcli.CLI, version string) string {
	switch cli {
	case agentcli.Claude:
		return version + " (Claude Code)"
	case agentcli.Codex:
		return "codex-cli " + version
	}
	return version
}

// headlessCall returns how a command line is called without a terminal.
func headlessCall(cli agentcli.CLI) string {
	switch cli {
	case agentcli.Codex:
		return "codex exec --json PROMPT"
	case agentcli.Opencode:
		return "opencode run --format json PROMPT"
	}
	return string(cli) + " -p PROMPT"
}

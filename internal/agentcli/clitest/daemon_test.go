package clitest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakemodel"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/status"
)

// plainKinds returns the kinds that are agents of their own: those that speak the Agent Client Protocol are not.
func plainKinds() []Kind { return []Kind{Claude, ClaudeOAuth, Codex, Gemini, Opencode, Copilot} }

// callTokens returns the tokens of an answer of the model.
func callTokens() int64 {
	u := fakemodel.AnswerUsage()
	return int64(u.Input + u.Written + u.Output)
}

// A daemonRun is a real command line under a daemon.
type daemonRun struct {
	t     *testing.T
	kind  Kind
	model *model
	home  *Home
	*daemon
}

// up starts the daemon of a project.
func (r *daemonRun) up(toml string) {
	r.t.Helper()
	r.daemon = newProject(r.t, r.home, toml, nil).up()
	r.await("p/a started")
}

// ledger stops the daemon, and returns what it has counted.
func (r *daemonRun) ledger() cost.Row {
	r.t.Helper()
	r.down()
	r.model.listener.Close() // waits for the requests in progress
	return get[cost.Report](r.project, "cost").Total
}

// costs checks that the ledger has one call, with the tokens that the server has served.
func (r *daemonRun) costs(d uncounted) {
	r.t.Helper()
	c := r.ledger()
	if err := r.model.compare(r.kind, 0, c.Tokens, d); err != nil || c.Calls != 1 {
		r.t.Errorf("%d calls: %v\n%s", c.Calls, err, &r.seen)
	}
}

// budgeted returns a budget of as many tokens as some answers of the model have. It is per run, which is the same at
// midnight.
func budgeted(answers int) string {
	return fmt.Sprintf("[[budget]]\nname = \"b\"\nper = \"run\"\ntokens = %d\n", int64(answers)*callTokens()-1)
}

// parked checks that the agent waits for its budget, has not failed, and that a person is asked.
func (r *daemonRun) parked() {
	r.t.Helper()
	r.await("asks q-1: budget b: ", "p/a waits: budget b: ")
	for _, n := range get[[]status.Node](r.project, "ps") {
		if n.Path == "p/a" && (n.State != "waiting" || n.Failed || n.Restarts != 0 || n.Incarnation != 1) {
			r.t.Errorf("%+v", n)
		}
	}
	b := get[[]budget.Info](r.project, "budget", "ls")[0]
	if b.State != budget.Reached || !slices.Equal(b.Waiting, []string{"p/a"}) || !slices.Equal(b.Parked, b.Waiting) {
		r.t.Errorf("%+v", b)
	}
	inbox := get[struct{ Questions []question.Question }](r.project, "inbox").Questions
	if len(inbox) != 1 || inbox[0].From != budget.Sender+"b" {
		r.t.Errorf("%+v", inbox)
	}
}

// bounded is a run of a model that calls tools without end. It is ended while the tool works whose call has reached
// the budget: that tool ends when it is killed.
func (r *daemonRun) bounded() {
	answers := r.untilLoop()
	last := answers
	if r.kind == Opencode {
		last++ // it reports a step when the tools of the step have ended
	}
	r.home.write(r.t, "work/tool", // a script: gemini refuses command substitutions
		fmt.Sprintf("echo >>calls; test $(wc -l <calls) -lt %d || sleep 100000\n", last))
	r.model.answers(r.t, "loop=sh tool")
	r.loops(answers, last)
	text, err := os.ReadFile(filepath.Join(r.home.work, "calls"))
	if n := bytes.Count(text, []byte{'\n'}); err != nil || n < answers-1 { // it may have been ended before the last one
		r.t.Errorf("%d tools have run: %v", n, err)
	}
}

// paced is such a run with tools that take a second each. It is ended before the second call that is too much.
func (r *daemonRun) paced() {
	answers := r.untilLoop()
	r.model.answers(r.t, "loop=sleep 1")
	r.loops(answers, answers+1)
}

// untilLoop returns how many answers the budget of a model that repeats itself allows.
func (r *daemonRun) untilLoop() int {
	if !*long || r.kind == Gemini {
		return 3 // gemini stops a loop itself after five calls
	}
	return 17
}

// loops checks a run whose budget has as many answers. The server has served those, and at most so many.
func (r *daemonRun) loops(answers, most int) {
	r.t.Helper()
	r.up(budgeted(answers) + r.home.agentTOML(r.t, "always"))
	r.parked()
	r.model.listener.Close()
	all, side, _ := r.model.served(0)
	n := int((all - side) / callTokens())
	if n < answers || n > most {
		r.t.Errorf("the server has served %d answers, expected %d to %d: %+v", n, answers, most, r.model.Ledger(tag))
	}
	// It may have been ended before it has reported the last ones.
	least, c := int64(answers)*callTokens(), r.ledger()
	if c.Calls != 1 || c.Tokens == nil || *c.Tokens < least || *c.Tokens > int64(n)*callTokens() {
		r.t.Errorf("%+v, the server has served %d answers\n%s", c, n, &r.seen)
	}
}

// screen is a session in tmux, in which the model calls a tool and answers. It goes on until its budget is reached: its
// session file tells what it has used.
func (r *daemonRun) screen() {
	if _, err := tmux.Version(r.t.Context()); err != nil {
		exectest.Missing(r.t, err)
	}
	r.onScreen("runtime = \"tmux\"\n")
}

// terminal is such a session in a terminal that nothing is attached to.
func (r *daemonRun) terminal() { r.onScreen("terminal = true\n") }

func (r *daemonRun) onScreen(how string) {
	r.t.Helper()
	r.model.answers(r.t, "tool")
	command := r.home.interactive(r.t)
	r.up(budgeted(2) + fmt.Sprintf("[[agent]]\nname = \"a\"\nrestart = \"always\"\ndir = %q\ncommand = %s\n%s",
		r.home.work, tomlList(command), how))
	r.parked()
	d := uncounted{why: "it leaves out its request for a title"}
	if r.kind == Codex {
		_, d.tokens, _ = r.model.served(0)
	}
	r.costs(d)
}

// tool is a run in which the model calls a tool.
func (r *daemonRun) tool() {
	r.model.answers(r.t, "tool")
	r.up(r.home.agentTOML(r.t, "never"))
	r.completes()
	r.costs(uncounted{})
}

// adopted is a run whose daemon is killed while a tool works. The next daemon sees its end.
func (r *daemonRun) adopted() {
	gate := filepath.Join(r.home.work, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.model.answers(r.t, "tool=cat "+gate)
	r.up(r.home.agentTOML(r.t, "never"))
	opened := make(chan *os.File, 1)
	go func() {
		f, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for the tool
		if err != nil {
			r.t.Error(err)
		}
		opened <- f
	}()
	select {
	case f := <-opened:
		defer f.Close()
		r.kill()
		r.daemon = r.project.up()
		r.await("p/a taken over")
		f.Close()
	case <-time.After(waitLimit()):
		r.t.Fatal("its tool does not run")
	}
	r.completes()
	r.costs(uncounted{})
}

// completes waits for the end of a run that is not started again.
func (r *daemonRun) completes() {
	r.t.Helper()
	if line := r.await("not restarted"); !strings.Contains(line, "completed") {
		r.t.Error(line)
	}
}

// quota is a run that reaches the limit of its account after a tool.
func (r *daemonRun) quota() {
	r.model.answers(r.t, "tool,quota")
	r.up(r.home.agentTOML(r.t, "always"))
	r.await("p/a waits: ")
	r.costs(uncounted{})
}

// inTool starts a run, and waits until its tool runs.
func (r *daemonRun) inTool() {
	tool := r.home.NewTool(r.t)
	r.model.answers(r.t, "tool="+tool.Command())
	r.up(r.home.agentTOML(r.t, "never"))
	select {
	case <-tool.Runs():
	case <-time.After(waitLimit()):
		r.t.Fatal("its tool does not run")
	}
}

// stopped is a run that a person stops while a tool works.
func (r *daemonRun) stopped() {
	r.inTool()
	if out, err := r.coppice("stop", "a").CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	r.costs(differences()[string(r.kind)+"/stop-tool"])
}

// killed is a run that is killed while a tool works.
func (r *daemonRun) killed() {
	r.inTool()
	for _, n := range get[[]status.Node](r.project, "ps") {
		if n.Path == "p/a" {
			exectest.Signal(r.t, n.PID, syscall.SIGKILL)
		}
	}
	r.await("not restarted")
	r.costs(differences()[string(r.kind)+"/kill-tool"])
}

// Budgets and costs of a daemon are those of the server, for real command lines.
func TestDaemon(t *testing.T) {
	set := Installed(t, "../../../.cache/clis")
	screens := []Kind{Claude, ClaudeOAuth, Codex}
	for _, c := range []struct {
		name  string
		run   func(*daemonRun)
		kinds []Kind
		short []Kind
	}{
		{"quota", (*daemonRun).quota, plainKinds(), nil}, // opencode and copilot try again for more than a minute
		{"budget", (*daemonRun).bounded, plainKinds(), []Kind{Claude, Codex}},
		{"paced", (*daemonRun).paced, plainKinds(), nil},
		{"tool", (*daemonRun).tool, plainKinds(), []Kind{Codex}},
		{"adopted", (*daemonRun).adopted, plainKinds(), []Kind{Claude}},
		{"killed", (*daemonRun).killed, plainKinds(), []Kind{Claude, Codex}},
		{"stopped", (*daemonRun).stopped, plainKinds(), nil},
		{"screen", (*daemonRun).screen, screens, []Kind{Codex}},
		{"terminal", (*daemonRun).terminal, screens, []Kind{Claude}},
	} {
		for _, k := range c.kinds {
			if !*long && !slices.Contains(c.short, k) {
				continue
			}
			t.Run(string(k)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				m := newModel(t)
				c.run(&daemonRun{t: t, kind: k, model: m, home: NewHome(t, set, k, m.listener.URL("@", tag))})
			})
		}
	}
}

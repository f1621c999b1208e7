package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/fakemodel"
)

// An aideRun is a run of an Aidefile by coppice, which talks to a real agent over the Agent Client Protocol.
type aideRun struct {
	t     *testing.T
	kind  Kind
	model *model
	home  *Home
}

// speaksACP returns the command with which the command line of the home speaks the Agent Client Protocol.
func (h *Home) speaksACP() []string {
	argv := []string{h.set.Program(h.kind)}
	switch h.kind {
	case Gemini:
		return append(argv, "--acp", "-m", "gemini-2.5-pro")
	case Opencode:
		return append(argv, "acp")
	case Copilot:
		return append(argv, "--acp")
	}
	return argv
}

// run makes the run, and returns what coppice has written.
func (r *aideRun) run(aidefile string) string {
	r.t.Helper()
	toml := "[aide]\ncommand = " + tomlList(r.home.speaksACP()) +
		"\nbackoff_base = \"10ms\"\n[[agent]]\naidefile = \"a\"\n"
	cmd := newProject(r.t, r.home, toml, map[string]string{"a/Aidefile": aidefile}).coppice("run")
	out, _ := cmd.CombinedOutput() // it says how the run has ended
	return string(out)
}

// says checks that the run has said something.
func (r *aideRun) says(out, text string) {
	r.t.Helper()
	if !strings.Contains(out, text) {
		r.t.Errorf("it does not say %q:\n%s\n%+v", text, out, r.model.Ledger(tag))
	}
}

// allows has the agent run commands, if it asks.
const allows = "[acp]\nallow = [\"execute\"]\n"

// done is a run in which the model calls a tool. The tokens are those that the server has served.
func (r *aideRun) done() {
	file := filepath.Join(r.home.work, "made")
	r.model.answers(r.t, "tool=echo >"+file)
	out := r.run(allows)
	served, side, _ := r.model.served(0)
	r.says(out, fmt.Sprintf("success (%d tokens)", served-side))
	r.says(out, fakemodel.Answer)
	if _, err := os.Stat(file); err != nil {
		r.t.Error(err)
	}
}

// denied is a run whose only tool is refused.
func (r *aideRun) denied() {
	file := filepath.Join(r.home.work, "made")
	r.model.answers(r.t, "tool=echo >"+file)
	out := r.run("[budget]\nmax_retries = 0\n")
	r.says(out, "permission denied: ")
	r.says(out, "aide: not allowed: ")
	if _, err := os.Stat(file); err == nil {
		r.t.Error("the tool was not denied")
	}
}

// bounded is a run of a model that calls tools without end. It is over its budget by no more than a few calls, which
// were made until their usage was seen.
func (r *aideRun) bounded() {
	tokens := int64(20_000)
	if r.kind == Gemini {
		tokens = 2000 // it stops the loop itself after five calls
	}
	r.model.answers(r.t, "loop")
	out := r.run(fmt.Sprintf("[budget]\ntokens = %d\n", tokens) + allows)
	r.says(out, "budget exhausted")
	if served, _, _ := r.model.served(0); served < tokens || served > tokens+20_000 {
		r.t.Errorf("the server has served %d tokens", served)
	}
}

// continued is a run whose first try is killed while a tool works. The next one continues the session, if the agent
// finds it.
func (r *aideRun) continued() {
	r.model.answers(r.t, "tool=kill -9 $PPID")
	go func() {
		<-r.model.asked
		r.model.SetScenario(tag, "normal")
	}()
	out := r.run(allows)
	r.says(out, "aide: try 1: ")
	r.says(out, "RETRIES: 1\n")
	r.says(out, "aide: success")
	if r.kind == Gemini {
		return // it does not find the session
	}
	last := r.model.Ledger(tag)
	if n := last[len(last)-1].Messages; n < 3 {
		r.t.Errorf("the model was not asked to continue: %d messages\n%s\n%+v", n, out, last)
	}
}

// Runs of an Aidefile talk to real agents.
func TestAidefiles(t *testing.T) {
	set := Installed(t, "../../../.cache/clis")
	for _, c := range []struct {
		name  string
		run   func(*aideRun)
		kinds []Kind
		short []Kind
	}{
		{"done", (*aideRun).done, []Kind{ACP, Gemini, Opencode, Copilot}, []Kind{ACP, Copilot}},
		{"denied", (*aideRun).denied, []Kind{ACP, Gemini, Copilot}, nil}, // opencode asks for nothing
		{"budget", (*aideRun).bounded, []Kind{ACP, Gemini, Opencode, Copilot}, []Kind{ACP, Opencode}},
		{"continued", (*aideRun).continued, []Kind{ACP, Gemini, Opencode}, nil}, // the shell of copilot is not its child
	} {
		for _, k := range c.kinds {
			if !*long && !slices.Contains(c.short, k) {
				continue
			}
			t.Run(string(k)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				m := newModel(t)
				c.run(&aideRun{t, k, m, NewHome(t, set, k, m.listener.URL("@", tag))})
			})
		}
	}
}

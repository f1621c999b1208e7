package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// edit replaces a part of the project file.
func (f *fleet) edit(old, by string) {
	f.t.Helper()
	file := filepath.Join(f.dir, "coppice.toml")
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), old) != 1 {
		f.t.Fatalf("%q: %v in\n%s", old, err, text)
	}
	write(f.t, file, strings.Replace(string(text), old, by, 1))
}

// awaitStates waits for states of nodes, given as "a running".
func (f *fleet) awaitStates(want ...string) {
	f.t.Helper()
	eventually(f.t, strings.Join(want, ", "), func() bool {
		for _, w := range want {
			name, state, _ := strings.Cut(w, " ")
			if out, err := f.try("ps", "--json"); err != nil || !strings.Contains(out, `"path":"t/`+name+`"`) || f.node("t/"+name).State != state {
				return false
			}
		}
		return true
	})
}

// A suspended project runs nothing until it is resumed. Nodes stopped individually before stay
// stopped.
func TestSuspendProject(t *testing.T) {
	t.Parallel()
	sleep := "exec sleep 1000"
	for _, strategy := range []string{"one_for_one", "rest_for_one"} {
		t.Run(strategy, func(t *testing.T) {
			f := newFleet(t, "[supervision]\nstrategy = \""+strategy+"\"\n\n", agentTOML("a", sleep), agentTOML("b", sleep),
				supervisorTOML("s", []string{"c"}), agentTOML("c", sleep), agentTOML("crashes", "exit 1", `backoff = { kind = "fixed", base = "5m" }`))
			f.up()
			f.awaitStates("crashes restarting")
			f.do("stop", "b")
			if out := f.do("suspend"); out != "the project is suspended\n" {
				t.Errorf("suspend says %q", out)
			}
			quiet := func(when string) {
				t.Helper()
				f.awaitStates("a suspended", "b stopped", "s suspended", "crashes suspended")
				if out := f.do("status"); !strings.Contains(out, "suspended by hand since ") {
					t.Errorf("%s, status says:\n%s", when, out)
				}
				if p := f.node("t"); p.State != "suspended" {
					t.Errorf("%s, the project is %+v", when, p)
				}
			}
			quiet("at first")
			if out, err := f.try("start", "a"); err == nil || !strings.Contains(out, "the project is suspended; go on with: coppice resume") {
				t.Errorf("start: %v, %s", err, out)
			}
			f.do("suspend", ".") // it already is
			f.crash()
			f.do("up", "-d")
			quiet("after a crash")
			f.do("down")
			f.do("up", "-d")
			quiet("after an end")
			f.edit("[[supervisor]]", agentTOML("d", sleep)+"[[supervisor]]")
			eventually(t, "the new agent", func() bool { out, _ := f.try("ps"); return strings.Contains(out, "t/d") })
			f.do("reload")
			f.awaitStates("d suspended")
			for _, p := range processesIn(t, f.dir) {
				if strings.Contains(p.name, "sleep 1000") {
					t.Errorf("%v runs", p)
				}
			}
			f.do("resume")
			f.awaitStates("a running", "d running", "s/c running", "b stopped")
			if out := f.do("status"); strings.Contains(out, "suspended by hand") {
				t.Errorf("after all, status says:\n%s", out)
			}
			for kind, path := range map[event.Type]string{event.ProjectSuspended: "t", event.ProjectResumed: "t", event.AgentSuspended: "t/a"} {
				if n := len(f.events(kind, path)); n != 1 {
					t.Errorf("%d events %s", n, kind)
				}
			}
		})
	}
}

// The file can also suspend the project.
func TestSuspendedInFile(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	f := newFleet(t, "suspended = true\n\n", agentTOML("a", "exec sleep 1000"), supervisorTOML("s", []string{"b"}), agentTOML("b", "exec sleep 1000"))
	f.do("up", "-d")
	f.awaitStates("a suspended", "s suspended")
	if out := f.do("status"); !strings.Contains(out, "suspended by the file") {
		t.Errorf("status says:\n%s", out)
	}
	if out, err := f.try("start", "a"); err == nil || !strings.Contains(out, "the file suspends the project") {
		t.Errorf("start: %v, %s", err, out)
	}
	f.edit("suspended = true", "suspended = false")
	f.awaitStates("a running", "s/b running")
	f.edit("suspended = false", "suspended = true")
	f.awaitStates("a suspended", "s suspended")
	f.edit("suspended = true", "")
	f.awaitStates("a running", "s/b running")
	f.edit("children = [\"b\"]", "children = [\"b\"]\nsuspended = true")
	f.awaitStates("s/b suspended", "a running")
	if x := f.explain("t/s/b"); x.Rule != "the file suspends it" {
		t.Errorf("%+v", x)
	}
}

package shim

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// shareModel says what two runtimes and the shims of a directory should have done. The agents are real processes.
type shareModel struct {
	*rapid.T
	dir      string // of the slots
	notes    string // directory of the files in which agents name their processes
	runtimes [2]*Runtime
	most     int  // agents of a shim
	ungroup  bool // there are no control groups
	agents   map[string]*modelAgent
	starts   int
}

// modelAgent is the slot of an agent.
type modelAgent struct {
	path     string
	last     uint64              // incarnation that the slot knows; 0 if none
	end      supervisor.ExitKind // of it; NoExit while it runs
	shim     proc.Identity       // that serves the slot; zero if none does
	all      []proc.Identity     // processes of the last incarnation: of the agent, and what it has left behind
	sessions [2]*session         // of the last incarnation
}

func (a *modelAgent) runs() bool { return a.last > 0 && a.end == supervisor.NoExit }

func (a *modelAgent) dir(m *shareModel) string {
	name, _ := wire.DirName(a.path)
	return filepath.Join(m.dir, name)
}

// Whatever happens to agents, shims, files and runtimes: each agent is as the model says, nothing happens to its
// neighbours, and nothing of an incarnation outlives it.
func TestShareModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		if rapid.IntRange(0, 31).Draw(rt, "leave out") > 0 {
			return // a case takes a second: some of 100 are enough
		}
		m := newShareModel(rt, t)
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"":         m.do(m.check),
			"start":    m.to(m.start),
			"start 2":  m.to(m.start),
			"stale":    m.to(m.startStale),
			"kill":     m.to(m.kill),
			"stop":     m.to(m.stop),
			"remove":   m.to(m.remove),
			"shim":     m.to(m.killShim),
			"quit":     m.do(m.quit),
			"reopen":   m.do(func() { m.reopen(m.drawNumber()) }),
			"per shim": m.do(m.setPerShim),
			"damage":   m.to(m.damage),
		})
	})
}

func newShareModel(rt *rapid.T, t *testing.T) *shareModel {
	top, err := os.MkdirTemp(t.TempDir(), "model")
	if err != nil {
		rt.Fatal(err)
	}
	m := &shareModel{T: rt, dir: filepath.Join(top, "run"), notes: top, agents: make(map[string]*modelAgent)}
	for _, path := range []string{"app/a", "app/b", "app/c", "app/d", "other/a", "other/b"} {
		m.agents[path] = &modelAgent{path: path}
	}
	m.ungroup = rapid.Bool().Draw(rt, "without groups")
	m.open(0)
	m.open(1)
	m.setPerShim()
	return m
}

// do returns an action.
func (m *shareModel) do(f func()) func(*rapid.T) {
	return func(t *rapid.T) {
		m.T = t
		f()
	}
}

// to returns an action on an agent.
func (m *shareModel) to(f func(*modelAgent)) func(*rapid.T) { return m.do(func() { f(m.draw()) }) }

func (m *shareModel) draw() *modelAgent {
	return m.agents[rapid.SampledFrom(slices.Sorted(maps.Keys(m.agents))).Draw(m.T, "agent")]
}

func (m *shareModel) drawRuntime() *Runtime { return m.runtimes[m.drawNumber()] }

// drawNumber returns the number of a runtime.
func (m *shareModel) drawNumber() int { return rapid.IntRange(0, 1).Draw(m.T, "runtime") }

func (m *shareModel) open(i int) {
	r, err := Open(Options{Dir: m.dir, PerShim: m.most, WithoutGroups: m.ungroup})
	if err != nil {
		m.Fatal(err)
	}
	m.runtimes[i], m.dir, m.ungroup = r, r.Dir, r.groups.tree == nil
}

// served returns the agents whose slots are served by a shim.
func (m *shareModel) served(shim proc.Identity) (all []*modelAgent) {
	for _, path := range slices.Sorted(maps.Keys(m.agents)) {
		if a := m.agents[path]; a.shim == shim {
			all = append(all, a)
		}
	}
	return all
}

// leaves is a script of an agent that leaves a process behind in a session of its own, and another one without its
// environment. It names all of them in the file $0.
const leaves = `a=$( (setsid sh -c 'echo $$; exec sleep 1000 >/dev/null' &) )
b=$( (env -i setsid sh -c 'echo $$; exec sleep 1000 >/dev/null' &) )
echo "$$ $a $b" >$0
echo ready
exec sleep 1000`

func (m *shareModel) launch(a *modelAgent, n uint64) (l runtime.Launch, note string) {
	m.starts++
	note = filepath.Join(m.notes, strconv.Itoa(m.starts))
	l = sh(a.path, n, leaves)
	l.Argv[3] = note
	l.Ready = spec.Ready{Log: "^ready$", Timeout: testTimeout}
	return l, note
}

// start starts the next incarnation.
func (m *shareModel) start(a *modelAgent) {
	l, note := m.launch(a, a.last+1)
	by := m.drawNumber()
	s, err := m.runtimes[by].Start(m.Context(), l)
	if a.runs() {
		if !errors.Is(err, runtime.ErrBusy) {
			m.Fatalf("start of %s, which runs: %v", a.path, err)
		}
		return
	}
	if err != nil {
		m.Fatalf("start of %s: %v", a.path, err)
	}
	a.last, a.end = l.Incarnation, supervisor.NoExit
	a.all = m.processes(note)
	a.sessions[by] = s.(*session)
	m.expectShim(a, shimOf(a.sessions[by]))
	m.adopt(a, 1-by)
}

// expectShim checks that a slot has got the right shim: the one that has it already, or one of its supervisor with
// room, or a new one.
func (m *shareModel) expectShim(a *modelAgent, got proc.Identity) {
	if a.shim != (proc.Identity{}) {
		if got != a.shim {
			m.Fatalf("%s is served by shim %d, expected %d", a.path, got.PID, a.shim.PID)
		}
		return
	}
	room := false
	for _, other := range m.agents {
		if other.shim == got && path.Dir(other.path) != path.Dir(a.path) {
			m.Fatalf("%s has the shim of %s", a.path, other.path)
		}
		room = room || path.Dir(other.path) == path.Dir(a.path) && other.shim.PID > 0 &&
			len(m.served(other.shim)) < m.most
	}
	others := len(m.served(got))
	if others >= m.most {
		m.Fatalf("%s is served by shim %d, which has %d others", a.path, got.PID, others)
	}
	if room && others == 0 {
		m.Fatalf("%s has got a new shim, although there is room in another one", a.path)
	}
	a.shim = got
}

// startStale starts the last incarnation once more.
func (m *shareModel) startStale(a *modelAgent) {
	if a.last == 0 {
		return
	}
	l, _ := m.launch(a, a.last)
	_, err := m.drawRuntime().Start(m.Context(), l)
	if !errors.Is(err, runtime.ErrStale) && !(a.runs() && errors.Is(err, runtime.ErrBusy)) {
		m.Fatalf("start of the last incarnation of %s: %v", a.path, err)
	}
}

// processes reads the note of an agent.
func (m *shareModel) processes(note string) (all []proc.Identity) {
	text, err := os.ReadFile(note)
	if err != nil {
		m.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, _ := strconv.Atoi(field)
		id, err := proc.Identify(pid)
		if err != nil {
			m.Fatal(err)
		}
		all = append(all, id)
	}
	if len(all) != 3 {
		m.Fatalf("the note of an agent is %q", text)
	}
	return all
}

func (m *shareModel) adopt(a *modelAgent, i int) {
	s, err := m.runtimes[i].Adopt(m.Context(), a.path)
	if err != nil {
		m.Fatalf("adopt %s: %v", a.path, err)
	}
	a.sessions[i] = s.(*session)
}

// ended waits until all runtimes know an end.
func (m *shareModel) ended(a *modelAgent, end supervisor.ExitKind) {
	a.end = end
	for i, s := range a.sessions {
		select {
		case <-s.Done():
			if got := s.Exit().Kind; got != end {
				m.Errorf("runtime %d: %s has ended with %v, expected %v", i, a.path, s.Exit(), end)
			}
		case <-time.After(testTimeout):
			m.Fatalf("runtime %d does not report the end of %s: %+v", i, a.path, s.Observe())
		}
	}
}

func (m *shareModel) kill(a *modelAgent) {
	if !a.runs() {
		return
	}
	if rapid.Bool().Draw(m.T, "by another process") {
		a.all[0].Signal(syscall.SIGKILL)
	} else {
		a.sessions[0].Kill()
	}
	m.ended(a, supervisor.Killed)
}

func (m *shareModel) stop(a *modelAgent) {
	if a.runs() {
		a.sessions[m.drawNumber()].Stop()
		m.ended(a, supervisor.ShutDown)
	}
}

func (m *shareModel) remove(a *modelAgent) {
	err := m.drawRuntime().Remove(m.Context(), a.path)
	switch {
	case a.runs() && !errors.Is(err, runtime.ErrBusy):
		m.Fatalf("removing %s, which runs: %v", a.path, err)
	case !a.runs() && err != nil:
		m.Fatalf("removing %s: %v", a.path, err)
	case !a.runs():
		a.last, a.shim = 0, proc.Identity{}
	}
}

func (m *shareModel) killShim(a *modelAgent) {
	if a.shim.PID == 0 {
		return
	}
	all := m.served(a.shim)
	_, removed := os.Lstat(filepath.Join(a.dir(m), wire.LockFile))
	a.shim.Signal(syscall.SIGKILL)
	for _, a := range all {
		a.shim = proc.Identity{}
		if a.runs() {
			m.ended(a, supervisor.Lost)
			if m.ungroup { // then it is not found
				a.all[2].Signal(syscall.SIGKILL)
				m.gone(a.all[2])
			}
		}
	}
	if removed != nil { // as in damage
		os.RemoveAll(a.dir(m))
		a.last = 0
	}
}

// quit makes shims leave the slots in which nothing runs.
func (m *shareModel) quit() {
	if err := m.drawRuntime().Quit(m.Context()); err != nil {
		m.Fatal(err)
	}
	for _, a := range m.agents {
		if !a.runs() {
			a.shim = proc.Identity{}
		}
	}
}

func (m *shareModel) reopen(i int) {
	m.runtimes[i].Close()
	m.open(i)
	for _, a := range m.agents {
		if a.last > 0 {
			m.adopt(a, i)
		}
	}
}

func (m *shareModel) setPerShim() {
	m.most = rapid.IntRange(1, 4).Draw(m.T, "agents of a shim")
	for _, r := range m.runtimes {
		r.SetPerShim(m.most)
	}
}

// damage removes files of a slot, and has something done before they are restored.
func (m *shareModel) damage(a *modelAgent) {
	what := rapid.SampledFrom([]string{wire.SocketFile, wire.LockFile, ""}).Draw(m.T, "remove")
	os.Remove(filepath.Join(a.dir(m), what))
	if what == "" || what == wire.LockFile && a.shim.PID == 0 { // the rest of the slot does not tell what ran there
		os.RemoveAll(a.dir(m))
	}
	if what != wire.SocketFile && a.shim.PID == 0 {
		a.last = 0
	}
	switch rapid.IntRange(0, 6).Draw(m.T, "then") {
	case 0:
		m.start(a)
	case 1:
		m.kill(a)
	case 2:
		m.stop(a)
	case 3:
		m.remove(a)
	case 4:
		m.killShim(a)
	case 5:
		m.reopen(0)
	}
	for _, r := range m.runtimes {
		r.Repair()
	}
	for end := time.Now().Add(testTimeout); a.shim.PID > 0 && !hasFiles(a.dir(m)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			m.Fatalf("the files of %s are not restored", a.path)
		}
	}
}

// check compares everything with the model.
func (m *shareModel) check() {
	alive := map[proc.Identity]bool{}
	for _, a := range m.agents {
		alive[a.shim] = true
		for i, s := range a.sessions {
			if a.last > 0 && s.hasEnded() == a.runs() {
				m.Errorf("runtime %d: %s is %+v, expected that it runs: %v", i, a.path, s.Observe(), a.runs())
			}
		}
		for i, id := range a.all {
			if alive := proc.Observe(id) == proc.Alive; alive != a.runs() {
				m.Errorf("process %d of %s, %d: it runs: %v, expected %v", i, a.path, id.PID, alive, a.runs())
			}
		}
		locked, err := wire.Locked(a.dir(m))
		for end := time.Now().Add(testTimeout); locked != (a.shim.PID > 0) && time.Now().Before(end); {
			locked, err = wire.Locked(a.dir(m)) // it is left or restored in a moment
		}
		if locked != (a.shim.PID > 0) || err != nil && !wire.IsMissing(err) {
			m.Errorf("the slot of %s is locked: %v, %v, expected %v", a.path, locked, err, a.shim.PID > 0)
		}
	}
	for i, r := range m.runtimes {
		m.checkList(i, r)
	}
	pids, _ := proc.PIDs()
	for _, pid := range pids {
		if id, dir, ok := wire.ShimIn(pid); ok && dir == m.dir && !alive[id] {
			m.gone(id)
		}
	}
}

func (m *shareModel) checkList(i int, r *Runtime) {
	list, err := r.List(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	found := map[string]string{}
	for _, o := range list {
		found[o.Path] = fmt.Sprintf("%d, %v", o.Incarnation, o.Exit.Kind)
	}
	for _, a := range m.agents {
		expected := ""
		if a.last > 0 {
			expected = fmt.Sprintf("%d, %v", a.last, a.end)
		}
		if found[a.path] != expected {
			m.Errorf("runtime %d: %s is listed as %q, expected %q", i, a.path, found[a.path], expected)
		}
	}
}

// gone waits for the end of a process.
func (m *shareModel) gone(id proc.Identity) {
	if err := id.AwaitDeath(m.Context()); err != nil {
		m.Fatalf("process %d: %v", id.PID, err)
	}
}

// close ends everything, also after a failure.
func (m *shareModel) close() {
	for _, r := range m.runtimes {
		r.Close()
	}
	pids, _ := proc.PIDs()
	for _, pid := range pids {
		if id, dir, ok := wire.ShimIn(pid); ok && dir == m.dir {
			id.Signal(syscall.SIGKILL)
		}
	}
	for _, a := range m.agents {
		for _, id := range a.all {
			id.Signal(syscall.SIGKILL)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(m.dir, wire.ShimLog)); len(text) > 0 {
		m.Errorf("a shim has failed:\n%s", text)
	}
}

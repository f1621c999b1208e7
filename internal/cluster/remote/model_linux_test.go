package remote

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// model is a controller with a node that is reached now and then, whose daemon is replaced, and whose agents end.
type model struct {
	*rapid.T
	t      *testing.T
	nodes  *pair
	dir    string // of the slots
	notes  string // directory of the files in which agents note that they were started
	proxy  *proxy
	client *Client
	node   *Runtime

	mu      sync.Mutex
	address string
	server  *Server
	local   runtime.Runtime
	ends    map[string]int // by token
	waiting sync.WaitGroup

	agents map[string]*modelAgent
	tokens map[string][]string // of all starts, by path
}

// modelAgent is an agent with its last incarnation.
type modelAgent struct {
	path    string
	last    uint64
	session *session              // nil if there never was one
	asked   []supervisor.ExitKind // that its end may have; empty while it should run
}

// Whatever happens to the node and the connections: each incarnation starts once and its end is told once, as what it
// was, and one that runs is never told to have ended.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		if rapid.IntRange(0, 9).Draw(rt, "leave out") > 0 {
			return // a case takes a second: some of 100 are enough
		}
		m := newModel(rt, t)
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.do(m.check),
			"start":   m.to(m.start),
			"start 2": m.to(m.start),
			"stop":    m.to(func(a *modelAgent) { m.end(a, a.session.Stop, supervisor.ShutDown, supervisor.Normal) }),
			"kill":    m.to(func(a *modelAgent) { m.end(a, a.session.Kill, supervisor.Killed) }),
			"crash":   m.to(m.crash),
			"cut":     m.do(m.proxy.cut),
			"refuse":  m.do(func() { m.proxy.refuse(true); m.proxy.cut() }),
			"allow":   m.do(func() { m.proxy.refuse(false) }),
			"restart": m.do(func() { m.down(); m.up() }),
			"adopt":   m.to(m.adopt),
		})
	})
}

func newModel(rt *rapid.T, t *testing.T) *model {
	top, err := os.MkdirTemp(t.TempDir(), "model")
	if err != nil {
		rt.Fatal(err)
	}
	m := &model{
		T: rt, t: t, nodes: newPair(t), dir: filepath.Join(top, "run"), notes: top, ends: make(map[string]int),
		agents: make(map[string]*modelAgent), tokens: make(map[string][]string),
	}
	for _, path := range []string{"app/a", "app/b", "other/c"} {
		m.agents[path] = &modelAgent{path: path}
	}
	m.up()
	m.proxy = newProxy(t, func() string {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.address
	})
	m.client = m.nodes.connect(t, m.proxy.address)
	m.node = m.client.Runtime("proc")
	return m
}

// do returns an action.
func (m *model) do(f func()) func(*rapid.T) {
	return func(t *rapid.T) {
		m.T = t
		f()
	}
}

// to returns an action on an agent.
func (m *model) to(f func(*modelAgent)) func(*rapid.T) {
	return m.do(func() {
		f(m.agents[rapid.SampledFrom(slices.Sorted(maps.Keys(m.agents))).Draw(m.T, "agent")])
	})
}

// up starts the daemon of the node.
func (m *model) up() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.local = openShim(m.t, shim.Options{Dir: m.dir})
	m.server, m.address = m.nodes.serve(m.t, m.local)
}

// down ends it.
func (m *model) down() {
	m.server.Close()
	m.local.Close()
}

func (a *modelAgent) runs() bool { return a.session != nil && len(a.asked) == 0 }

// note writes a line into the file of an agent, before that is ready.
const note = "echo $TOKEN >>$NOTES; echo noted; "

// start starts the next incarnation of an agent that has ended, while the connection is cut at a random time.
func (m *model) start(a *modelAgent) {
	if a.runs() {
		return
	}
	m.proxy.refuse(false)
	m.ended(a)
	a.last++
	l := sh(a.path, a.last, note+forever)
	l.Ready = spec.Ready{Log: "^noted$", Timeout: testTimeout}
	l.Token = a.path + " " + rapid.StringMatching("[a-z]{12}").Draw(m.T, "token")
	l.Env = append(l.Env, "TOKEN="+l.Token, "NOTES="+m.file(a))
	m.tokens[a.path] = append(m.tokens[a.path], l.Token)
	var cut <-chan time.Time
	if after := rapid.IntRange(0, 30).Draw(m.T, "cut after ms"); after < 20 {
		cut = time.After(time.Duration(after) * time.Millisecond)
	}
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case <-cut:
			m.proxy.cut()
		case <-started:
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for {
		s, err := m.node.Start(ctx, l)
		if errors.Is(err, runtime.ErrUnknown) && ctx.Err() == nil {
			s, err = m.adopted(ctx, a.path)
		}
		if errors.Is(err, fs.ErrNotExist) || err == nil && s.Observe().Token != l.Token {
			continue // it was not started
		}
		if err == nil {
			err = s.AwaitReady(ctx)
		}
		if err != nil {
			m.Fatalf("start %s: %v", l.Token, err)
		}
		a.session, a.asked = s.(*session), nil
		m.waiting.Go(func() {
			<-s.Done()
			m.mu.Lock()
			m.ends[l.Token]++
			m.mu.Unlock()
		})
		return
	}
}

// adopted adopts an incarnation as soon as the node can be reached.
func (m *model) adopted(ctx context.Context, path string) (runtime.Session, error) {
	s, err := m.node.Adopt(ctx, path)
	for errors.Is(err, runtime.ErrUnknown) && ctx.Err() == nil {
		s, err = m.node.Adopt(ctx, path)
	}
	return s, err
}

func (m *model) file(a *modelAgent) string {
	return filepath.Join(m.notes, strings.ReplaceAll(a.path, "/", "-"))
}

// end ends an incarnation that runs.
func (m *model) end(a *modelAgent, how func(), kinds ...supervisor.ExitKind) {
	if a.runs() {
		how()
		a.asked = kinds
	}
}

// crash kills the process of an agent, as seen by the node.
func (m *model) crash(a *modelAgent) {
	if !a.runs() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	s, err := m.local.Adopt(ctx, a.path)
	if err != nil {
		m.Fatal(err)
	}
	m.end(a, func() { exectest.Signal(m.t, s.Observe().PID, syscall.SIGKILL) }, supervisor.Killed)
	<-s.Done()
}

// adopt adopts what is known already.
func (m *model) adopt(a *modelAgent) {
	if a.session == nil {
		return
	}
	m.proxy.refuse(false)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	s, err := m.adopted(ctx, a.path)
	if err != nil {
		m.Fatalf("adopt %s: %v", a.path, err)
	}
	if s != runtime.Session(a.session) && !a.session.hasEnded() {
		m.Errorf("%s has two sessions of one incarnation", a.path)
	}
}

// ended waits for the end of an incarnation that has been asked for, and checks it.
func (m *model) ended(a *modelAgent) {
	if a.session == nil || len(a.asked) == 0 {
		return
	}
	select {
	case <-a.session.Done():
	case <-time.After(testTimeout):
		m.Fatalf("the end of %s was not told: %+v", a.path, a.session.Observe())
	}
	if e := a.session.Exit(); !slices.Contains(a.asked, e.Kind) {
		m.Errorf("%s has ended with %v, expected one of %v", a.path, e, a.asked)
	}
}

// check checks what holds at any time.
func (m *model) check() {
	for _, a := range m.agents {
		if a.runs() && a.session.hasEnded() {
			m.Fatalf("%s runs, and is told to have ended: %v", a.path, a.session.Exit())
		}
	}
}

// close checks what holds in the end, and ends all.
func (m *model) close() {
	m.proxy.refuse(false)
	for _, a := range m.agents {
		if a.runs() {
			o := until(m.t, a.session, "alive", alive)
			if o.Incarnation != a.last {
				m.Errorf("%+v; expected incarnation %d", o, a.last)
			}
			m.end(a, a.session.Kill, supervisor.Killed)
		}
		m.ended(a)
		b, err := os.ReadFile(m.file(a))
		expected := m.tokens[a.path]
		if len(expected) == 0 {
			continue
		}
		if text := strings.Join(expected, "\n") + "\n"; err != nil || string(b) != text {
			m.Errorf("%s was started %q, expected %q: %v", a.path, b, text, err)
		}
	}
	m.waiting.Wait()
	for path, tokens := range m.tokens {
		for _, token := range tokens {
			if n := m.ends[token]; n != 1 {
				m.Errorf("the end of %s was told %d times: %q", path, n, token)
			}
		}
	}
	m.client.Close()
	m.down()
	empty(m.t, m.dir)
}

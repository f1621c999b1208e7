package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// way is a pair of nodes with a proxy between them.
type way struct {
	*pair
	*far
	proxy   *proxy
	address func() string
}

func newWay(t *testing.T) *way {
	w := &way{pair: newPair(t)}
	local := openShim(t, shim.Options{Dir: slotsDir(t), Files: t.TempDir()})
	s, address := w.serve(t, local)
	w.proxy = newProxy(t, func() string { return address })
	w.address = w.proxy.address
	c := w.connect(t, w.address)
	w.far = &far{Runtime: c.Runtime("proc"), client: c, server: s, local: local}
	t.Cleanup(func() { w.Close() })
	w.connected(t)
	return w
}

// connected returns the connection of the client, which is the only one that the proxy has then.
func (w *way) connected(t *testing.T) *proxied {
	t.Helper()
	if _, err := w.client.await(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	all := w.proxy.all()
	if len(all) != 1 {
		t.Fatalf("%d connections", len(all))
	}
	return all[0]
}

// cutAndAwait cuts the connection, and returns when there is another one.
func (w *way) cutAndAwait(t *testing.T) {
	t.Helper()
	l, err := w.client.await(ctxOf(t))
	if err != nil {
		t.Fatal(err)
	}
	w.proxy.cut()
	await(t, "the loss of the connection", l.lost)
	await(t, "its replacement", w.client.replaced(l))
	if _, err := w.client.await(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
}

func await(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatalf("%s did not come within %v", what, testTimeout)
	}
}

// slotsDir returns a directory whose slots are emptied at the end.
func slotsDir(t testing.TB) string {
	dir := t.TempDir() + "/run"
	t.Cleanup(func() { empty(t, dir) })
	return dir
}

func empty(t testing.TB, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	r := openShim(t, shim.Options{Dir: dir})
	defer r.Close()
	all, err := r.List(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, o := range all {
		s, err := r.Adopt(ctx, o.Path)
		if err != nil {
			t.Errorf("adopt %s: %v", o.Path, err)
			continue
		}
		s.Kill()
		await(t, "the end of "+o.Path, s.Done())
		for err = r.Remove(ctx, o.Path); errors.Is(err, runtime.ErrUnknown) && ctx.Err() == nil; {
			err = r.Remove(ctx, o.Path)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

const forever = "exec sleep 100000"

func sh(path string, n uint64, script string) runtime.Launch {
	return runtime.Launch{
		Path: path, Incarnation: n, SpecHash: "f", Argv: []string{"/bin/sh", "-c", script}, Dir: "/",
		Env:   append(proc.Environ(nil, proc.Self{Agent: path, Incarnation: n}), runtimetest.Env()),
		Grace: 5 * time.Second,
	}
}

func start(t testing.TB, r runtime.Runtime, l runtime.Launch) *session {
	t.Helper()
	s, err := r.Start(ctxOf(t), l)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// until waits for a state of a session. Only one caller waits for a session.
func until(t testing.TB, rs runtime.Session, what string, yes func(runtime.Observation) bool) runtime.Observation {
	t.Helper()
	s := rs.(*session)
	s.mu.Lock()
	if s.told == nil {
		s.told = make(chan struct{}, 1)
	}
	s.mu.Unlock()
	late := time.After(testTimeout)
	for done := s.done; ; {
		_, changed := s.r.c.current()
		o := s.Observe()
		if yes(o) {
			return o
		}
		select {
		case <-s.told:
		case <-changed:
		case <-done:
			done = nil
		case <-late:
			t.Fatalf("never %s: %+v", what, o)
		}
	}
}

func alive(o runtime.Observation) bool { return o.Life == runtime.Alive }

// A start whose connection is lost while it waits for readiness returns ErrUnknown and goes on.
func TestStartGoesOn(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	gate := t.TempDir() + "/gate"
	l := sh("app/a", 1, "while ! test -e '"+gate+"'; do sleep 0.01; done; echo ready; "+forever)
	l.Ready, l.Token = spec.Ready{Log: "ready", Timeout: testTimeout}, "T"
	failed := make(chan error, 1)
	go func() {
		_, err := w.Start(context.Background(), l)
		failed <- err
	}()
	for found := false; !found; {
		all, err := w.List(ctxOf(t))
		if err != nil {
			t.Fatal(err)
		}
		found = len(all) == 1 && all[0].Life == runtime.Alive
	}
	w.cutAndAwait(t)
	if err := <-failed; !errors.Is(err, runtime.ErrUnknown) || !strings.Contains(err.Error(), "n2") {
		t.Fatalf("start: %v", err)
	}
	s, err := w.Adopt(ctxOf(t), "app/a")
	if err != nil {
		t.Fatal(err)
	}
	if o := s.Observe(); o.Token != "T" || o.Life != runtime.Alive || o.Ready {
		t.Errorf("%+v", o)
	}
	ended := start(t, w.far, sh("app/gate", 1, "touch '"+gate+"'"))
	if err := s.AwaitReady(ctxOf(t)); err != nil || !s.Observe().Ready {
		t.Errorf("%v, %+v", err, s.Observe())
	}
	await(t, "the end of the other", ended.Done())
}

// A start that is still under way when the client has another connection never happens: the answer to an Adopt is
// final.
func TestLateStart(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	pair := w.connected(t)
	link, _ := w.client.current()
	held := pair.hold()
	failed := make(chan error, 1)
	go func() {
		_, err := w.Start(context.Background(), sh("app/a", 1, forever))
		failed <- err
	}()
	await(t, "the request", held)
	pair.client.Close() // the server does not learn of it
	await(t, "the loss of the connection", link.lost)
	if err := <-failed; !errors.Is(err, runtime.ErrUnknown) {
		t.Fatal(err)
	}
	if _, err := w.Adopt(ctxOf(t), "app/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("adopt: %v", err)
	}
	pair.release() // fails, or is not read
	start(t, w.far, sh("app/a", 1, "exec sleep 99999"))
	if all, err := w.List(ctxOf(t)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// While there is no connection, sessions are unknown and say why, and nothing is started. Stop and Kill arrive later.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	polite, deaf := start(t, w.far, sh("app/a", 1, forever)), start(t, w.far, sh("app/b", 1, "trap '' TERM; "+
		"while :; do sleep 0.1; done"))
	l, _ := w.client.current()
	w.proxy.refuse(true)
	w.proxy.cut()
	await(t, "the loss of the connection", l.lost)
	for _, s := range []*session{polite, deaf} {
		o := until(t, s, "unknown", func(o runtime.Observation) bool { return o.Life == runtime.Unknown })
		if !strings.Contains(o.Detail, "node n2 does not answer since ") {
			t.Errorf("detail %q", o.Detail)
		}
	}
	ctx := ctxOf(t)
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, err := w.Start(ctx, sh("app/c", 1, forever)); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("start: %v", err)
		}
	})
	asking.Go(func() {
		if all, err := w.List(ctx); err == nil {
			t.Errorf("a list without a node: %v", all)
		}
	})
	asking.Go(func() {
		if err := polite.Signal(ctx, syscall.SIGCONT); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("signal: %v", err)
		}
	})
	asking.Wait()
	polite.Stop()
	deaf.Stop()
	deaf.Kill()
	select {
	case <-polite.Done():
		t.Error("an end without a connection")
	default:
	}
	w.proxy.refuse(false)
	await(t, "the end of the polite one", polite.Done())
	await(t, "the end of the deaf one", deaf.Done())
	if a, b := polite.Exit(), deaf.Exit(); a.Kind != supervisor.ShutDown || b.Kind != supervisor.Killed {
		t.Errorf("%v, %v", a, b)
	}
}

// What changes without a connection is known after it.
func TestMissedChanges(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	ended := start(t, w.far, sh("app/ended", 1, "while ! test -e '"+t.TempDir()+"'/x; do sleep 0.01; done; exit 7"))
	next := start(t, w.far, sh("app/next", 1, forever))
	removed := start(t, w.far, sh("app/removed", 1, forever))
	lives := start(t, w.far, sh("app/lives", 1, forever))
	w.proxy.refuse(true)
	w.proxy.cut()
	for path, then := range map[string]func(){
		"app/ended":   func() {},
		"app/next":    func() { w.local.Start(ctxOf(t), sh("app/next", 2, forever)) },
		"app/removed": func() { w.local.Remove(ctxOf(t), "app/removed") },
	} {
		s, err := w.local.Adopt(ctxOf(t), path)
		if err != nil {
			t.Fatal(err)
		}
		s.Kill()
		await(t, "the end", s.Done())
		then()
	}
	w.proxy.refuse(false)
	for _, s := range []*session{ended, next, removed} {
		await(t, "the end of "+s.Path, s.Done())
	}
	if e := ended.Exit(); e.Kind != supervisor.Killed {
		t.Errorf("it has ended with %v", e)
	}
	for _, s := range []*session{next, removed} {
		if e := s.Exit(); e.Kind != supervisor.Lost {
			t.Errorf("%s has ended with %v", s.Path, e)
		}
	}
	until(t, lives, "alive", alive)
	if err := next.Signal(ctxOf(t), 9); !errors.Is(err, runtime.ErrEnded) {
		t.Errorf("signal: %v", err)
	}
	if o := until(t, adopt(t, w.far, "app/next"), "alive", alive); o.Incarnation != 2 {
		t.Errorf("%+v", o)
	}
}

func adopt(t testing.TB, r runtime.Runtime, path string) *session {
	t.Helper()
	s, err := r.Adopt(ctxOf(t), path)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// An agent that has ended with its node has ended. What the node says later changes nothing.
func TestLost(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	s := start(t, w.far, sh("app/a", 1, forever))
	w.proxy.refuse(true)
	w.proxy.cut()
	s.Lost(supervisor.Exit{Kind: supervisor.Lost, Err: runtime.ErrNodeLost}, time.Now())
	await(t, "its end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.Lost || !errors.Is(e.Err, runtime.ErrNodeLost) {
		t.Errorf("exit %v", e)
	}
	if o := s.Observe(); o.Life != runtime.Dead || o.Exit.Kind != supervisor.Lost || o.ExitedAt.IsZero() {
		t.Errorf("%+v", o)
	}
	w.proxy.refuse(false)
	again := adopt(t, w.far, "app/a")
	if o := again.Observe(); o.Life != runtime.Alive || again == s {
		t.Errorf("%+v", o)
	}
	if _, err := s.LastActivity(ctxOf(t)); err != nil { // which has its state with it
		t.Error(err)
	}
	if o := s.Observe(); o.Life != runtime.Dead {
		t.Errorf("%+v", o)
	}
}

// Another controller has taken over: the one before can read, and change nothing.
func TestFence(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	s := start(t, w.far, sh("app/a", 1, forever))
	newer := NewClient(ClientOptions{
		Node: "n2", Dial: w.dial(w.pair.controller, w.address), Logger: logger(t),
		Fence: func() store.Fence { return store.Fence{Lease: "controller", Epoch: 8} },
	})
	defer newer.Close()
	if _, err := newer.Runtime("proc").Adopt(ctxOf(t), "app/a"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a controller that the store does not know: %v", err)
	}
	if err := s.Signal(ctxOf(t), syscall.SIGCONT); err != nil {
		t.Errorf("its epoch is remembered although it was refused: %v", err)
	}
	w.mu.Lock()
	w.fence.Epoch = 8
	w.mu.Unlock()
	taken := adopt(t, newer.Runtime("proc"), "app/a")
	w.mu.Lock()
	w.fence.Epoch = 7 // as a store that is behind
	w.mu.Unlock()
	ctx := ctxOf(t)
	silent, typed := io.Pipe()
	defer typed.Close()
	_, startErr := w.Start(ctx, sh("app/b", 1, forever))
	_, adoptErr := w.Adopt(ctx, "app/a")
	for what, err := range map[string]error{
		"start": startErr, "adopt": adoptErr, "remove": w.Remove(ctx, "app/a"), "ready": w.Ready(ctx, "app/a", 1),
		"signal": s.Signal(ctx, 9), "write": s.Write(ctx, []byte("x")), "resize": s.Resize(ctx, 1, 1),
		"attach": s.Attach(ctx, runtime.Attachment{Input: silent, Output: new(strings.Builder)}),
	} {
		if !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.Stop()
	s.Kill()
	if _, err := s.LastActivity(ctx); err != nil {
		t.Error(err)
	}
	if all, err := w.List(ctx); err != nil || len(all) != 1 {
		t.Errorf("list: %v, %v", all, err)
	}
	if o := taken.Observe(); o.Life != runtime.Alive {
		t.Errorf("%+v", o)
	}
}

// A viewer that does not read the output of an agent delays nothing else.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, "yes | head -c 20000000; "+forever)
	l.Terminal = true
	s := start(t, w.far, l)
	stuck, seen := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- s.Attach(ctx, runtime.Attachment{Output: seen}) }()
	if _, err := stuck.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := s.Signal(ctxOf(t), syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		if lines, err := s.Peek(ctxOf(t), 1); err != nil || len(lines) != 1 {
			t.Errorf("%q, %v", lines, err)
		}
	}
	other := start(t, w.far, sh("app/b", 1, "exit 0"))
	await(t, "the end of another agent", other.Done())
	cancel()
	stuck.Close()
	<-left
}

// A start is for one lease of a node. One that comes late, when the node has another, starts nothing.
func TestLease(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, forever)
	for _, epoch := range []uint64{4, 0} {
		w.pair.epoch.Store(epoch)
		l.Lease = 3
		if _, err := w.far.Start(ctxOf(t), l); !errors.Is(err, runtime.ErrFenced) {
			t.Errorf("with epoch %d: %v", epoch, err)
		}
	}
	w.pair.epoch.Store(3)
	start(t, w.far, l)
}

// The directory of a project may be another one on each machine.
func TestHome(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, "pwd; "+forever)
	l.Home, l.Dir = "/only/there", "/only/there/tmp"
	s := start(t, w.far, l)
	for lines := []string(nil); !slices.Equal(lines, []string{"/tmp"}); {
		var err error
		if lines, err = s.Peek(ctxOf(t), 1); err != nil {
			t.Fatal(err)
		}
	}
}

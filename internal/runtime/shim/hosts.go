package shim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// hosts are the shims that this process has a connection to, or is about to.
type hosts struct {
	found sync.Once // those of earlier runtimes are included

	mu     sync.Mutex
	byName map[string]*host // by the name of the socket
	byKey  map[string][]*host
}

// host is a shim.
type host struct {
	ready chan struct{} // closed when conn or err is set
	conn  *conn
	err   error // why there is no connection

	// The following are guarded by hosts.mu.
	key    string // what its slots have in common
	slots  int    // that it has or is about to get
	starts int    // in progress, of those that are new in it
}

// keyOf returns what slots of the same shim have in common: the program of their agents, or else the
// supervisor.
func keyOf(l *runtime.Launch) string {
	if l.Program != nil {
		return l.Program.Key
	}
	return path.Dir(l.Path)
}

// most returns how many slots the shim of a launch may have. All agents of a program are in the same
// process, since they send each other messages.
func (r *Runtime) most(l *runtime.Launch) int {
	if l.Program != nil {
		return math.MaxInt
	}
	return int(r.perShim.Load())
}

// host returns the shim with a socket, whose name is in the link of a slot.
func (r *Runtime) host(ctx context.Context, name string) (*host, error) {
	if !strings.HasPrefix(name, wire.SocketPrefix) {
		return nil, fmt.Errorf("%.80q is not the socket of a shim", name)
	}
	r.hosts.mu.Lock()
	h := r.hosts.byName[name]
	if h == nil {
		h = &host{ready: make(chan struct{})}
		r.hosts.byName[name] = h
		r.hosts.mu.Unlock()
		h.open(r, func() (*conn, error) { // not with ctx: others wait for the same connection
			ctx, cancel := context.WithTimeout(r.Ctx, listTimeout)
			defer cancel()
			c, err := connect(ctx, r.Dir, name)
			if err != nil {
				return nil, err
			}
			return greet(ctx, c, "")
		})
		return h, h.err
	}
	r.hosts.mu.Unlock()
	return h, h.await(ctx)
}

func (h *host) await(ctx context.Context) error {
	select {
	case <-h.ready:
		return h.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open makes the connection of a shim, and reads from it until it ends.
func (h *host) open(r *Runtime, connect func() (*conn, error)) {
	defer close(h.ready)
	c, err := connect()
	if err != nil {
		h.err = err
		r.dropHost(h)
		return
	}
	h.conn = c
	c.left = func(m *wire.Message) {
		r.unreserve(h)
		r.owners.left(m.Name, c.shim())
	}
	c.outlives = r.expiry != "" && !c.hello.State.Expires
	r.hosts.mu.Lock()
	if h.key == "" { // else it was just started for a slot
		h.key, h.slots = c.hello.Key, c.hello.Slots
		if !c.outlives { // else it gets no more slots
			r.hosts.byKey[h.key] = append(r.hosts.byKey[h.key], h)
		}
	}
	r.hosts.byName[wire.SocketName(c.shim().PID)] = h
	r.hosts.mu.Unlock()
	if !r.read(c, func() {
		r.dropHost(h)
		r.owners.forgetShim(c.shim())
	}) {
		h.err = slots.ErrClosed
		c.close(slots.ErrClosed)
		return
	}
	if h.err = r.tellDeadline(c); h.err != nil {
		c.close(h.err)
	}
}

// tellDeadline makes a shim end its agents at the deadline.
func (r *Runtime) tellDeadline(c *conn) error {
	switch {
	case r.expiry == "":
		return nil
	case c.outlives:
		r.log.Warn("shim of an earlier version does not end its agents when the lease of the node ends; restart them",
			"pid", c.shim().PID, "agents", c.hello.Key)
		return nil
	}
	if err := c.ask(r.Ctx, wire.Message{Type: wire.Deadline, File: []byte(r.expiry)}); err != nil {
		return fmt.Errorf("telling shim %d the deadline: %w", c.shim().PID, err)
	}
	return nil
}

// CheckDeadline is part of runtime.Expirer.
func (r *Runtime) CheckDeadline(ctx context.Context) {
	r.findHosts(ctx) // which tells those that were not known
	r.hosts.mu.Lock()
	all := make(map[*host]bool)
	for _, h := range r.hosts.byName {
		all[h] = true
	}
	r.hosts.mu.Unlock()
	var wg sync.WaitGroup
	for h := range all {
		wg.Go(func() {
			err := h.await(ctx)
			if err == nil {
				err = r.tellDeadline(h.conn)
			}
			if err != nil && !errors.Is(err, errLinkLost) { // else it has ended
				r.log.Warn("shim does not read the deadline", "error", err)
			}
		})
	}
	wg.Wait()
}

// read reads from a connection until it or the runtime is closed, and calls ended then.
func (r *Runtime) read(c *conn, ended func()) bool {
	stop := context.AfterFunc(r.Ctx, func() { c.close(slots.ErrClosed) })
	return r.Background(func() {
		defer stop()
		c.run()
		ended()
	})
}

// reserve returns a shim that has room for one more slot. If there is none it starts one.
func (r *Runtime) reserve(ctx context.Context, l *runtime.Launch) (*host, error) {
	key := keyOf(l)
	r.hosts.found.Do(func() { r.findHosts(ctx) })
	r.hosts.mu.Lock()
	if h := choose(r.hosts.byKey[key], r.most(l)); h != nil {
		h.slots++
		h.starts++
		r.hosts.mu.Unlock()
		err := h.await(ctx)
		if err != nil {
			r.unreserve(h)
			r.settle(h)
		}
		return h, err
	}
	h := &host{ready: make(chan struct{}), key: key, slots: 1, starts: 1}
	r.hosts.byKey[key] = append(r.hosts.byKey[key], h)
	r.hosts.mu.Unlock()
	// Not with ctx: other agents wait for the same shim.
	h.open(r, func() (*conn, error) { return r.startShim(r.Ctx, key, l.Program) })
	return h, h.err
}

// choose returns the shim that gets one more slot; nil means a new one.
//
// A shim starts one agent after the other. So while many start at once, two shims get them: a second
// one begins when the first is half full. Those that are idle are filled one after the other.
func choose(all []*host, most int) (best *host) {
	open := 0
	for _, h := range all {
		if h.slots >= most {
			continue
		}
		if open++; best == nil || h.starts < best.starts {
			best = h
		}
	}
	if open == 1 && best.starts > 1 && best.slots >= most/2 {
		return nil
	}
	return best
}

// settle records that the start of an agent that is new in a shim is no longer in progress.
func (r *Runtime) settle(h *host) {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	h.starts--
}

// unreserve records that a shim has room for one more slot.
func (r *Runtime) unreserve(h *host) {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	h.slots--
}

// fill records that a shim did not take a slot, because it has enough.
func (r *Runtime) fill(h *host) {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	h.slots = max(h.slots-1, int(r.perShim.Load()))
}

// dropHost forgets a shim that gets no more slots.
func (r *Runtime) dropHost(h *host) {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	left := slices.DeleteFunc(r.hosts.byKey[h.key], func(other *host) bool { return other == h })
	if len(left) == 0 {
		delete(r.hosts.byKey, h.key)
	} else {
		r.hosts.byKey[h.key] = left
	}
	for name, other := range r.hosts.byName {
		if other == h {
			delete(r.hosts.byName, name)
		}
	}
}

// findHosts connects to the shims that earlier runtimes have started, and removes the sockets of
// those that have ended.
func (r *Runtime) findHosts(ctx context.Context) {
	entries, _ := os.ReadDir(r.Dir)
	ahead := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), wire.SocketPrefix) {
			continue
		}
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			if _, err := r.host(ctx, e.Name()); errors.Is(err, syscall.ECONNREFUSED) {
				os.Remove(filepath.Join(r.Dir, e.Name()))
			}
		})
	}
	wg.Wait()
}

// quitIdle asks all shims to leave their slots, and returns the connections of those that have left
// all, except slots whose last lines are still to be read.
// The others have running agents, do not respond, or are of a version that leaves single slots only.
func (r *Runtime) quitIdle(ctx context.Context) map[*conn]bool {
	r.hosts.found.Do(func() { r.findHosts(ctx) })
	r.hosts.mu.Lock()
	all := slices.Concat(slices.Collect(maps.Values(r.hosts.byKey))...)
	r.hosts.mu.Unlock()
	idle := make(map[*conn]bool)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			if h.await(ctx) != nil {
				return
			}
			err := h.conn.ask(ctx, wire.Message{Type: wire.Quit})
			if err != nil && !errors.Is(err, errLinkLost) { // it ends with the last slot
				return
			}
			mu.Lock()
			defer mu.Unlock()
			idle[h.conn] = true
		})
	}
	wg.Wait()
	return idle
}

// pingTimeout bounds the answer of a shim before it gets a slot, which would wait with it.
const pingTimeout = time.Second

// serveTries bounds how many shims are asked to take a slot.
const serveTries = 10

// spawn gives the slot to a shim that may run a launch, with its lock.
func (s *slot) spawn(ctx context.Context, launch *runtime.Launch, lock *os.File) (*link, error) {
	s.used = true
	s.settle() // in a shim that was lost since
	var err error
	for range serveTries {
		var h *host
		if h, err = s.r.reserve(ctx, launch); err != nil {
			return nil, err
		}
		s.starting = h
		var l *link
		l, err = s.giveTo(ctx, h, s.r.most(launch), lock)
		if err == nil {
			return l, nil
		}
		s.settle()
		switch {
		case errors.Is(err, wire.ErrFull):
			s.r.fill(h)
		case errors.Is(err, errLinkLost), errors.Is(err, errSilent), errors.Is(err, wire.ErrClosing):
			s.r.dropHost(h)
		default:
			s.r.unreserve(h)
			return nil, err
		}
	}
	return nil, fmt.Errorf("giving the slot to a shim: %w", err)
}

// giveTo gives the slot to a shim that may have most slots then, and returns a link to it there.
func (s *slot) giveTo(ctx context.Context, h *host, most int, lock *os.File) (*link, error) {
	ping, cancel := context.WithTimeoutCause(ctx, pingTimeout, errSilent)
	defer cancel()
	if err := h.conn.ask(ping, wire.Message{Type: wire.Look}); err != nil {
		return nil, err
	}
	l, err := h.conn.newLink(filepath.Base(s.dir), s.r.Background)
	if err != nil {
		return nil, err
	}
	s.setShim(h.conn.shim()) // before there is an agent, whose owner must be known then
	if _, err := l.call(ctx, wire.Message{Type: wire.Serve, Most: most}, lock); err != nil {
		l.close(slots.ErrClosed)
		return nil, h.notServed(ctx, err)
	}
	return l, nil
}

// notServed returns the error of a shim that was to serve a slot. One that did not answer and has not
// ended has the lock, and may serve the slot later: no other shim may get it now.
func (h *host) notServed(ctx context.Context, err error) error {
	if !errors.Is(err, errSilent) && !errors.Is(err, errLinkLost) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTime)
	defer cancel()
	if shim := h.conn.shim(); shim.AwaitDeath(ctx) != nil {
		return fmt.Errorf("%w: shim %d may serve the slot: %s", runtime.ErrUnknown, shim.PID, err.Error())
	}
	return err
}

// dial returns a link to a slot that is served, and its state.
func (r *Runtime) dial(ctx context.Context, dir string) (*link, *wire.State, error) {
	l, err := r.link(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	if l.conn.own {
		return l, l.conn.hello.State, nil
	}
	m, err := l.call(ctx, wire.Message{Type: wire.Hello, V: wire.Version})
	if err == nil && m.State == nil {
		err = errors.New("answer without a state")
	}
	if err != nil {
		l.close(slots.ErrClosed)
		return nil, nil, fmt.Errorf("greeting the shim: %w", err)
	}
	return l, m.State, nil
}

// link returns a link to a slot, which its shim serves according to the files of the slot.
func (r *Runtime) link(ctx context.Context, dir string) (*link, error) {
	name, err := os.Readlink(filepath.Join(dir, wire.SocketFile))
	if errors.Is(err, syscall.EINVAL) {
		return r.linkOwn(ctx, dir)
	}
	if err != nil {
		return nil, err
	}
	h, err := r.host(ctx, filepath.Base(name))
	if err != nil {
		return nil, err
	}
	return h.conn.newLink(filepath.Base(dir), r.Background)
}

// linkOwn is link for a slot with a shim of its own, of an earlier version.
func (r *Runtime) linkOwn(ctx context.Context, dir string) (*link, error) {
	c, err := dialAlone(ctx, dir)
	if err != nil {
		return nil, err
	}
	c.own, c.outlives = true, r.expiry != ""
	l, err := c.newLink(filepath.Base(dir), r.Background)
	if err == nil && !r.read(c, func() {}) {
		c.close(slots.ErrClosed)
		err = slots.ErrClosed
	}
	return l, err
}

// dialAlone returns a connection to a slot that nothing else uses.
func dialAlone(ctx context.Context, dir string) (*conn, error) {
	c, err := connect(ctx, dir, wire.SocketFile)
	if err != nil {
		return nil, err
	}
	return greet(ctx, c, filepath.Base(dir))
}

// serves reports whether a shim runs, and does not say that it does not serve the slot in a directory.
func (r *Runtime) serves(ctx context.Context, shim proc.Identity, dir string) bool {
	if proc.Observe(shim) == proc.Dead {
		return false
	}
	h, err := r.host(ctx, wire.SocketName(shim.PID))
	if err != nil {
		return true
	}
	err = h.conn.ask(ctx, wire.Message{Type: wire.Look, Name: filepath.Base(dir)})
	return !errors.Is(err, wire.ErrNotServed)
}

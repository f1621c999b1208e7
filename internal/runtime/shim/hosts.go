package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// DefaultPerShim is how many agents of a supervisor share a shim at most, if Options do not say.
const DefaultPerShim = 32

// hosts are the shims that slots can be given to, by what the slots of a shim have in common.
type hosts struct {
	mu    sync.Mutex
	found bool // those of earlier runtimes are included
	byKey map[string][]*host
}

// host is a shim, or one that is being started.
type host struct {
	key     string
	started chan struct{} // closed when the following are set
	trunk   *link
	id      proc.Identity
	err     error // why it could not be started

	slots int // that it has or is about to get; guarded by hosts.mu
}

// keyOf returns what slots of the same shim have in common: the supervisor of their agents.
func keyOf(agent string) string { return path.Dir(agent) }

// reserve returns a shim that has room for one more slot. If there is none it starts one.
func (r *Runtime) reserve(ctx context.Context, key string) (*host, error) {
	r.hosts.mu.Lock()
	if !r.hosts.found {
		r.findHosts(ctx)
		r.hosts.found = true
	}
	for _, h := range r.hosts.byKey[key] {
		if h.slots < int(r.perShim.Load()) {
			h.slots++
			r.hosts.mu.Unlock()
			select {
			case <-h.started:
				return h, h.err
			case <-ctx.Done():
				r.unreserve(h)
				return nil, context.Cause(ctx)
			}
		}
	}
	h := &host{key: key, started: make(chan struct{}), slots: 1}
	r.hosts.add(h)
	r.hosts.mu.Unlock()
	h.trunk, h.id, h.err = r.startShim(ctx, key)
	if h.err != nil {
		r.dropHost(h)
	} else {
		r.watchHost(h)
	}
	close(h.started)
	return h, h.err
}

// add adds a shim. Needs mu.
func (hs *hosts) add(h *host) {
	if hs.byKey == nil {
		hs.byKey = make(map[string][]*host)
	}
	hs.byKey[h.key] = append(hs.byKey[h.key], h)
}

// unreserve gives back the room for a slot that the shim did not get.
func (r *Runtime) unreserve(h *host) {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	h.slots--
}

// fill records that a shim has as many slots as it takes.
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
}

// watchHost reads from the trunk of a shim until that ends.
func (r *Runtime) watchHost(h *host) {
	h.trunk.listen(func(m *wire.Message) {
		if m.Type == wire.Left {
			r.unreserve(h)
			r.owners.left(m.Name, h.id)
		}
	})
	r.read(h.trunk)
	r.Background(func() {
		select {
		case <-h.trunk.closed:
			r.dropHost(h)
			r.owners.forgetShim(h.id)
		case <-r.Ctx.Done():
		}
	})
}

// findHosts adds the shims that earlier runtimes have started. Needs the lock of hosts.
func (r *Runtime) findHosts(ctx context.Context) {
	var mu sync.Mutex
	r.eachTrunk(ctx, func(l *link, hello *wire.Message) {
		h := &host{key: hello.Key, started: make(chan struct{}), trunk: l, id: hello.State.Shim, slots: hello.Slots}
		close(h.started)
		mu.Lock()
		r.hosts.add(h)
		mu.Unlock()
		r.watchHost(h)
	})
}

// eachTrunk calls f with a connection to each shim, and its first answer; some of the calls are in
// parallel. It removes the sockets of shims that have ended.
func (r *Runtime) eachTrunk(ctx context.Context, f func(*link, *wire.Message)) {
	entries, _ := os.ReadDir(r.Dir)
	ahead := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), wire.TrunkPrefix) {
			continue
		}
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			l, hello, err := dialTrunk(ctx, r.Dir, e.Name())
			switch {
			case err == nil:
				f(l, hello)
			case errors.Is(err, syscall.ECONNREFUSED):
				os.Remove(filepath.Join(r.Dir, e.Name()))
			}
		})
	}
	wg.Wait()
}

func dialTrunk(ctx context.Context, dir, name string) (*link, *wire.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c, err := connect(ctx, dir, name)
	if err != nil {
		return nil, nil, err
	}
	return greet(ctx, c)
}

// pingTimeout bounds the answer of a shim before it gets a slot, which would wait with it.
const pingTimeout = time.Second

// serveTries bounds how many shims are asked to take a slot.
const serveTries = 10

// spawn gives the slot to a shim, with its lock.
func (s *slot) spawn(ctx context.Context, lock *os.File) (*link, error) {
	s.used = true
	var err error
	for range serveTries {
		var h *host
		if h, err = s.r.reserve(ctx, keyOf(s.path)); err != nil {
			return nil, err
		}
		var l *link
		l, err = s.giveTo(ctx, h, lock)
		switch {
		case err == nil:
			return l, nil
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

// giveTo gives the slot to a shim, and returns a connection to it there.
func (s *slot) giveTo(ctx context.Context, h *host, lock *os.File) (*link, error) {
	ping, cancel := context.WithTimeoutCause(ctx, pingTimeout, errSilent)
	defer cancel()
	if _, err := h.trunk.call(ping, wire.Message{Type: wire.Look}); err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("giving the slot to a shim: %w", err)
	}
	s.setShim(h.id) // before there is an agent, whose owner must be known then
	_, err = h.trunk.call(ctx, wire.Message{
		Type: wire.Serve, Name: filepath.Base(s.dir), Most: int(s.r.perShim.Load()),
	}, lock, theirs)
	theirs.Close() // so that the end of the shim is noticed
	if err != nil {
		ours.Close()
		return nil, err
	}
	l, _, err := greet(ctx, ours)
	return l, err
}

// leftBy reports whether a shim says that it does not serve a slot.
func (r *Runtime) leftBy(ctx context.Context, shim proc.Identity, name string) bool {
	l, _, err := dialTrunk(ctx, r.Dir, wire.TrunkName(shim.PID))
	if err != nil {
		return false
	}
	r.read(l)
	defer l.close(slots.ErrClosed)
	_, err = l.call(ctx, wire.Message{Type: wire.Look, Name: name})
	return errors.Is(err, wire.ErrNotServed)
}

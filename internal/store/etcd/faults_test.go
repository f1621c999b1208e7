package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

func mustOpen(t *testing.T, url string) *etcd.Store {
	t.Helper()
	s, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(key, value string) store.Op {
	return store.Op{Kind: store.Put, Key: key, Value: []byte(value)}
}

// writes are what a test has written to a log, by the outcome that it was told.
type writes struct {
	mu            sync.Mutex
	done, unknown map[string]bool
	refused       []error
}

// write appends until stop is closed, each time something else.
func (w *writes) write(ctx context.Context, s store.Store, name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		value := fmt.Sprint(name, ".", i)
		_, err := s.Apply(ctx, store.Fence{}, []store.Cond{{Key: "once/" + value}}, []store.Op{put("once/"+value, ""),
			{Kind: store.Append, Key: "log", Value: []byte(value)}})
		w.mu.Lock()
		switch {
		case err == nil:
			w.done[value] = true
		case errors.Is(err, store.ErrUnknown):
			w.unknown[value] = true
		default:
			w.refused = append(w.refused, err)
		}
		w.mu.Unlock()
	}
}

func (w *writes) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.done)
}

// check compares the log with the outcomes: it has each acknowledged write once, and none that was refused.
func (w *writes) check(t *testing.T, s store.Store) {
	t.Helper()
	seen := map[string]bool{}
	var last uint64
	for r, err := range store.All(t.Context(), s, "log") {
		if err != nil {
			t.Fatal(err)
		}
		value := string(r.Value)
		seq, _ := store.ParseSequenceKey("log", r.Key)
		if seq != last+1 {
			t.Errorf("number %d after %d", seq, last)
		}
		if last = seq; seen[value] {
			t.Errorf("%s was written twice", value)
		}
		if seen[value] = true; !w.done[value] && !w.unknown[value] {
			t.Errorf("%s is there, and the writer was told that it is not", value)
		}
	}
	for value := range w.done {
		if !seen[value] {
			t.Errorf("%s was acknowledged and is not there", value)
		}
	}
	t.Logf("%d done, %d unknown, %d refused", len(w.done), len(w.unknown), len(w.refused))
}

func newWrites() *writes { return &writes{done: map[string]bool{}, unknown: map[string]bool{}} }

// openBy opens a store to whose members all ways can be cut.
func openBy(t *testing.T, c *etcdtest.Cluster) (store.Store, []*etcdtest.Proxy) {
	t.Helper()
	var addresses []string
	var proxies []*etcdtest.Proxy
	for _, target := range c.Endpoints() {
		p := etcdtest.NewProxy(t, target)
		proxies, addresses = append(proxies, p), append(addresses, p.Address)
	}
	return mustOpen(t, "etcd://"+strings.Join(addresses, ",")), proxies
}

// Connections break all the time, with requests under way. Each Apply finds out what became of it.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s, proxies := openBy(t, c)
	direct := mustOpen(t, c.URL("coppice"))
	w, stop := newWrites(), make(chan struct{})
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { w.write(context.Background(), s, fmt.Sprint("w", i), stop) })
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const most = 60 // cuts and writes
	for cuts := 0; cuts < most || w.acknowledged() < most; cuts++ {
		proxies[random.IntN(len(proxies))].CutNext()
	}
	close(stop)
	writers.Wait()
	w.check(t, direct)
	if len(w.unknown) > 0 || len(w.refused) > 0 {
		t.Errorf("%d unknown, refused %v, although there was a way to each member all the time", len(w.unknown), w.refused)
	}
}

// The way to one member is silent, and its connection stays open: requests do not get through, or their answers do not.
// Each write is made once, by way of another member.
func TestSilentWay(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s, proxies := openBy(t, c)
	direct := mustOpen(t, c.URL("coppice"))
	var want []string
	write := func() (took time.Duration) {
		value, begun := fmt.Sprint("write ", len(want)), time.Now()
		want = append(want, value)
		_, err := s.Apply(t.Context(), store.Fence{}, nil,
			[]store.Op{{Kind: store.Append, Key: "log", Value: []byte(value)}})
		if err != nil {
			t.Errorf("%s: %v", value, err)
		}
		return time.Since(begun)
	}
	for what, silence := range map[string]func(){"silent": proxies[0].Silence, "mute": proxies[0].Mute} {
		for range 2 * len(proxies) { // connects all of them
			write()
		}
		silence()
		slow := 0
		for range 2 * len(proxies) { // they take turns
			if write() >= time.Second {
				slow++
			}
		}
		if slow == 0 {
			t.Errorf("%s: no write went this way", what)
		}
		proxies[0].Pass() // what was held back arrives late
		write()
	}
	records, _, err := direct.Snapshot(t.Context(), "log")
	var got []string
	for _, r := range records {
		got = append(got, string(r.Value))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q: %v", got, want, err)
	}
}

// awaitWrites returns when n writes were made after a revision.
func awaitWrites(t *testing.T, s store.Store, rev store.Rev, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, err := range s.Watch(ctx, "log", rev) {
		if err != nil {
			t.Fatal(err)
		}
		if n--; n <= 0 {
			return
		}
	}
}

// Members are killed and paused, one at a time, and a watch sees everything that is written meanwhile.
func TestLostMembers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := mustOpen(t, c.URL("coppice"))
	w, stop := newWrites(), make(chan struct{})
	var writers, watcher sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { w.write(context.Background(), s, fmt.Sprint("w", i), stop) })
	}
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watched []string
	watcher.Go(func() {
		for change, err := range s.Watch(watching, "log", 0) {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			for _, r := range change.Put {
				if string(r.Value) == "end" {
					return
				}
				watched = append(watched, string(r.Value))
			}
		}
	})
	for i := range 3 {
		if i < 2 {
			c.Kill(i)
		} else {
			c.Pause(i) // its connections stay open, and nobody answers
		}
		_, rev, err := s.Snapshot(t.Context(), "nothing")
		if err != nil {
			t.Fatal(err)
		}
		awaitWrites(t, s, rev, 20)
		if i < 2 {
			c.Restart(i)
		} else {
			c.Continue(i)
		}
	}
	close(stop)
	writers.Wait()
	w.check(t, s)
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Append, Key: "log", Value: []byte("end")}}); err != nil {
		t.Fatal(err)
	}
	watcher.Wait()
	records, _, err := s.Snapshot(t.Context(), "log")
	if err != nil || len(watched) != len(records)-1 {
		t.Fatalf("the watch has seen %d of %d, %v", len(watched), len(records)-1, err)
	}
	for i, value := range watched {
		if value != string(records[i].Value) {
			t.Fatalf("%d: the watch has seen %s, which is %s", i, value, records[i].Value)
		}
	}
	if len(w.unknown) > 0 || len(w.refused) > 0 {
		t.Errorf("%d unknown, refused %v, although a majority was there all the time", len(w.unknown), w.refused)
	}
}

// Without a majority no call hangs, contexts end at once, leases end at their deadline, and all goes on with it.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := mustOpen(t, c.URL("coppice"))
	rev, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{put("a", "1")})
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 5 * time.Second
	begun := time.Now()
	lease, err := s.Acquire(t.Context(), "l", ttl)
	if err != nil {
		t.Fatal(err)
	}
	c.Pause(1)
	c.Pause(2)

	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := s.Snapshot(short, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("snapshot with a short time: %v", err)
	}
	if _, err := s.Apply(short, store.Fence{}, nil, []store.Op{put("a", "2")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply after its context: %v", err)
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, _, err := s.Snapshot(t.Context(), ""); !errors.Is(err, store.ErrUnavailable) || !store.Refused(err) {
			t.Errorf("snapshot: %v", err)
		}
	})
	calls.Go(func() {
		_, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{put("b", "2")})
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) && store.Refused(err) {
			t.Errorf("apply: %v", err)
		}
	})
	calls.Go(func() {
		if err := lease.Renew(t.Context()); !errors.Is(err, store.ErrFenced) {
			t.Errorf("renewal until the deadline: %v", err)
		}
		if late := time.Since(begun) - ttl; late < -100*time.Millisecond || late > time.Second {
			t.Errorf("the renewal has ended %v after the deadline", late)
		}
	})
	<-lease.Done()
	if now := time.Now(); now.Before(lease.Deadline()) || now.After(begun.Add(ttl+time.Second)) {
		t.Errorf("lost after %v", now.Sub(begun))
	}
	if _, err := s.Apply(t.Context(), lease.Fence(), nil, []store.Op{put("a", "fenced")}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a fenced write without etcd: %v", err)
	}
	calls.Wait()
	if waited := time.Since(begun); waited > 40*time.Second {
		t.Errorf("it took %v", waited)
	}
	c.Continue(1)
	c.Continue(2)
	if r, err := store.Get(t.Context(), s, "a"); err != nil || r.Rev != rev {
		t.Errorf("afterwards: %v, %v", r, err)
	}
	// etcd gives leases the whole time again when it has a new leader.
	for {
		_, err := s.Acquire(t.Context(), "l", ttl)
		var held *store.HeldError
		if err == nil {
			break
		} else if !errors.As(err, &held) {
			t.Fatal(err)
		}
		time.Sleep(time.Until(held.Until))
	}
}

// Close does not wait for a cluster that does not answer.
func TestCloseWithoutMembers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	s := mustOpen(t, c.URL("coppice"))
	lease, err := s.Acquire(t.Context(), "l", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{put("a", "1")}); err != nil {
		t.Fatal(err)
	}
	c.Pause(0)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Apply(context.Background(), lease.Fence(), nil, []store.Op{put("a", "2")})
		ended <- err
	}()
	begun := time.Now()
	s.Close()
	if took := time.Since(begun); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
	<-lease.Done()
	if err := <-ended; err == nil {
		t.Error("a write that got no answer has no error")
	}
	c.Kill(0)
	begun = time.Now()
	if _, err := open(t.Context(), c.URL("coppice")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("opened without etcd: %v", err)
	} else if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("it took %v to see that", took)
	} else if !strings.Contains(err.Error(), "nothing listens on") {
		t.Errorf("it does not say why: %v", err)
	}
}

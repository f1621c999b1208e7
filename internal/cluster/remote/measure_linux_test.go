package remote

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/store"
)

// sides calls f with a local runtime, and with the same kind on another node.
func sides(b *testing.B, f func(b *testing.B, r runtime.Runtime)) {
	b.Run("local", func(b *testing.B) {
		r := openShim(b, shim.Options{Dir: slotsDir(b)})
		defer r.Close()
		f(b, r)
	})
	b.Run("remote", func(b *testing.B) {
		r := newPair(b).far(b, openShim(b, shim.Options{Dir: slotsDir(b)}))
		defer r.Close()
		f(b, r)
	})
}

// startAll starts agents in parallel, up to 32 at the same time.
func startAll(b *testing.B, r runtime.Runtime, agents int, n uint64) []runtime.Session {
	all := make([]runtime.Session, agents)
	places := make(chan struct{}, 32)
	var starting sync.WaitGroup
	for i := range all {
		places <- struct{}{}
		starting.Go(func() {
			defer func() { <-places }()
			s, err := r.Start(context.Background(), sh(fmt.Sprintf("app%d/%d", i%10, i), n, forever))
			if err != nil {
				b.Error(err)
			}
			all[i] = s
		})
	}
	starting.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return all
}

func killAll(b *testing.B, all []runtime.Session) {
	for _, s := range all {
		s.Kill()
	}
	for _, s := range all {
		await(b, "an end", s.Done())
	}
}

// BenchmarkStarts starts 300 agents: first in new slots and shims, then again and again in the same ones.
func BenchmarkStarts(b *testing.B) {
	sides(b, func(b *testing.B, r runtime.Runtime) {
		begin := time.Now()
		all := startAll(b, r, 300, 1)
		first := time.Since(begin)
		n := uint64(1)
		for b.Loop() {
			b.StopTimer()
			killAll(b, all)
			b.StartTimer()
			n++
			all = startAll(b, r, 300, n)
		}
		b.ReportMetric(float64(first.Milliseconds()), "first-ms")
		killAll(b, all)
	})
}

// BenchmarkKill measures the time from a Kill to Done.
func BenchmarkKill(b *testing.B) {
	sides(b, func(b *testing.B, r runtime.Runtime) {
		n := uint64(0)
		for b.Loop() {
			b.StopTimer()
			n++
			s := startAll(b, r, 1, n)[0]
			b.StartTimer()
			s.Kill()
			<-s.Done()
		}
	})
}

// BenchmarkRequest measures the smallest request.
func BenchmarkRequest(b *testing.B) {
	sides(b, func(b *testing.B, r runtime.Runtime) {
		s := startAll(b, r, 1, 1)[0]
		for b.Loop() {
			if err := s.Signal(context.Background(), syscall.SIGCONT); err != nil {
				b.Fatal(err)
			}
		}
		killAll(b, []runtime.Session{s})
	})
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	in, out *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	c.out.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// BenchmarkIdle measures what 1,000 sessions cost at rest, both sides together, and a new connection.
func BenchmarkIdle(b *testing.B) {
	const agents, rest = 1000, 20 * time.Second
	p := newPair(b)
	local := openShim(b, shim.Options{Dir: slotsDir(b)})
	s, address := p.serve(b, local)
	var in, out atomic.Int64
	way := newProxy(b, func() string { return address })
	dial := p.dial(p.controller, way.address)
	c := newClient(ClientOptions{Node: "n2", Logger: logger(b), Fence: func() store.Fence { return p.fence },
		Dial: func(ctx context.Context) (net.Conn, error) {
			nc, err := dial(ctx)
			return counted{nc, &in, &out}, err
		}}, pingInterval)
	r := &far{Runtime: c.Runtime("proc"), client: c, server: s, local: local}
	defer r.Close()
	cpu := func() time.Duration {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	localOnly := startAll(b, local, agents, 1)
	before := cpu()
	<-time.After(rest)
	b.ReportMetric(float64(cpu()-before)/float64(rest)*100, "local-cpu-%")
	all := make([]runtime.Session, agents)
	for i := range all {
		all[i] = adopt(b, r, localOnly[i].Observe().Path)
	}
	<-time.After(time.Second)
	fromIn, fromOut := in.Load(), out.Load()
	before = cpu()
	<-time.After(rest)
	b.ReportMetric(float64(cpu()-before)/float64(rest)*100, "cpu-%")
	b.ReportMetric(float64(in.Load()-fromIn)/rest.Seconds(), "in-B/s")
	b.ReportMetric(float64(out.Load()-fromOut)/rest.Seconds(), "out-B/s")
	fromIn, fromOut = in.Load(), out.Load()
	way.cut()
	begin := time.Now()
	for _, s := range all {
		until(b, s, "known", func(o runtime.Observation) bool { return o.Life == runtime.Unknown })
		break
	}
	for _, s := range all {
		until(b, s, "alive", alive)
	}
	b.ReportMetric(float64(time.Since(begin).Milliseconds()), "reconnect-ms")
	b.ReportMetric(float64(in.Load()-fromIn), "reconnect-in-B")
	b.ReportMetric(float64(out.Load()-fromOut), "reconnect-out-B")
	begin = time.Now()
	if listed, err := r.List(context.Background()); err != nil || len(listed) != agents {
		b.Errorf("%d, %v", len(listed), err)
	}
	b.ReportMetric(float64(time.Since(begin).Milliseconds()), "list-ms")
	begin = time.Now()
	if listed, err := local.List(context.Background()); err != nil || len(listed) != agents {
		b.Errorf("%d, %v", len(listed), err)
	}
	b.ReportMetric(float64(time.Since(begin).Milliseconds()), "local-list-ms")
	killAll(b, all)
}

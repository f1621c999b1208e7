package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// loopFleet is a fleet for a Loop: a pass over it takes passTime, and a start ends when it may.
type loopFleet struct {
	*Loop
	passes atomic.Int64
	took   atomic.Int64 // all of them, in nanoseconds
	mu     sync.Mutex
	phases map[string]Phase
	ends   map[string]chan struct{} // of starts
}

const passTime = time.Millisecond

// startLoop runs a Loop over agents that do not run. needs has, by agent, another that must be ready.
func startLoop(t *testing.T, n int, needs map[int]int) *loopFleet {
	f := &loopFleet{phases: make(map[string]Phase), ends: make(map[string]chan struct{})}
	var desired []Desired
	for i := range n {
		d := Desired{Path: pathOf(i)}
		if need, ok := needs[i]; ok {
			d.Needs = []string{pathOf(need)}
		}
		desired = append(desired, d)
		f.phases[d.Path], f.ends[d.Path] = Pending, make(chan struct{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	f.Loop = NewLoop(LoopOptions{
		Desired: func() []Desired { return desired },
		Observe: func() map[string]*Observed {
			f.passes.Add(1)
			time.Sleep(passTime)
			f.mu.Lock()
			defer f.mu.Unlock()
			all := make(map[string]*Observed, n)
			for path, phase := range f.phases {
				all[path] = &Observed{Path: path, Phase: phase, Ready: phase == Running}
			}
			return all
		},
		RemoveFirst: func(map[string]*Observed) map[string][]string { return nil },
		Do: func(ctx context.Context, a Action) {
			select {
			case <-f.ends[a.Path]:
				f.mu.Lock()
				f.phases[a.Path] = Running
				f.mu.Unlock()
				f.EnqueueEvent()
			case <-ctx.Done():
			}
		},
		Held: func(Delay) {}, BeforePass: func() {}, AfterPlan: func() {},
		AfterPass: func(took time.Duration) { f.took.Add(int64(took)) },
		Interval:  func() time.Duration { return time.Minute }, Starts: n,
		Go: func(f func(context.Context)) { wg.Go(func() { f(ctx) }) },
	})
	wg.Go(func() { f.Run(ctx) })
	synctest.Wait()
	time.Sleep(time.Second)
	return f
}

func pathOf(i int) string { return fmt.Sprint("t/a", i) }

func TestPassesWhileFleetStarts(t *testing.T) {
	for name, row := range map[string]struct {
		needs       map[int]int
		least, most int64 // passes while 1,000 starts end in a second
	}{
		"none waits for another": {nil, 25, 40},
		"one waits for the last": {map[int]int{0: 1000}, 150, 210},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startLoop(t, 1001, row.needs)
				before := f.passes.Load()
				for i := range 1000 {
					if _, waits := row.needs[i]; !waits {
						close(f.ends[pathOf(i)])
					}
					time.Sleep(time.Millisecond)
				}
				if n := f.passes.Load() - before; n < row.least || n > row.most {
					t.Errorf("%d passes, want %d to %d", n, row.least, row.most)
				}
				time.Sleep(10 * time.Second) // no pass is in progress
				if took := time.Duration(f.took.Load()); took != time.Duration(f.passes.Load())*passTime {
					t.Errorf("%d passes have taken %v", f.passes.Load(), took)
				}
			})
		})
	}
}

func TestPassIsSoonWhenAwaited(t *testing.T) {
	const soon = (1 + pauseFactor + 1) * passTime
	// begin returns a fleet that has just made a pass: the next event is in no hurry.
	begin := func(t *testing.T, needs map[int]int) *loopFleet {
		f := startLoop(t, 3, needs)
		f.EnqueueEvent()
		time.Sleep(soon)
		f.EnqueueEvent()
		return f
	}
	run := func(f *loopFleet, i int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.phases[pathOf(i)] = Running
	}
	for name, test := range map[string]func(*testing.T){
		"by nothing": func(t *testing.T) {
			f := begin(t, nil)
			before := f.passes.Load()
			if time.Sleep(soon); f.passes.Load() != before {
				t.Error("an event leads to a pass at once")
			}
		},
		"by a request": func(t *testing.T) {
			f := begin(t, nil)
			before := f.passes.Load()
			f.Enqueue()
			if time.Sleep(soon); f.passes.Load() == before {
				t.Error("a request waits for events")
			}
		},
		"by a node, and an event makes another ready": func(t *testing.T) {
			f := begin(t, map[int]int{2: 1})
			run(f, 1)
			f.EnqueueEvent()
			time.Sleep(2 * soon)
			if !f.IsBusy(pathOf(2)) {
				t.Error("a node waits for one that is ready")
			}
		},
		"by a node, and a start has ended": func(t *testing.T) {
			f := begin(t, map[int]int{2: 1})
			close(f.ends[pathOf(1)])
			time.Sleep(soon)
			if !f.IsBusy(pathOf(2)) {
				t.Error("a node waits for one that is ready")
			}
		},
		"by a caller, and the last start ends": func(t *testing.T) {
			f := begin(t, nil)
			for i := range 3 {
				run(f, i)
			}
			idle := make(chan time.Time)
			go func() { _ = f.AwaitIdle(t.Context()); idle <- time.Now() }()
			time.Sleep(2 * soon)
			begun := time.Now()
			for i := range 3 {
				close(f.ends[pathOf(i)])
			}
			time.Sleep(passTime / 2)
			f.EnqueueEvent() // during the pass
			if took := (<-idle).Sub(begun); took > 2*soon {
				t.Errorf("idle after %v", took)
			}
		},
		"by a caller after events": func(t *testing.T) {
			f := begin(t, nil)
			for i := range 3 {
				close(f.ends[pathOf(i)])
			}
			_ = f.AwaitIdle(t.Context())
			f.EnqueueEvent()
			time.Sleep(soon)
			f.EnqueueEvent()
			time.Sleep(soon)
			begun := time.Now()
			if err := f.AwaitIdle(t.Context()); err != nil || time.Since(begun) > soon {
				t.Errorf("idle after %v, %v", time.Since(begun), err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// A loop whose last pass is older than three intervals has stalled, but at least 3 s old.
func TestStalled(t *testing.T) {
	for name, tt := range map[string]struct {
		interval, age time.Duration
		want          string
	}{
		"just in time": {time.Minute, 3 * time.Minute, ""},
		"late": {time.Minute, 3*time.Minute + time.Second,
			"the last pass has ended 3m1s ago, more than 3m0s"},
		"a short interval": {time.Millisecond, 3 * time.Second, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLoop(LoopOptions{Interval: func() time.Duration { return tt.interval }})
			if err := l.Stalled(); err == nil || err.Error() != "no pass has ended yet" {
				t.Errorf("%s: before the first pass: %v", name, err)
			}
			l.passed.Store(time.Now().UnixNano())
			time.Sleep(tt.age)
			if err := l.Stalled(); fmt.Sprint(err) != cmp.Or(tt.want, "<nil>") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

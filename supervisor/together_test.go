package supervisor_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// guest is a process that ends some time after it was asked to.
type guest struct {
	name     string
	takes    time.Duration
	patience time.Duration
	asked    func(string)
	done     chan struct{}
	once     sync.Once
	killed   bool
}

func (g *guest) Wait() supervisor.Exit {
	<-g.done
	return supervisor.Exit{Kind: supervisor.ShutDown}
}
func (g *guest) StopTimeout() time.Duration { return g.patience }
func (g *guest) Stop() {
	g.asked(g.name)
	time.Sleep(g.takes)
	g.once.Do(func() { close(g.done) })
}
func (g *guest) Kill() {
	g.killed = true
	g.once.Do(func() { close(g.done) })
}

func guests(asked func(string), all ...*guest) (specs []supervisor.ChildSpec) {
	for _, g := range all {
		g.asked, g.done = asked, make(chan struct{})
		specs = append(specs, supervisor.ChildSpec{ID: g.name, Start: func(context.Context) (supervisor.Process, error) { return g, nil }})
	}
	return specs
}

func TestStopTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		together bool
		update   bool
		strategy supervisor.Strategy
		took     time.Duration
	}{
		{"one after the other", false, false, supervisor.OneForOne, 6 * time.Second},
		{"together", true, false, supervisor.OneForOne, 3 * time.Second},
		{"together, whatever the strategy", true, false, supervisor.RestForOne, 3 * time.Second},
		{"since an update", true, true, supervisor.OneForOne, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var asked []string
				begin := time.Now()
				note := func(name string) {
					mu.Lock()
					defer mu.Unlock()
					if time.Since(begin) == 0 {
						asked = append(asked, name)
					}
				}
				spec := supervisor.Spec{
					Strategy: c.strategy, StopTogether: c.together && !c.update,
					Children: guests(note, &guest{name: "a", takes: 3 * time.Second}, &guest{name: "b", takes: 2 * time.Second}, &guest{name: "c", takes: time.Second}),
				}
				s, err := supervisor.Start(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				if c.update {
					spec.StopTogether = true
					if err := s.Update(context.Background(), spec); err != nil {
						t.Fatal(err)
					}
				}
				begin = time.Now()
				s.Stop()
				if err := s.Wait(); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				slices.Sort(asked)
				if want := map[bool][]string{true: {"a", "b", "c"}, false: {"c"}}[c.together]; !slices.Equal(asked, want) {
					t.Errorf("asked at once: %q, want %q", asked, want)
				}
			})
		})
	}
}

// A supervisor that stops its children one after the other can be told to hurry.
func TestStopTogetherMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := supervisor.Start(t.Context(), supervisor.Spec{Children: guests(func(string) {},
			&guest{name: "a", takes: 4 * time.Second}, &guest{name: "b", takes: 3 * time.Second}, &guest{name: "c", takes: 5 * time.Second})})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		s.Stop()
		time.Sleep(time.Second)
		s.StopTogether()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
		s.StopTogether() // nothing happens
	})
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := &guest{name: "patient", takes: time.Hour, patience: 2 * time.Hour}
		infinite := &guest{name: "infinite", takes: 24 * time.Hour, patience: supervisor.Infinity}
		hasty := &guest{name: "hasty", takes: time.Hour, patience: time.Second}
		other := &guest{name: "other", takes: time.Hour}
		s, err := supervisor.Start(t.Context(), supervisor.Spec{StopTogether: true, Children: guests(func(string) {}, patient, infinite, hasty, other)})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		s.Stop()
		for _, c := range []struct {
			*guest
			killed bool
			took   time.Duration
		}{{hasty, true, time.Second}, {other, true, supervisor.DefaultShutdown}, {patient, false, time.Hour}, {infinite, false, 24 * time.Hour}} {
			<-c.done
			if took := time.Since(begin); c.guest.killed != c.killed || took != c.took {
				t.Errorf("%s was killed: %v, took %v, want %v and %v", c.name, c.guest.killed, took, c.killed, c.took)
			}
		}
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) // for those that were killed to wake up
	})
}

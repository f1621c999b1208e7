package belief

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/value"
)

// machine compares a Store on a faulty store with a model.
type machine struct {
	t       *rapid.T
	inner   store.Store
	seed    uint64
	store   *storetest.Faults
	beliefs *Store
	life    map[string]uint64                 // open incarnations
	last    uint64                            // the last number given to any agent
	kept    map[string]map[string]value.Value // persistent values
	now     map[string]map[string]value.Value // transient values of this life
}

var declared = []spec.Belief{
	{Name: "p", Type: value.Int, Persistent: true, Initial: "1"},
	{Name: "q", Type: value.Any, Persistent: true},
	{Name: "t", Type: value.Int, Initial: "2"},
	{Name: "u"},
}

func (m *machine) reopen() {
	m.seed++
	m.store = storetest.NewFaults(m.inner, m.seed, storetest.Rates{Unknown: 0.3, Conflict: 0.3})
	for {
		beliefs, problems, err := Open(context.Background(), m.store)
		if err == nil && len(problems) == 0 {
			m.beliefs = beliefs
			break
		}
		m.t.Fatal(err, problems)
	}
	m.beliefs.Declare("app/d", declared)
	m.beliefs.Declare("app/f", nil)
}

// expected returns what an agent should see.
func (m *machine) expected(path string) map[string]value.Value {
	want := make(map[string]value.Value)
	if path == "app/d" {
		for _, d := range declared {
			want[d.Name] = d.Start()
		}
	}
	maps.Copy(want, m.kept[path])
	maps.Copy(want, m.now[path])
	return want
}

func (m *machine) check(path string) {
	list, err := m.beliefs.Get(context.Background(), path, m.life[path])
	if err != nil {
		m.t.Fatal(err)
	}
	got := make(map[string]value.Value)
	for _, l := range list {
		got[l.Name] = l.Value
	}
	if want := m.expected(path); !maps.Equal(got, want) {
		m.t.Fatalf("%s is %v, want %v", path, got, want)
	}
}

// With any faults, acknowledged values are there, also after the Store is opened again, and nothing
// else is.
func TestMachine(t *testing.T) {
	paths := rapid.SampledFrom([]string{"app/d", "app/f"})
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t, inner: memory.New(), life: map[string]uint64{},
			kept: map[string]map[string]value.Value{"app/d": {}, "app/f": {}}, now: map[string]map[string]value.Value{"app/d": {}, "app/f": {}}}
		m.reopen()
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				path := paths.Draw(t, "path")
				m.last++
				if _, err := m.beliefs.Begin(context.Background(), path, Life{m.last, fmt.Sprint("life", m.last)}); err != nil {
					t.Fatal(err)
				}
				m.life[path] = m.last
				clear(m.now[path])
			},
			"end": func(t *rapid.T) {
				path := paths.Draw(t, "path")
				m.beliefs.End(path, m.life[path])
				delete(m.life, path)
				clear(m.now[path])
			},
			"crash": func(t *rapid.T) {
				m.reopen()
				for path, n := range m.life { // all incarnations survive
					if _, err := m.beliefs.Begin(context.Background(), path, Life{n, fmt.Sprint("life", n)}); err != nil {
						t.Fatal(err)
					}
				}
			},
			"step": func(t *rapid.T) {
				path := paths.Draw(t, "path")
				s := Step{Path: path, By: m.life[path], Set: map[string]value.Value{}}
				late := m.life[path] > 1 && rapid.IntRange(0, 4).Draw(t, "late") == 0
				if late {
					s.By--
				} else if rapid.Bool().Draw(t, "person") {
					s.By = Person
				}
				names := []string{"p", "q", "t", "u"}
				if m.life[path] == 0 {
					names = names[:2]
				}
				for _, name := range names {
					switch rapid.IntRange(0, 3).Draw(t, name) {
					case 0, 1:
						s.Set[name] = value.Value(strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "value")))
						if rapid.IntRange(0, 9).Draw(t, "large") == 0 && name == "q" {
							s.Set[name] = value.Value(`"` + strings.Repeat("x", maxInMemory) + `"`)
						}
					case 2:
						if _, there := m.expected(path)[name]; there {
							s.Delete = append(s.Delete, name)
						}
					}
				}
				err := m.beliefs.Apply(context.Background(), s)
				if late {
					if !errors.Is(err, ErrStale) {
						t.Fatalf("a stale step: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				into := func(name string) map[string]value.Value {
					if path == "app/d" && (name == "t" || name == "u") {
						return m.now[path]
					}
					return m.kept[path]
				}
				for name, v := range s.Set {
					into(name)[name] = v
				}
				for _, name := range s.Delete {
					delete(into(name), name)
				}
			},
			"": func(*rapid.T) { m.check("app/d"); m.check("app/f") },
		})
	})
}

// Incarnations that write continuously are replaced. Each one starts from the last acknowledged
// step, or a whole step that was in progress, and what it sees does not change.
func TestSuccession(t *testing.T) {
	for name, rates := range map[string]storetest.Rates{"sound": {}, "faults": {Unknown: 0.3, Conflict: 0.3}} {
		t.Run(name, func(t *testing.T) {
			f := storetest.NewFaults(memory.New(), 7, rates)
			b := open(t, f)
			var agents sync.WaitGroup
			for a := range 4 {
				agents.Go(func() { runIncarnations(t, b, fmt.Sprint("app/a", a), 25) })
			}
			agents.Wait()
			if c := f.Counts(); rates.Unknown > 0 && (c.UnknownDone == 0 || c.UnknownNotDone == 0 || c.Conflicts == 0) {
				t.Errorf("not tested: %+v", c)
			}
		})
	}
}

func runIncarnations(t *testing.T, b *Store, path string, rounds uint64) {
	ctx := context.Background()
	readTriple := func(by uint64) (n int) {
		list, err := b.Get(ctx, path, by)
		if err != nil {
			t.Error(err)
			return 0
		}
		got := map[string]int{}
		for _, l := range list {
			got[l.Name], _ = strconv.Atoi(string(l.Value))
		}
		if n = got["n"]; got["square"] != n*n || got["negative"] != -n {
			t.Errorf("%s: half a step: %v", path, got)
		}
		return n
	}
	acknowledged := 0
	for i := uint64(1); i <= rounds; i++ {
		begin(t, b, path, i)
		first := readTriple(i)
		if first != acknowledged {
			t.Errorf("%s: incarnation %d starts from %d, acknowledged was %d", path, i, first, acknowledged)
		}
		started, ended := make(chan struct{}), make(chan int)
		go func() {
			last := first
			for n := first + 1; ; n++ {
				err := set(b, path, i, fmt.Sprint("n=", n), fmt.Sprint("square=", n*n), fmt.Sprint("negative=", -n))
				if n == first+5 {
					close(started)
				}
				if err != nil {
					if !errors.Is(err, ErrStale) {
						t.Error(err)
					}
					ended <- last
					return
				}
				last = n
			}
		}()
		select {
		case <-started:
		case <-time.After(time.Minute):
			t.Fatal("no progress")
		}
		begin(t, b, path, i+rounds) // as a successor would
		now := readTriple(i + rounds)
		acknowledged = <-ended
		if later := readTriple(i + rounds); later != now || now != acknowledged {
			t.Errorf("%s: %d when it began, %d later, %d acknowledged", path, now, later, acknowledged)
		}
	}
}

// Writes of different agents run concurrently; those of one agent do not.
func TestWritesAreConcurrent(t *testing.T) {
	const agents = 8
	arrived := make(chan struct{}, agents)
	gate := make(chan struct{})
	b := open(t, gated{memory.New(), arrived, gate})
	var all sync.WaitGroup
	for i := range agents {
		for range 2 {
			all.Go(func() { mustSet(t, b, fmt.Sprint("app/a", i), Person, "n=1") })
		}
	}
	for range agents {
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("one agent waits for another")
		}
	}
	close(gate)
	all.Wait()
}

// gated is a store whose writes wait.
type gated struct {
	store.Store
	arrived chan<- struct{}
	gate    <-chan struct{}
}

func (g gated) Apply(ctx context.Context, f store.Fence, c []store.Cond, o []store.Op) (store.Rev, error) {
	select {
	case g.arrived <- struct{}{}:
	case <-g.gate:
	}
	<-g.gate
	return g.Store.Apply(ctx, f, c, o)
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"incarnation":3,"life":"x","time":"2026-01-02T03:04:05Z","value":{"a":1}}`))
	f.Add([]byte(`{"value":`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := decode(store.Record{Value: data, Rev: 1})
		if e.damage != "" {
			return
		}
		h, v, _ := parseRecord(data)
		if strings.ContainsFunc(h.Life, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // such a life is never written
		}
		again, w, err := parseRecord(h.encode(v))
		if err != nil || w != v || again.Incarnation != h.Incarnation || again.Life != h.Life || again.Transient != h.Transient || !again.Time.Equal(h.Time) {
			t.Errorf("%q is %+v %s, and that is %+v %s, %v", data, h, v, again, w, err)
		}
	})
}

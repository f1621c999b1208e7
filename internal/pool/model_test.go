package pool

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/spec"
)

// poolModel is a pool whose plans are carried out at once, except that a removed instance takes some
// time to end.
type poolModel struct {
	agent   *spec.Agent
	demand  Demand
	now     time.Time
	members []Member
	lastGot int // the last good answer; -1 before there was one
}

func (w *poolModel) wanted() []string { return w.agent.Instances(w.demand.Size(w.agent.Pool)) }

func (w *poolModel) find(name string) *Member {
	i := slices.IndexFunc(w.members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &w.members[i]
}

// patrol plans, checks the plan and carries it out.
func (w *poolModel) patrol(t *rapid.T) {
	wanted := w.wanted()
	steps, next := Plan(w.now, wanted, w.members)
	lowest := 1 << 30 // of those who are asked, which go from the end
	for _, s := range steps {
		isWanted := slices.Contains(wanted, s.Name)
		m := w.find(s.Name)
		if (m == nil) != (s.Verb == Add) {
			t.Fatalf("%v %s, who exists: %v", s.Verb, s.Name, m != nil)
		}
		switch s.Verb {
		case Add:
			if !isWanted {
				t.Fatalf("%s is added and not wanted", s.Name)
			}
			w.members = append(w.members, Member{Name: s.Name, Lives: true})
		case BeginDrain:
			at := slices.Index(names(w.members), s.Name)
			if isWanted || m.Drain != nil || m.Held || !m.Lives || m.Leaving || at > lowest {
				t.Fatalf("%+v is asked to finish, wanted: %v, after number %d", *m, isWanted, lowest)
			}
			lowest = at
			m.Drain = &Drain{Until: w.now.Add(w.agent.Pool.DrainTimeout)}
		case CancelDrain:
			if !isWanted || m.Drain == nil || m.Drain.Finished || !w.now.Before(m.Drain.Until) {
				t.Fatalf("%+v goes on, wanted: %v", *m, isWanted)
			}
			m.Drain = nil
		case Remove:
			switch {
			case m.Leaving:
				t.Fatalf("%s is removed twice", s.Name)
			case isWanted && m.Drain == nil && !m.Again:
				t.Fatalf("%s is removed, wanted and never asked to finish", s.Name)
			case m.Lives && m.Held:
				t.Fatalf("%s is removed while somebody waits for it", s.Name)
			case m.Lives && !(m.Drain.Finished || !w.now.Before(m.Drain.Until)):
				t.Fatalf("%s is killed in the middle of its work: %+v", s.Name, *m)
			}
			m.Leaving = true
		}
	}
	w.sort()
	if again, later := Plan(w.now, w.wanted(), w.members); len(again) > 0 || later != next && len(steps) == 0 {
		t.Fatalf("a second plan at the same time: %+v, next %v after %v", again, later, next)
	}
	for _, m := range w.members {
		if m.Drain != nil && !m.Leaving && m.Lives && !slices.Contains(wanted, m.Name) {
			if _, later := Plan(w.now, w.wanted(), w.members); later.IsZero() || later.After(m.Drain.Until) {
				t.Fatalf("no pass is planned for %+v, next is %v", m, later)
			}
		}
	}
}

// checkConverged checks that exactly the wanted instances exist, except for those that still drain.
func (w *poolModel) checkConverged(t *rapid.T) {
	for range 3 { // those who are removed go, those who come back come
		w.patrol(t)
		w.members = slices.DeleteFunc(w.members, func(m Member) bool { return m.Leaving })
	}
	wanted := w.wanted()
	for _, name := range wanted {
		if w.find(name) == nil {
			t.Fatalf("%s is wanted and does not exist", name)
		}
	}
	for _, m := range w.members {
		if m.Drain == nil && !m.Held && !slices.Contains(wanted, m.Name) {
			t.Fatalf("%+v is left over", m)
		}
	}
	if p := w.agent.Pool; len(wanted) < p.Min || len(wanted) > p.Ceiling() || w.lastGot >= p.Min && w.lastGot <= p.Ceiling() && len(wanted) != w.lastGot {
		t.Fatalf("%d are wanted, the check says %d, bounds are %d to %d", len(wanted), w.lastGot, p.Min, p.Ceiling())
	}
}

// Random checks, exits, drains by people, delays and changes of the file lead to plans that keep the
// rules. No working member is stopped before it has finished or its time is over. Surplus members
// are drained from the end. A member that is wanted again keeps running. The pool ends up with the
// size that was asked for last.
func TestPoolModel(t *testing.T) {
	somePool := rapid.Custom(func(t *rapid.T) *spec.Pool {
		p := &spec.Pool{Min: rapid.IntRange(0, 2).Draw(t, "min"), DrainTimeout: time.Duration(rapid.IntRange(1, 9).Draw(t, "drain timeout")) * time.Second}
		p.Max = p.Min + rapid.IntRange(0, 4).Draw(t, "more")
		if rapid.Bool().Draw(t, "named") {
			p.Names = rapid.Permutation([]string{"ada", "bob", "cid", "dan", "eve", "fay"}).Draw(t, "names")
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		w := &poolModel{agent: &spec.Agent{Name: "w", Pool: somePool.Draw(t, "pool")}, now: noon, lastGot: -1}
		some := func() *Member {
			if len(w.members) == 0 {
				t.Skip("no members")
			}
			return &w.members[rapid.IntRange(0, len(w.members)-1).Draw(t, "who")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"check": func(t *rapid.T) {
				w.lastGot = rapid.IntRange(-1, 8).Draw(t, "answer")
				w.demand = w.demand.Answered(w.lastGot, nil)
			},
			"bad check": func(t *rapid.T) {
				before := w.demand.Size(w.agent.Pool)
				w.demand = w.demand.Answered(rapid.IntRange(0, 8).Draw(t, "answer"), errors.New("rubbish"))
				if after := w.demand.Size(w.agent.Pool); after != before {
					t.Fatalf("a check that failed changes the size from %d to %d", before, after)
				}
			},
			"finish": func(t *rapid.T) {
				if m := some(); m.Drain != nil {
					m.Drain.Finished = true
				}
			},
			"die":     func(t *rapid.T) { some().Lives = false },
			"restart": func(t *rapid.T) { m := some(); m.Lives = m.Lives || m.Drain == nil && !m.Leaving && !m.Again },
			"again":   func(t *rapid.T) { m := some(); m.Again = !m.Lives },
			"hold":    func(t *rapid.T) { m := some(); m.Held = m.Drain == nil && !m.Leaving },
			"go": func(t *rapid.T) {
				if m := some(); m.Leaving {
					w.members = slices.DeleteFunc(w.members, func(o Member) bool { return o.Name == m.Name })
				}
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"reload":  func(t *rapid.T) { w.agent = &spec.Agent{Name: "w", Pool: somePool.Draw(t, "pool")}; w.sort() },
			"patrol":  w.patrol,
			"settled": w.checkConverged,
			"":        func(*rapid.T) {},
		})
	})
}

// sort puts members into the order of the file.
func (w *poolModel) sort() {
	order := w.agent.Sorted(names(w.members))
	slices.SortFunc(w.members, func(a, b Member) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
}

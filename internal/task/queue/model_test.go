package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// modelTask is the model of a task.
type modelTask struct {
	n         int // in order of creation
	id, title string
	status    task.Status
	priority  int
	pool      string
	parent    string
	deps      []string
	holder    string
	life      uint64
	claims    int
	failed    int // failed claims since a person has opened it
	comments  int
	waits     bool // blocked by a condition
}

// open ends a claim, or opens the task otherwise.
func (t *modelTask) open(actor task.Actor) {
	held := t.holder != ""
	t.status, t.holder, t.life, t.waits = task.Open, "", 0, false
	switch {
	case held && !actor.Person():
		t.comments++ // about the attempt
		if t.failed++; t.failed >= spec.DefaultMaxClaims {
			t.status = task.Parked
		}
	case actor.Person():
		t.failed = 0
	}
}

type model struct {
	tasks map[string]*modelTask
	lives map[string]uint64
	last  map[string]uint64
}

// behind returns the tasks that a task waits for.
func (m *model) behind(id string) []string {
	all := slices.Clone(m.tasks[id].deps)
	for other, t := range m.tasks {
		if t.parent == id {
			all = append(all, other)
		}
	}
	return all
}

func (m *model) circular(id string) bool {
	seen := map[string]bool{}
	var reach func(string) bool
	reach = func(at string) bool {
		for _, next := range m.behind(at) {
			if next == id {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if reach(next) {
					return true
				}
			}
		}
		return false
	}
	return reach(id)
}

func (m *model) waits(id string) bool {
	return slices.ContainsFunc(m.behind(id), func(other string) bool { return m.tasks[other].status != task.Closed })
}

func (m *model) openChildren(id string) bool {
	for _, t := range m.tasks {
		if t.parent == id && t.status != task.Closed {
			return true
		}
	}
	return false
}

func (m *model) ready(id string) bool { return m.tasks[id].status == task.Open && !m.waits(id) }

// next returns the first ready task of a pool.
func (m *model) next(pool string) *modelTask {
	var best *modelTask
	for id, t := range m.tasks {
		if t.pool == pool && m.ready(id) && (best == nil || cmp.Or(cmp.Compare(t.priority, best.priority), cmp.Compare(t.n, best.n)) < 0) {
			best = t
		}
	}
	return best
}

func (m *model) mayChange(actor task.Actor, t *modelTask) bool {
	return t.holder == "" || actor.Person() || t.holder == actor.Path && t.life == actor.Incarnation
}

func (m *model) describe() string {
	var all []string
	for id, t := range m.tasks {
		all = append(all, fmt.Sprintf("%s %s %s %d %q %q %v %q %d %d %d %d %v", id, t.title, t.status, t.priority, t.pool, t.parent, task.Sorted(t.deps), t.holder, t.life, t.claims, t.failed, t.comments, m.ready(id)))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func describe(tasks []task.Task) string {
	var all []string
	for _, t := range tasks {
		var h task.Holder
		if t.Claim != nil {
			h = *t.Claim
		}
		all = append(all, fmt.Sprintf("%s %s %s %d %q %q %v %q %d %d %d %d %v", t.ID, t.Title, t.Status, t.Priority, t.Pool, t.Parent, task.Sorted(t.DependsOn), h.By, h.Incarnation, t.Claims, t.FailedClaims, t.Comments, t.Ready))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// With any store faults, and after the queue is opened again, tasks are as in a plain map.
func TestModel(t *testing.T) {
	var faults storetest.Counts
	var statuses []string
	for _, s := range task.Statuses() {
		statuses = append(statuses, string(s))
	}
	rapid.Check(t, func(t *rapid.T) {
		inner := memory.New()
		defer inner.Close()
		s := storetest.NewFaults(inner, rapid.Uint64().Draw(t, "seed"), storetest.Rates{Unknown: 0.2, Conflict: 0.2})
		defer func() {
			c := s.Counts()
			faults.UnknownDone += c.UnknownDone
			faults.UnknownNotDone += c.UnknownNotDone
			faults.Conflicts += c.Conflicts
		}()
		q := openQueue(t, s)
		defer func() { q.Close() }()
		m := &model{map[string]*modelTask{}, map[string]uint64{}, map[string]uint64{}}
		ctx := context.Background()
		people := func(t *rapid.T) task.Actor {
			path := rapid.SampledFrom([]string{"t/a", "t/b", ""}).Draw(t, "who")
			if path == "" {
				return ann
			}
			return agent(path, m.last[path])
		}
		some := func(t *rapid.T, name string) string {
			if len(m.tasks) == 0 {
				t.Skip("there are no tasks")
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(m.tasks))).Draw(t, name)
		}
		alive := func(actor task.Actor) bool {
			return actor.Person() || m.lives[actor.Path] == actor.Incarnation && actor.Incarnation > 0
		}
		// want checks the error of a call.
		want := func(t *rapid.T, err error, kinds ...error) bool {
			t.Helper()
			if len(kinds) == 0 {
				if err != nil {
					t.Fatalf("%v", err)
				}
				return true
			}
			if !errors.Is(err, kinds[0]) {
				t.Fatalf("%v, want %v", err, kinds[0])
			}
			return false
		}
		dies := func(path string, failed bool) {
			for _, known := range m.tasks {
				if known.holder == path && known.life != m.lives[path] {
					if !failed {
						known.status, known.holder, known.life = task.Open, "", 0
						continue
					}
					known.open(agent(path, known.life))
				}
			}
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				n++
				actor := people(t)
				d := task.Draft{Title: fmt.Sprint(n), Text: "x", Pool: rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "pool")}
				priority := rapid.IntRange(0, 2).Draw(t, "priority")
				d.Priority = &priority
				known := &modelTask{n: n, title: d.Title, status: task.Open, priority: priority, pool: d.Pool}
				if len(m.tasks) > 0 && rapid.Bool().Draw(t, "parent?") {
					d.Parent = some(t, "parent")
					known.parent = d.Parent
				}
				if len(m.tasks) > 0 && rapid.Bool().Draw(t, "dep?") {
					d.DependsOn = []string{some(t, "dep")}
					known.deps = d.DependsOn
				}
				made, fresh, err := q.Create(ctx, actor, d)
				m.tasks["new"] = known
				circular := m.circular("new")
				delete(m.tasks, "new")
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case d.Parent != "" && m.tasks[d.Parent].status == task.Closed:
					want(t, err, task.ErrConflict)
				case circular:
					want(t, err, task.ErrInvalid)
				default:
					want(t, err)
					if !fresh || m.tasks[made.ID] != nil {
						t.Fatalf("%s is not new", made.ID)
					}
					known.id = made.ID
					m.tasks[made.ID] = known
				}
			},
			"begin": func(t *rapid.T) {
				path := rapid.SampledFrom([]string{"t/a", "t/b"}).Draw(t, "path")
				m.last[path]++
				m.lives[path] = m.last[path]
				q.Begin(path, lifeOf(m.last[path]))
				want(t, q.ReleaseOrphans(ctx, path))
				dies(path, false)
			},
			"end": func(t *rapid.T) {
				path := rapid.SampledFrom([]string{"t/a", "t/b"}).Draw(t, "path")
				failure := rapid.SampledFrom([]string{"", "exit code 1"}).Draw(t, "failure")
				q.End(path, m.last[path], task.Exit{Failure: failure})
				delete(m.lives, path)
				want(t, q.ReleaseOrphans(ctx, path))
				dies(path, failure != "")
			},
			"claim next": func(t *rapid.T) {
				actor := people(t)
				got, err := tryClaim(ctx, q, actor, task.Claiming{Pools: []string{"p", "q"}})
				best := cmp.Or(m.next("p"), m.next("q"))
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case best == nil:
					want(t, err, task.ErrNothing)
				default:
					want(t, err)
					if got.ID != best.id {
						t.Fatalf("%s comes first, want %s", got.ID, best.id)
					}
					best.status, best.holder, best.life = task.InProgress, actor.String(), actor.Incarnation
					best.claims++
				}
			},
			"claim one": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				known := m.tasks[id]
				_, err := tryClaim(ctx, q, actor, task.Claiming{ID: id})
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case known.holder == actor.String() && known.life == actor.Incarnation:
					want(t, err)
				case !m.ready(id):
					want(t, err, task.ErrConflict)
				default:
					want(t, err)
					known.status, known.holder, known.life = task.InProgress, actor.String(), actor.Incarnation
					known.claims++
				}
			},
			"close": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				known := m.tasks[id]
				_, err := tryFinish(ctx, q, actor, id, task.Ending{Reason: fmt.Sprint(n)})
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case known.status == task.Closed: // by somebody, for a reason, at times the same
					if err != nil {
						want(t, err, task.ErrConflict)
					}
				case !m.mayChange(actor, known), m.openChildren(id):
					want(t, err, task.ErrConflict)
				default:
					want(t, err)
					known.status, known.holder, known.life, known.waits = task.Closed, "", 0, false
				}
			},
			"release": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				known := m.tasks[id]
				_, err := release(ctx, q, actor, id, "")
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case known.status == task.Open:
					want(t, err)
				case known.status != task.InProgress, !m.mayChange(actor, known):
					want(t, err, task.ErrConflict)
				default:
					want(t, err)
					known.open(actor)
				}
			},
			"reopen or retry": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				known := m.tasks[id]
				verb, retries := reopen, rapid.Bool().Draw(t, "retry")
				if retries {
					verb = retry
				}
				_, err := verb(ctx, q, actor, id, "")
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case known.status == task.Open:
					want(t, err)
				case !retries && known.status != task.Closed, !m.mayChange(actor, known),
					known.status == task.Parked && !actor.Person():
					want(t, err, task.ErrConflict)
				default:
					want(t, err)
					known.open(actor)
				}
			},
			"edit": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				known := m.tasks[id]
				before := *known
				var e task.Edit
				if on := some(t, "dep"); rapid.Bool().Draw(t, "dep?") {
					e.AddDepends = []string{on}
					known.deps = task.Sorted(append(slices.Clone(known.deps), on))
				}
				if len(before.deps) > 0 && rapid.Bool().Draw(t, "remove?") {
					gone := before.deps[0]
					e.RemoveDepends = []string{gone}
					if !slices.Contains(e.AddDepends, gone) {
						known.deps = slices.DeleteFunc(slices.Clone(known.deps), func(id string) bool { return id == gone })
					}
				}
				if rapid.Bool().Draw(t, "priority?") {
					known.priority = rapid.IntRange(0, 2).Draw(t, "priority")
					e.Priority = &known.priority
				}
				status := rapid.SampledFrom([]task.Status{"", "", task.Open, task.Blocked, task.Deferred}).Draw(t, "status")
				if status != "" {
					e.Status = &status
				}
				_, err := edit(ctx, q, actor, id, e)
				ok := false
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case !m.mayChange(actor, &before), status != "" && before.status == task.Closed,
					status != "" && before.holder != "" && !actor.Person(), // it reports an outcome
					status != "" && before.status == task.Parked && !actor.Person():
					want(t, err, task.ErrConflict)
				case m.circular(id):
					want(t, err, task.ErrInvalid)
				default:
					ok = want(t, err)
				}
				same := status == before.status && before.holder == "" && known.priority == before.priority &&
					known.parent == before.parent && slices.Equal(known.deps, before.deps)
				if !ok {
					*known = before
				} else if same { // such an edit changes nothing
				} else if status == task.Open {
					known.open(actor)
				} else if status != "" {
					known.status, known.holder, known.life, known.waits = status, "", 0, false
				}
			},
			"block": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				known := m.tasks[id]
				c := rapid.SampledFrom([]outcome.Condition{
					{Kind: outcome.CommandSucceeds, What: "true"}, {Kind: outcome.EventOccurs, What: "task.closed"},
				}).Draw(t, "condition")
				_, err := q.Block(ctx, actor, id, c, "")
				switch {
				case !alive(actor):
					want(t, err, task.ErrStale)
				case !actor.Person(), known.status == task.Closed:
					want(t, err, task.ErrConflict)
				default:
					want(t, err)
					known.status, known.holder, known.life, known.waits = task.Blocked, "", 0, true
				}
			},
			"conditions hold": func(t *rapid.T) {
				all, err := q.Waits(ctx)
				want(t, err)
				waits := 0
				for _, known := range m.tasks {
					if known.waits {
						waits++
					}
				}
				if len(all) != waits {
					t.Fatalf("%d tasks wait, want %d", len(all), waits)
				}
				some := rapid.SliceOfDistinct(rapid.IntRange(0, max(0, waits-1)), rapid.ID).Draw(t, "which")
				var hold []task.Wait
				for _, i := range some {
					if i >= waits {
						continue
					}
					w := all[i]
					if rapid.Bool().Draw(t, "it was blocked again") {
						w.Since = w.Since.Add(-time.Second)
					} else {
						known := m.tasks[w.ID]
						known.status, known.waits = task.Open, false
						known.comments++
					}
					hold = append(hold, w)
				}
				want(t, q.Unblock(ctx, hold, "it holds"))
			},
			"comment": func(t *rapid.T) {
				actor, id := people(t), some(t, "id")
				if _, err := comment(ctx, q, actor, id, "x", ""); alive(actor) {
					want(t, err)
					m.tasks[id].comments++
				} else {
					want(t, err, task.ErrStale)
				}
			},
			"another daemon": func(t *rapid.T) {
				q.Close()
				q = openQueue(t, s)
				if rapid.Bool().Draw(t, "all have died") {
					clear(m.lives)
				}
				for path, life := range m.lives {
					q.Begin(path, lifeOf(life))
				}
				want(t, q.Sweep(ctx, func(string) bool { return false }))
				dies("t/a", false)
				dies("t/b", false)
			},
			"full": func(t *rapid.T) {
				s.Fail(store.ErrFull)
				_, _, err := q.Create(ctx, ann, task.Draft{Title: "x"})
				want(t, err, store.ErrFull)
				s.Fail(nil)
			},
			"": func(t *rapid.T) {
				all, err := q.List(ctx, task.Filter{All: true}, 0, "")
				if err != nil {
					t.Fatal(err)
				}
				if got, want := describe(all), m.describe(); got != want {
					t.Fatalf("tasks are\n%s\nwant\n%s", got, want)
				}
				f := task.Filter{
					Ready: rapid.Bool().Draw(t, "ready"), Active: rapid.Bool().Draw(t, "active"), All: rapid.Bool().Draw(t, "all"),
					Pool:     rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "of pool"),
					Statuses: rapid.SliceOfN(rapid.SampledFrom(statuses), 0, 2).Draw(t, "statuses"),
				}
				some, err := q.List(ctx, f, 0, "")
				if n, err2 := q.Count(ctx, f); err != nil || err2 != nil || n != len(some) {
					t.Fatalf("%+v: %d are counted, %v, and %d listed, %v", f, n, err2, len(some), err)
				}
			},
		})
		checkIndex(t, q)
	})
	if faults.UnknownDone == 0 || faults.UnknownNotDone == 0 || faults.Conflicts == 0 {
		t.Errorf("not everything went wrong: %+v", faults)
	}
}

// checkIndex compares the answers of a queue with those of a State that is built from the same
// tasks.
func checkIndex(t fataler, q *Queue) {
	t.Helper()
	q.engine.mu.Lock()
	defer q.engine.mu.Unlock()
	x := task.NewIndex()
	for _, r := range q.engine.state.Following("", math.MaxInt) {
		x.Add(r)
	}
	fresh := task.NewState(task.Config{PoolLimit: func() pools.Limit { return pools.Limit{} }})
	fresh.Replace(x, nil, 0)
	now := time.Now()
	answers := func(s *task.State) string {
		s.Advance(now)
		all, err := s.List(task.Filter{All: true}, 0, "")
		tasks, _ := json.Marshal(all)
		text := fmt.Sprintf("%s %v", tasks, err)
		for _, f := range []task.Filter{{}, {Ready: true}, {Active: true}, {Pool: "p"}, {Pool: "p", Ready: true}} {
			n, err := s.Count(f)
			text += fmt.Sprint(" ", n, err)
		}
		for _, actor := range []task.Actor{{}, agent("t/a", 1), agent("t/b", 1)} {
			h, _ := json.Marshal(s.Hook(actor, []string{"p", "q", "r"}))
			text += fmt.Sprintf("\n%s", h)
		}
		return text
	}
	if got, want := answers(q.engine.state), answers(fresh); got != want {
		t.Fatalf("the queue says\n%s\nwant\n%s", got, want)
	}
}

// Agents that exit at any time drain a queue: each task is closed once, by its claimant.
func TestDrain(t *testing.T) {
	const agents, tasks = 16, 300
	inner := memory.New()
	defer inner.Close()
	s := storetest.NewFaults(inner, 1, storetest.Rates{Unknown: 0.1, Conflict: 0.1})
	q := openQueue(t, s)
	defer q.Close()
	ctx := t.Context()
	var making sync.WaitGroup
	for i := range tasks {
		making.Go(func() { create(t, q, task.Draft{Title: fmt.Sprint(i), Pool: "p"}) })
	}
	making.Wait()
	var mu sync.Mutex
	done := map[string]int{}
	deaths := 0
	var wg sync.WaitGroup
	for n := range agents {
		wg.Go(func() {
			path := fmt.Sprint("t/", n)
			me := agent(path, 1)
			begin(t, q, me)
			for i := 1; ; i++ {
				got, err := tryClaim(ctx, q, me, task.Claiming{Pools: []string{"p"}})
				if errors.Is(err, task.ErrNothing) {
					return
				}
				if err != nil {
					t.Errorf("claiming: %v", err)
					return
				}
				if i%7 == n%7 { // it exits while it holds the task
					q.End(path, me.Incarnation, task.Exit{})
					if _, err := tryFinish(ctx, q, me, got.ID, task.Ending{}); !errors.Is(err, task.ErrStale) {
						t.Errorf("the dead close: %v", err)
					}
					me.Incarnation++
					begin(t, q, me)
					mu.Lock()
					deaths++
					mu.Unlock()
					continue
				}
				if _, err := tryFinish(ctx, q, me, got.ID, task.Ending{}); err != nil {
					t.Errorf("closing: %v", err)
					return
				}
				mu.Lock()
				done[got.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The last agent to exit has released what others may have missed.
	for {
		got, err := tryClaim(ctx, q, ann, task.Claiming{Pools: []string{"p"}})
		if err != nil {
			break
		}
		finish(t, q, ann, got.ID)
		done[got.ID]++
	}
	if len(done) != tasks || deaths == 0 {
		t.Errorf("%d tasks done, %d deaths", len(done), deaths)
	}
	for id, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", id, n)
		}
	}
	checkIndex(t, q)
}

// Two queues on one store neither claim a task twice nor create a dependency cycle.
func TestTwoWriters(t *testing.T) {
	s := memory.New()
	defer s.Close()
	a := openQueue(t, s)
	defer a.Close()
	ctx := t.Context()
	const tasks = 60
	var all []task.Task
	for i := range tasks {
		all = append(all, create(t, a, task.Draft{Title: fmt.Sprint(i), Pool: "p"}))
	}
	b := openQueue(t, s) // with all tasks in memory
	defer b.Close()
	cycles := make(chan error, tasks)
	var wg sync.WaitGroup
	for i := 0; i < tasks; i += 2 {
		x, y := all[i].ID, all[i+1].ID
		edit := func(q *Queue, x, y string) {
			_, err := edit(ctx, q, ann, x, task.Edit{AddDepends: []string{y}})
			if err != nil && !errors.Is(err, task.ErrInvalid) {
				t.Errorf("%v", err)
			}
			cycles <- err
		}
		wg.Go(func() { edit(a, x, y) })
		wg.Go(func() { edit(b, y, x) })
	}
	wg.Wait()
	close(cycles)
	refused := 0
	for err := range cycles {
		if err != nil {
			refused++
		}
	}
	if refused != tasks/2 {
		t.Errorf("%d of %d cycles were refused", refused, tasks/2)
	}
	var mu sync.Mutex
	claimed := map[string]int{}
	for n, q := range []*Queue{a, b} {
		wg.Go(func() {
			me := agent(fmt.Sprint("t/", n), 1)
			begin(t, q, me)
			for {
				got, err := tryClaim(ctx, q, me, task.Claiming{Pools: []string{"p"}})
				if errors.Is(err, task.ErrNothing) {
					return
				}
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				mu.Lock()
				claimed[got.ID]++
				mu.Unlock()
				if _, err := tryFinish(ctx, q, me, got.ID, task.Ending{}); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	if len(claimed) < tasks/2 {
		t.Errorf("%d were claimed", len(claimed))
	}
}

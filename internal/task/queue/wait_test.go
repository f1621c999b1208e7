package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/task"
)

// counted is a context that counts the calls of Done.
type counted struct {
	context.Context
	waits atomic.Int32
}

func (c *counted) Done() <-chan struct{} {
	c.waits.Add(1)
	return c.Context.Done()
}

// awaiting lets an incarnation of an agent wait for a task of a pool.
type awaiting struct {
	actor task.Actor
	ctx   *counted
	stop  context.CancelFunc
	done  chan struct{}
	got   task.Task
	err   error
}

func await(t *testing.T, q *Queue, path string, c task.Claiming) *awaiting {
	a := &awaiting{actor: agent(path, 1), done: make(chan struct{})}
	begin(t, q, a.actor)
	ctx, stop := context.WithCancel(t.Context())
	a.ctx, a.stop = &counted{Context: ctx}, stop
	go func() {
		defer close(a.done)
		a.got, a.err = q.Await(a.ctx, a.actor, c)
	}()
	synctest.Wait()
	return a
}

// want checks for a claim, which must have happened already.
func (a *awaiting) want(t *testing.T, title string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-a.done:
	default:
		t.Fatalf("%s waits, want %s", a.actor, title)
	}
	if a.err != nil || a.got.Title != title || a.got.Claim.By != a.actor.Path {
		t.Fatalf("%s got %+v, %v, want %s", a.actor, a.got, a.err, title)
	}
}

func (a *awaiting) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-a.done:
		t.Fatalf("%s got %+v, %v, want it to wait", a.actor, a.got, a.err)
	default:
	}
}

// waiting runs a test with a queue in a synctest bubble.
func waiting(t *testing.T, do func(t *testing.T, q *Queue)) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		q := openQueue(t, s)
		defer q.Close()
		do(t, q)
		q.engine.mu.Lock()
		defer q.engine.mu.Unlock()
		if len(q.engine.waiters) > 0 {
			t.Errorf("waiters are left: %v", q.engine.waiters)
		}
	})
}

var ofP = task.Claiming{Pools: []string{"p"}}

// A waiter gets a task as soon as one is ready, for any reason.
func TestAwait(t *testing.T) {
	soon := func() time.Time { return time.Now().Add(time.Hour) }
	for _, tt := range []struct {
		what  string
		ready func(t *testing.T, q *Queue)
	}{
		{"it is there", nil},
		{"it is made", func(t *testing.T, q *Queue) { create(t, q, task.Draft{Title: "x", Pool: "p"}) }},
		{"it is assigned", func(t *testing.T, q *Queue) { create(t, q, task.Draft{Title: "x", Assignee: "t/a"}) }},
		{"its time comes", func(t *testing.T, q *Queue) {
			create(t, q, task.Draft{Title: "later", Pool: "p", NotBefore: soon().Add(time.Second)})
			create(t, q, task.Draft{Title: "x", Pool: "p", NotBefore: soon()})
			time.Sleep(time.Until(soon()) - time.Millisecond)
			time.Sleep(time.Millisecond)
		}},
		{"what it waits for is closed", func(t *testing.T, q *Queue) {
			first := create(t, q, task.Draft{Title: "first"})
			create(t, q, task.Draft{Title: "x", Pool: "p", DependsOn: []string{first.ID}})
			finish(t, q, ann, first.ID)
		}},
		{"who had it has died", func(t *testing.T, q *Queue) {
			b := agent("t/b", 1)
			begin(t, q, b)
			x := create(t, q, task.Draft{Title: "x"})
			claim(t, q, b, task.Claiming{ID: x.ID})
			pool := "p"
			if _, err := edit(t.Context(), q, ann, x.ID, task.Edit{Pool: &pool}); err != nil {
				t.Fatal(err)
			}
			q.End("t/b", 1, task.Exit{})
			if err := q.ReleaseOrphans(t.Context(), "t/b"); err != nil {
				t.Fatal(err)
			}
		}},
		{"a person retries it", func(t *testing.T, q *Queue) {
			x := create(t, q, task.Draft{Title: "x", Pool: "p", Status: task.Blocked})
			if _, err := retry(t.Context(), q, ann, x.ID, ""); err != nil {
				t.Fatal(err)
			}
		}},
		{"it is imported", func(t *testing.T, q *Queue) {
			bring(t, q, `{"id":"bd-1","title":"x","status":"open","coppice":{"pool":"p"}}`+"\n")
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			waiting(t, func(t *testing.T, q *Queue) {
				if tt.ready == nil {
					create(t, q, task.Draft{Title: "x", Pool: "p"})
				}
				a := await(t, q, "t/a", ofP)
				if tt.ready != nil {
					a.waits(t)
					tt.ready(t, q)
				}
				a.want(t, "x")
			})
		})
	}
}

// Tasks go to those that have waited longest, one each. The others are not woken.
func TestAwaitInTurn(t *testing.T) {
	waiting(t, func(t *testing.T, q *Queue) {
		const waiters, tasks = 100, 30
		var all []*awaiting
		for n := range waiters {
			all = append(all, await(t, q, fmt.Sprintf("t/a%03d", n), ofP))
		}
		for n := range tasks {
			create(t, q, task.Draft{Title: fmt.Sprint(n), Pool: "p"})
			if n%3 > 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		titles := map[string]bool{}
		for n, a := range all {
			if n >= tasks {
				a.waits(t)
				if clearWakeup := a.ctx.waits.Load(); clearWakeup != 1 {
					t.Errorf("%s has looked %d times, and nothing was there for it", a.actor, clearWakeup)
				}
				continue
			}
			select {
			case <-a.done:
				titles[a.got.Title] = true
			default:
				t.Errorf("%s waits, and was among the first", a.actor)
			}
		}
		if len(titles) != tasks {
			t.Errorf("%d tasks were claimed", len(titles))
		}
		for _, a := range all[tasks:] {
			a.stop()
			<-a.done
			if !errors.Is(a.err, context.Canceled) {
				t.Errorf("%v", a.err)
			}
		}
	})
}

// A wait that ends passes on the task for which it was woken.
func TestAwaitEnds(t *testing.T) {
	waiting(t, func(t *testing.T, q *Queue) {
		dies, leaves, stays := await(t, q, "t/dies", ofP), await(t, q, "t/leaves", ofP), await(t, q, "t/stays", ofP)
		q.End("t/dies", 1, task.Exit{})
		synctest.Wait()
		<-dies.done
		wantErr(t, dies.err, task.ErrStale)
		leaves.stop()
		<-leaves.done
		wantErr(t, leaves.err, context.Canceled)
		create(t, q, task.Draft{Title: "x", Pool: "p"})
		stays.want(t, "x")
		// A woken waiter that cannot claim the task passes it on.
		greedy := agent("t/greedy", 1)
		begin(t, q, greedy)
		for n := range task.MaxHeld {
			create(t, q, task.Draft{Title: fmt.Sprint(n), Pool: "p"})
			claim(t, q, greedy, ofP)
		}
		full, hungry := await(t, q, "t/greedy", ofP), await(t, q, "t/hungry", ofP)
		create(t, q, task.Draft{Title: "y", Pool: "p"})
		hungry.want(t, "y")
		<-full.done
		wantErr(t, full.err, task.ErrFull)
		// A new incarnation replaces one whose end was not recorded.
		old := await(t, q, "t/old", ofP)
		q.Begin("t/old", lifeOf(2))
		<-old.done
		wantErr(t, old.err, task.ErrStale)
		// A woken waiter that claims another task leaves this one to the next.
		both, next := await(t, q, "t/both", ofP), await(t, q, "t/next", ofP)
		q.engine.mu.Lock()
		go create(t, q, task.Draft{Title: "pool", Pool: "p"})
		go create(t, q, task.Draft{Title: "own", Assignee: "t/both"})
		q.engine.mu.Unlock()
		synctest.Wait()
		<-both.done
		if both.got.Title == "own" {
			next.want(t, "pool")
			return
		}
		next.waits(t)
		next.stop()
		<-next.done
	})
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		q := openQueue(t, s)
		a := await(t, q, "t/a", ofP)
		q.Close()
		<-a.done
		wantErr(t, a.err, store.ErrClosed)
		_, err := q.Await(t.Context(), a.actor, ofP)
		wantErr(t, err, store.ErrClosed)
		_, err = q.Await(t.Context(), a.actor, task.Claiming{ID: "x"})
		wantErr(t, err, task.ErrInvalid)
	})
}

// With store faults, each task goes to one waiter, and no waiter is forgotten.
func TestAwaitFaults(t *testing.T) {
	inner := memory.New()
	defer inner.Close()
	s := storetest.NewFaults(inner, 7, storetest.Rates{Unknown: 0.3, Conflict: 0.3})
	q := openQueue(t, s)
	defer q.Close()
	const waiters, each = 8, 25
	var mu sync.Mutex
	var got []string
	var all sync.WaitGroup
	for n := range waiters {
		actor := agent(fmt.Sprint("t/a", n), 1)
		begin(t, q, actor)
		all.Go(func() {
			for range each {
				known, err := q.Await(t.Context(), actor, ofP)
				for errors.Is(err, store.ErrUnknown) {
					known, err = q.Await(t.Context(), actor, ofP)
				}
				if err != nil {
					t.Errorf("%s: %v", actor, err)
					return
				}
				mu.Lock()
				got = append(got, known.ID)
				mu.Unlock()
			}
		})
	}
	for n := range waiters * each {
		create(t, q, task.Draft{Title: fmt.Sprint(n), Pool: "p"})
	}
	all.Wait()
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != waiters*each {
		t.Errorf("%d tasks were claimed, want %d", n, waiters*each)
	}
}

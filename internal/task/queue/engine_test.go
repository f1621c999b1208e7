package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

// gated is a store whose writes wait until the test lets them through or fails them.
type gated struct {
	store.Store
	gate   chan error // nil: let through
	writes int
}

func (g *gated) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	g.writes++
	select {
	case err := <-g.gate:
		if err != nil {
			return 0, err
		}
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return g.Store.Apply(ctx, f, conds, ops)
}

// bubble runs a test with a queue on a gated store in a synctest bubble.
func bubble(t *testing.T, do func(t *testing.T, q *Queue, g *gated)) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		g := &gated{Store: inner, gate: make(chan error)}
		q := openQueue(t, g)
		defer q.Close()
		do(t, q, g)
	})
}

// Decisions during a write are written together. Each builds on the one before, and the last state
// of a task is written.
func TestGroup(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, g *gated) {
		ctx := t.Context()
		done := make(chan error, 100)
		var id string
		go func() {
			made, _, err := q.Create(ctx, ann, task.Draft{Title: "0"})
			id = made.ID
			done <- err
		}()
		synctest.Wait()
		g.gate <- nil
		<-done
		go func() { done <- second(comment(ctx, q, ann, id, "hold the writer up", "")) }()
		synctest.Wait()
		const n = 10
		for i := range n {
			title := fmt.Sprint(i + 1)
			go func() { done <- second(edit(ctx, q, ann, id, task.Edit{Title: &title, Text: &title})) }()
			synctest.Wait()
		}
		select {
		case err := <-done:
			t.Fatalf("something is done before it is written: %v", err)
		default:
		}
		g.gate <- nil
		synctest.Wait()
		g.gate <- nil
		for range n + 1 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if g.writes != 3 {
			t.Errorf("%d writes, want 3", g.writes)
		}
		q.Close()
		again := openQueue(t, g.Store)
		defer again.Close()
		if d, err := again.Get(ctx, id); err != nil || d.Task.Title != fmt.Sprint(n) || d.Text != fmt.Sprint(n) || len(d.Comments) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// No caller gets an answer that is based on steps that are not durable.
func TestDirty(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, g *gated) {
		ctx := t.Context()
		begin(t, q, agent("t/a", 1))
		begin(t, q, agent("t/b", 1))
		var id string
		go func() {
			made, _, _ := q.Create(ctx, ann, task.Draft{Title: "x"})
			id = made.ID
		}()
		synctest.Wait()
		g.gate <- nil
		synctest.Wait()
		a, b, list := make(chan error, 1), make(chan error, 1), make(chan []task.Task, 1)
		go func() { a <- second(tryClaim(ctx, q, agent("t/a", 1), task.Claiming{ID: id})) }()
		synctest.Wait()
		go func() { b <- second(tryClaim(ctx, q, agent("t/b", 1), task.Claiming{ID: id})) }()
		go func() {
			all, err := q.List(ctx, task.Filter{}, 0, "")
			if err != nil {
				t.Error(err)
			}
			list <- all
		}()
		synctest.Wait()
		if len(a)+len(b)+len(list) > 0 {
			t.Fatal("a caller got an answer before the write")
		}
		g.gate <- store.ErrFull // the claim of a fails after all
		synctest.Wait()
		if err := <-a; !errors.Is(err, store.ErrFull) {
			t.Errorf("%v", err)
		}
		g.gate <- nil
		if err := <-b; err != nil {
			t.Errorf("%v", err)
		}
		if all := <-list; len(all) != 1 || all[0].Claim != nil && all[0].Claim.By != "t/b" {
			t.Errorf("%+v", all)
		}
	})
}

// Closing a queue during a write fails all pending calls.
func TestCloseUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, g *gated) {
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- third(q.Create(t.Context(), ann, task.Draft{Title: "x"})) }()
			synctest.Wait()
		}
		q.Close()
		for range 2 {
			if err := <-errs; !errors.Is(err, store.ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if _, err := q.List(t.Context(), task.Filter{}, 0, ""); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

func third[A, B any](_ A, _ B, err error) error { return err }

// A record that cannot be read affects no other one. A task with an unknown status is listed, and
// cannot be claimed.
func TestBadRecords(t *testing.T) {
	s := memory.New()
	defer s.Close()
	ctx := t.Context()
	q := openQueue(t, s)
	good := create(t, q, task.Draft{Title: "good"})
	q.Close()
	for key, value := range map[string]string{
		"work/tasks/web-1": "{", "work/tasks/web-2": `{"id":"web-3"}`, "work/tasks/web-4": `[]`,
		"work/tasks/web-5": `{"id":"web-5","title":"later","status":"dreaming","priority":1}`,
	} {
		if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: key, Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	q = openQueue(t, s)
	defer q.Close()
	all, err := q.List(ctx, task.Filter{All: true}, 0, "")
	if err != nil || ids(all) != "later good" || all[0].Status != task.Blocked || all[0].Ready {
		t.Errorf("%+v, %v", all, err)
	}
	create(t, q, task.Draft{Title: "more", DependsOn: []string{good.ID}})
}

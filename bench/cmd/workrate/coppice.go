//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coppice-dev/coppice/bench/internal/project"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/task"
	taskqueue "github.com/coppice-dev/coppice/internal/task/queue"
)

// pool is the pool of the tasks.
const pool = "p"

// throughQueue is the package, with an event for each step, as the daemon writes one.
type throughQueue struct {
	q  *taskqueue.Queue
	db store.Store
}

func openQueue(ctx context.Context, dir string, n int) (queue, error) {
	db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"))
	if err != nil {
		return nil, err
	}
	q, err := taskqueue.Open(ctx, taskqueue.Options{Store: db, Name: "bench", Also: func(e task.Event) []store.Op {
		value, _ := json.Marshal(e) // texts and times
		return []store.Op{{Kind: store.Append, Key: "events", Value: value}}
	}})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for i := range n {
		q.Begin(who(i).Path, task.Life{Incarnation: 1, ID: who(i).Path})
	}
	return &throughQueue{q, db}, nil
}

func who(i int) task.Actor { return task.Actor{Path: fmt.Sprint("bench/a", i), Incarnation: 1} }

func (q *throughQueue) add(ctx context.Context, i int) error {
	_, _, err := q.q.Create(ctx, who(i), task.Draft{Title: title, Text: text, Pool: pool})
	return err
}

func (q *throughQueue) do(ctx context.Context, i int) (bool, error) {
	t, err := q.q.Change(ctx, func(s *task.Step) (task.Task, error) {
		return s.Claim(who(i), task.Claiming{Pools: []string{pool}})
	})
	if errors.Is(err, task.ErrNothing) {
		return false, nil
	}
	if err == nil {
		_, err = q.q.Change(ctx, func(s *task.Step) (task.Task, error) {
			return s.Finish(who(i), t.ID, task.Ending{})
		})
	}
	return err == nil, err
}

func (q *throughQueue) close() error {
	q.q.Close()
	return q.db.Close()
}

// throughSocket is a daemon, whose agents act over a connection each.
type throughSocket struct{ *project.Project }

func openSocket(coppice, dir string, n int) (queue, error) {
	p, err := project.Start(coppice, dir, n)
	if err != nil {
		return nil, err
	}
	return throughSocket{p}, nil
}

func (q throughSocket) add(ctx context.Context, i int) error {
	_, err := task.Add.Call(ctx, q.Agents[i], task.AddRequest{Task: task.Draft{Title: title, Text: text, Pool: pool,
		Key: rand.Text()}})
	return err
}

func (q throughSocket) do(ctx context.Context, i int) (bool, error) {
	got, err := task.Claim.Call(ctx, q.Agents[i], task.ClaimRequest{Pools: []string{pool}, Key: rand.Text()})
	if err != nil || len(got) == 0 {
		return false, err
	}
	_, err = task.Act.Call(ctx, q.Agents[i], task.ActRequest{ID: got[0].ID, Action: task.Close})
	return err == nil, err
}

func (q throughSocket) close() error { return q.End() }
